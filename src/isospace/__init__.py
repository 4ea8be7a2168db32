"""Adapt a sentence encoder to your own text, without labels, and measure whether that helped.

The names for Python users are here. Each is imported when it is first used, because torch takes
seconds. Import everything else from its package. The reference of the documentation describes them.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isospace.adaptation.adapt import adapt as adapt
    from isospace.adaptation.whiten import whiten_model as whiten_model
    from isospace.comparison.compare import compare as compare
    from isospace.config import (
        AdaptConfig as AdaptConfig,
        CorpusConfig as CorpusConfig,
        DistillConfig as DistillConfig,
        EvaluateConfig as EvaluateConfig,
        TrainConfig as TrainConfig,
        WhitenConfig as WhitenConfig,
    )
    from isospace.errors import Stopped as Stopped, UserError as UserError
    from isospace.evaluation.evaluate import evaluate as evaluate
    from isospace.export.distill import distill as distill
    from isospace.objectives import OBJECTIVES as OBJECTIVES
    from isospace.search.embedder import Embedder as Embedder, load as load
    from isospace.training.objective_loss import ObjectiveLoss as ObjectiveLoss
    from isospace.training.train import train as train

__version__ = version("isospace")

_MODULES = {
    "OBJECTIVES": "objectives",
    "AdaptConfig": "config",
    "CorpusConfig": "config",
    "DistillConfig": "config",
    "Embedder": "search.embedder",
    "EvaluateConfig": "config",
    "ObjectiveLoss": "training.objective_loss",
    "Stopped": "errors",
    "TrainConfig": "config",
    "UserError": "errors",
    "WhitenConfig": "config",
    "adapt": "adaptation.adapt",
    "compare": "comparison.compare",
    "distill": "export.distill",
    "evaluate": "evaluation.evaluate",
    "load": "search.embedder",
    "train": "training.train",
    "whiten_model": "adaptation.whiten",
}
"""The module that each public name is imported from."""

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"isospace.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'isospace' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
