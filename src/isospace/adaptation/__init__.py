"""Adapting an encoder to a text: candidates, their validation, and the test of the best."""
