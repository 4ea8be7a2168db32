"""Texts in an embedded vector database: indexed once, then searched by meaning."""

from isospace.search.index import SearchIndex
from isospace.search.results import Changes, Hit, Results

__all__ = ["Changes", "Hit", "Results", "SearchIndex"]
