"""Comparison of candidates by seeds on one corpus: runs, scores, verdict."""
