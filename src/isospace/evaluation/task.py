"""Evaluation tasks: what they are given, the scores that they return, and cells of their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from isospace.config import EvaluateConfig
from isospace.evaluation.own_data import OwnData
from isospace.evaluation.pairs import PromptedEncoders
from isospace.evaluation.senteval import STSSet

if TYPE_CHECKING:
    from isospace.encoders.settings import Precision


class TitledRows(NamedTuple):
    """Table for people: title, rows as column -> cell, and a note below."""

    title: str
    rows: list[dict[str, str]]
    note: str = ""


@dataclass(frozen=True)
class Request:
    """An evaluation's settings, and the data that several tasks share."""

    config: EvaluateConfig
    folder: Path | None
    sts: Mapping[str, STSSet]
    own: Sequence[OwnData]


@dataclass(frozen=True)
class Conditions:
    """Conditions of all scores; `precision` is that of the matrix products."""

    model: str
    pooling: str
    precision: Precision


class TaskScores(Protocol):
    """Scores of one model on a task."""

    def to_json(self) -> Any:
        """Return every number with its protocol, in JSON types."""

    def tables(self, conditions: Conditions) -> list[TitledRows]:
        """Return tables for people."""


Task: TypeAlias = Callable[[Request], Callable[[PromptedEncoders], TaskScores] | None]
"""Function that reads a task's data before a model is loaded, and returns the function that scores
a model; `None` if the task is not requested or has no data."""


def with_average(row: Mapping[str, float]) -> dict[str, float]:
    """Return a row of a paper's table with the mean of its rounded numbers."""
    return {**row, "Avg": round(sum(row.values()) / len(row), 2)}


def cells(row: Mapping[str, float]) -> dict[str, str]:
    """Format the cells of a table with two decimals.

    >>> cells({"MR": 81.5})
    {'MR': '81.50'}
    """
    return {name: f"{value:.2f}" for name, value in row.items()}


def percent_cells(row: Mapping[str, float]) -> dict[str, str]:
    """Format shares as cells, times 100."""
    return cells({name: 100 * value for name, value in row.items()})
