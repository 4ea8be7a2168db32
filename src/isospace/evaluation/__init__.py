"""Measuring an encoder: STS, geometry, retrieval, and whether a difference is one.

Nothing here knows a model. An encoder is a function from a sequence of sentences to a float32 array
with one row a sentence (`pairs.Encode`).
"""
