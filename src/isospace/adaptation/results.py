"""Contents of candidates.json; no other module knows its fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from isospace.statistics.gains import Gain
from isospace.system import typed_json

CANDIDATES = "candidates.json"
"""File in the folder of a run."""
VALIDATION = "validation MRR"
"""Column of the MRR on the validation pairs."""
REJECTED = "rejected: drops too much"
"""Mark of a candidate that drops more than `max_drop` points on other text."""


@dataclass(frozen=True)
class CandidateScores:
    """One candidate model and its scores on the validation pairs.

    Attributes:
        kind: its row in the table, where the best of each kind is shown.
        gain: gain of `mrr` over the base model; `None` for the base model. For the selected
            candidate the gain is too high, because the same pairs selected it.
        other_text: set -> gain over the base model on the set's validation part.
        allowed: true if it drops at most `max_drop` points on other text.
    """

    name: str
    kind: str
    mrr: float
    gain: Gain | None
    other_text: dict[str, Gain]
    allowed: bool
    selected: bool


@dataclass(frozen=True)
class ChangedQuery:
    """A test pair: ranks of the `right` text, and `first` texts, by base and adapted model."""

    query: str
    right: str
    ranks: tuple[float, float]
    first: tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class SearchResults:
    """The candidates of one run of `adapt`; its scores on test pairs are in results.json.

    Attributes:
        candidates: in the order in which they were tried, the base model first.
        baselines: "BM25" and "base model + BM25" -> gain over the base model on validation pairs.
        other_text: description of the sets of other text.
        seconds: wall clock of the search, since it began or was resumed.
    """

    candidates: tuple[CandidateScores, ...]
    baselines: dict[str, Gain]
    notes: tuple[str, ...] = ()
    selected_on: str = ""
    other_text: str = ""
    better: tuple[ChangedQuery, ...] = ()
    worse: tuple[ChangedQuery, ...] = ()
    seconds: float = 0.0
    format: int = 5

    @property
    def base(self) -> CandidateScores:
        """The base model."""
        return self.candidates[0]

    @property
    def selected(self) -> CandidateScores:
        """The selected candidate; the base model if no other was better."""
        return next(one for one in self.candidates if one.selected)

    @property
    def best(self) -> list[CandidateScores]:
        """The best allowed candidate of each kind, or the best if none is allowed."""
        found: dict[str, CandidateScores] = {}
        for one in self.candidates:
            known = found.setdefault(one.kind, one)
            if (one.allowed, one.mrr) > (known.allowed, known.mrr):
                found[one.kind] = one
        return list(found.values())

    def rows(self) -> list[dict[str, str]]:
        """Return the table of the baselines and the best candidate of each kind, x 100."""
        sets = dict.fromkeys(name for one in self.best for name in one.other_text)
        first, *others = (_row(one, sets) for one in self.best)
        baselines = [
            {"": name, VALIDATION: f"{100 * (self.base.mrr + gain.mean):.2f}", "gain": gain.points}
            for name, gain in self.baselines.items()
        ]
        return [first, *baselines, *others]


def _row(one: CandidateScores, sets: Iterable[str]) -> dict[str, str]:
    row = {"": one.kind, VALIDATION: f"{100 * one.mrr:.2f}"}
    row["gain"] = "" if one.gain is None else one.gain.points
    for name in sets:  # the test part has the plain name
        found = one.other_text.get(name)
        row[f"{name}, validation"] = "" if found is None else found.points
    return row | {"selected": "yes" if one.selected else "" if one.allowed else REJECTED}


def read_candidates(folder: Path) -> SearchResults | None:
    """Read candidates.json of a run; `None` if `adapt` did not make the run."""
    path = folder / CANDIDATES
    return typed_json.read(path, SearchResults, "candidates of a run") if path.is_file() else None
