"""Text of any size to files of vectors."""
