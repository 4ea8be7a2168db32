"""From a text and an encoder to the best model for it: candidates, from cheap to dear."""
