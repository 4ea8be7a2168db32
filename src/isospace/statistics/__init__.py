"""Paired scores with groups to gain, interval and verdict, by pure functions."""
