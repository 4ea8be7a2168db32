"""Evaluation tasks: each loads its data, scores a model, and shows the scores.

A task is one file: a `Task` that loads data and scores a model, and the `Scores` that it returns.
`isospace evaluate` runs the tasks in `evaluate.TASKS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from isospace.evaluation.evaluate_config import EvaluateConfig
from isospace.evaluation.own_data import OwnData
from isospace.evaluation.pairs import PromptedEncoders
from isospace.evaluation.senteval import STSSet

if TYPE_CHECKING:
    from isospace.encoders.encoder import Encoder
    from isospace.encoders.pooling import Precision


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


@dataclass(frozen=True)
class Subject:
    """Model under evaluation."""

    conditions: Conditions
    encoder: Encoder
    encode: PromptedEncoders
    encode_afresh: PromptedEncoders


class Scores(Protocol):
    """Scores of one model on a task."""

    def to_json(self) -> Any:
        """Return every number with its protocol, in JSON types."""

    def tables(self, conditions: Conditions, subsets: bool) -> list[TitledRows]:
        """Return tables for people; `subsets` adds every sub-set and setting."""


ScoresT = TypeVar("ScoresT", bound=Scores)


class Task(ABC, Generic[ScoresT]):
    """A task to score models on, with its data loaded."""

    name: ClassVar[str]
    """Key of the task in the JSON of an evaluation."""

    @classmethod
    @abstractmethod
    def load(cls, request: Request) -> Task[ScoresT] | None:
        """Read the data; return `None` if the task is not requested or has no data.

        Raises:
            UserError: the task is requested, but data or settings do not allow it. No model is
                loaded yet.
        """

    @abstractmethod
    def score(self, subject: Subject) -> ScoresT:
        """Score a model."""


def with_average(known: Mapping[str, float], columns: Iterable[str]) -> dict[str, float | None]:
    """Return a row of a paper's table: the columns, and the mean of the rounded numbers.

    A column without a number is `None`, and then the average is `None` too.
    """
    row = {column: known.get(column) for column in columns}
    average = round(sum(known.values()) / len(known), 2) if len(known) == len(row) else None
    return row | {"Avg": average}


def cells(row: Mapping[str, float | None]) -> dict[str, str]:
    """Format the cells of a table with two decimals, without columns that are `None`.

    >>> cells({"MR": 81.5, "CR": None})
    {'MR': '81.50'}
    """
    return {name: f"{value:.2f}" for name, value in row.items() if value is not None}


def percent_cells(row: Mapping[str, float]) -> dict[str, str]:
    """Format shares as cells, times 100."""
    return cells({name: 100 * value for name, value in row.items()})
