"""Train, measure and ship sentence embeddings without labels.

The parts that users call: `isospace.load`, `isospace.training.train.train`,
`isospace.evaluation.evaluate.evaluate`, `isospace.encoders.loading.load_encoder`, and
`isospace.objectives.OBJECTIVES`.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isospace.search.embedder import load as load

__version__ = version("isospace")


def __getattr__(name: str) -> Any:
    """`isospace.load`, imported when it is wanted: torch takes seconds."""
    if name == "load":
        from isospace.search.embedder import load

        return load
    raise AttributeError(f"module 'isospace' has no attribute {name!r}")
