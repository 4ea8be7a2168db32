"""Whitening a finished model: fit, choose how far, fold, judge."""
