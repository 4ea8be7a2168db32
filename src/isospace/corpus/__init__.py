"""Sentences from files, streams and packages: read, cleaned, without repetition, hashed."""
