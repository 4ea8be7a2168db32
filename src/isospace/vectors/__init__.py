"""Encoding of text of any size to files of vectors."""
