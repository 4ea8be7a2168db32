"""What an objective sees of a batch: views, token ids, edits and perturbations."""

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
