"""Encoders from text to vector: dropout, pooling, loading and saving."""
