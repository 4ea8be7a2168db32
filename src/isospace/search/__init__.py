"""Semantic search over texts in an embedded vector database."""

from isospace.search.database import Changes, Hit
from isospace.search.index import SearchIndex, SearchResults

__all__ = ["Changes", "Hit", "SearchIndex", "SearchResults"]
