"""What ladder.json holds: the one place that knows its fields."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isospace.statistics.gains import Gain
from isospace.system import typed_json

FILE, FORMAT = "ladder.json", 2
"""1 had no gains of what stands beside the start."""
VALIDATION = "validation MRR"
"""The column of the MRRs that select."""


@dataclass(frozen=True)
class Tried:
    """A state of the encoder on the items that choose.

    Attributes:
        words: what it is.
        kind: the rung that it may stand on.
        mrr: of the pairs that choose.
        elsewhere: set -> change over the start on the part that chooses, in units of 0 to 1.
        allowed: whether it loses little enough there to be taken.
    """

    words: str
    kind: str
    mrr: float
    elsewhere: dict[str, float]
    allowed: bool


@dataclass(frozen=True)
class Rung:
    """The best of its kind, on the items that choose.

    Attributes:
        name: of the kind.
        words: which state it is.
        chosen: whether it is what the ladder ends with.
        mrr: of the pairs that choose, 0 to 1.
        gain: of that over the start; `None` of the start. Of the rung that was chosen it is
            flattered, as it was chosen by it.
        elsewhere: set -> gain over the start on the part that chooses.
        seconds: what it took, beside what is below it.
    """

    name: str
    words: str
    chosen: bool
    mrr: float
    gain: Gain | None
    elsewhere: dict[str, Gain]
    seconds: float


@dataclass(frozen=True)
class Changed:
    """A query of the pairs that judge, before and after.

    Attributes:
        query: the first text of a pair.
        right: the second.
        ranks: of the right one, by the start and by the result.
        first: the texts that stood first, by the start and by the result.
    """

    query: str
    right: str
    ranks: tuple[float, float]
    first: tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Ladder:
    """Everything that a ladder says beside the results of its run (results.json).

    Attributes:
        tried: every state, in the order in which they were tried.
        rungs: from the start on.
        beside: MRR on the pairs that choose of "BM25" and of "start + BM25".
        story: why rungs are missing, in sentences; empty where none is.
        chosen_on: what chose, in words.
        may_lose: points that may be lost elsewhere.
        elsewhere: what is measured there, in words.
        better: queries that gained most.
        worse: queries that lost most.
        seconds: wall clock of the whole, sessions before a resumption included.
        beside_gains: of the names in `beside`, the gain of that MRR over the start's; empty of
            older ladders.
        format: of the file.
    """

    tried: tuple[Tried, ...]
    rungs: tuple[Rung, ...]
    beside: dict[str, float]
    story: tuple[str, ...]
    chosen_on: str
    may_lose: float
    elsewhere: str
    better: tuple[Changed, ...]
    worse: tuple[Changed, ...]
    seconds: float
    beside_gains: dict[str, Gain]
    format: int = FORMAT

    @property
    def chosen(self) -> Rung:
        """The rung that the ladder ends with."""
        return next(rung for rung in self.rungs if rung.chosen)

    def rows(self) -> list[dict[str, str]]:
        """The ladder as a table, x 100: gains over the start, and what every rung took."""
        rows: list[dict[str, str]] = []
        names = dict.fromkeys(name for rung in self.rungs for name in rung.elsewhere)
        too_much = {one.words for one in self.tried if not one.allowed}
        for rung in self.rungs:
            row = {"": rung.name, VALIDATION: f"{100 * rung.mrr:.2f}", "gain": ""}
            if rung.gain is not None:
                row["gain"] = rung.gain.points
            row["minutes"] = f"{rung.seconds / 60:.1f}"
            for name in names:
                found = rung.elsewhere.get(name)
                row[_validation(name)] = "" if found is None else found.points
            if rung.chosen:
                row["taken"] = "yes"
            elif rung.words in too_much:
                row["taken"] = "loses too much"
            rows.append(row)
        others = [
            {"": name, VALIDATION: f"{100 * mrr:.2f}"}
            | ({"gain": self.beside_gains[name].points} if name in self.beside_gains else {})
            for name, mrr in self.beside.items()
        ]
        return [rows[0], *others, *rows[1:]]

    def tried_rows(self) -> list[dict[str, str]]:
        """What chose: every state on the choosing items."""
        return [
            {"": one.words, VALIDATION: f"{100 * one.mrr:.2f}"}
            | {_validation(name): f"{100 * x:+.2f}" for name, x in one.elsewhere.items()}
            | {"may be taken": "yes" if one.allowed else "no"}
            for one in self.tried
        ]


def _validation(name: str) -> str:
    """Return the column of a set's pairs that select; the test pairs have the plain name."""
    return f"{name}, validation"


def write_ladder(folder: Path, ladder: Ladder) -> None:
    """Write ladder.json."""
    typed_json.write(folder / FILE, ladder)


def read_ladder(folder: Path) -> Ladder | None:
    """Read ladder.json of a run; `None` where it is no ladder's.

    Raises:
        UserError: the file is damaged, or a newer version's.
    """
    if not (folder / FILE).is_file():
        return None
    return typed_json.read(folder / FILE, Ladder, "rungs of a ladder", FORMAT, _upgrade)


def _upgrade(content: dict[str, Any]) -> dict[str, Any]:
    if content.get("format", 1) == 1:
        content = {**content, "beside_gains": {}, "format": 2}
    return content
