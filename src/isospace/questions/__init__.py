"""Queries that a language model writes for the passages of a corpus, to train on."""
