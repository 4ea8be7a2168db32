"""Texts in an embedded vector database: indexed once, then searched by meaning."""

from isospace.search.database import Hit
from isospace.search.index import SearchIndex, SearchResults
from isospace.search.rows import Changes

__all__ = ["Changes", "Hit", "SearchIndex", "SearchResults"]
