"""Evaluation of encoders: STS, retrieval, transfer, geometry, and the benchmark of a run.

Nothing here knows a model. An encoder is a function from a sequence of sentences to a float32 array
with one row a sentence (`pairs.Encode`).
"""
