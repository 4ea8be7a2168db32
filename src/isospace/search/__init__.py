"""Semantic search over texts in an embedded vector database."""

from isospace.search.database import Hit
from isospace.search.index import SearchIndex, SearchResults
from isospace.search.rows import Changes

__all__ = ["Changes", "Hit", "SearchIndex", "SearchResults"]
