"""Semantic search over texts in an embedded vector database."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isospace.search.database import Changes, Hit
    from isospace.search.index import SearchIndex, SearchResults

__all__ = ["Changes", "Hit", "SearchIndex", "SearchResults"]


def __getattr__(name: str) -> Any:
    """Import the index when one of its names is first used, because torch takes seconds."""
    if name not in __all__:
        raise AttributeError(name)
    from isospace.search import index

    return getattr(index, name)
