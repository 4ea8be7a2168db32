"""Evaluation of encoders: STS, retrieval, transfer, geometry, and the benchmark of a run.

This package knows no models. An encoder is a function from a sequence of sentences to a float32
array with one row for each sentence (`pairs.Encode`).
"""
