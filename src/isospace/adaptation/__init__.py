"""From a text and an encoder to the best model for it: a ladder of rungs, from cheap to dear."""
