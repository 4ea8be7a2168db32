"""Whitening of a trained model: fit, select the power, fold, test."""
