"""Views of a batch, token ids, edits and perturbations: the input of objectives."""

from isospace.views.view import (
    NO_TARGET,
    Edit,
    Ids,
    Perturbation,
    Read,
    TokenIds,
    TokenStates,
    View,
    Views,
    Vocabulary,
    describe_views,
)

__all__ = [
    "NO_TARGET",
    "Edit",
    "Ids",
    "Perturbation",
    "Read",
    "TokenIds",
    "TokenStates",
    "View",
    "Views",
    "Vocabulary",
    "describe_views",
]
