"""Contents of candidates.json and base_models.json; no other module knows their fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from isospace.statistics.gains import Gain
from isospace.system import typed_json

CANDIDATES, BASE_MODELS = "candidates.json", "base_models.json"
"""Files in the folder of a run."""
VALIDATION = "validation MRR"
"""Column of the MRR on the validation pairs."""
REJECTED = "rejected: drops too much"
"""Mark of a candidate that drops more than `max_drop` points on other text."""


@dataclass(frozen=True)
class CandidateScores:
    """One candidate model and its scores on the validation pairs.

    Attributes:
        kind: its row in the table, where the best of each kind is shown.
        mrr: MRR on the validation pairs, 0 to 1.
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
        candidates: all candidates in the order in which they were tried, the base model first.
        baselines: gains of "BM25" and of "base model + BM25" over the base model on the validation
            pairs.
        other_text: description of the sets of other text.
        seconds: wall clock of the whole search, with earlier sessions of a resumed run.
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
        """The best candidate of each kind that may be selected, or else of all of the kind."""
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


@dataclass(frozen=True)
class BaseModelScores:
    """One base model in a comparison of base models, before and after whitening.

    Attributes:
        texts_per_second: documents that it encodes per second.
        candidate: description of the selected version: the model itself, or a map behind it.
        validation: MRR of the selected version on the validation pairs, 0 to 1.
        base: MRR of the model itself on the test pairs.
        adapted: MRR of the selected version on the test pairs.
    """

    name: str
    dim: int
    texts_per_second: float
    candidate: str
    validation: float
    base: float
    adapted: float


@dataclass(frozen=True)
class BaseModels:
    """Base models that one run of `adapt` compared, in the order in which they were named.

    `gain` is that of the selected model over the second best, each in its selected version, on the
    test pairs.
    """

    models: tuple[BaseModelScores, ...]
    selected: str
    gain: Gain
    verdict: str
    format: int = 1

    def rows(self) -> list[dict[str, str]]:
        """Return the table of all models, x 100."""
        return [
            {
                "": one.name,
                "dimensions": str(one.dim),
                "texts a second": f"{one.texts_per_second:.3g}",
                VALIDATION: f"{100 * one.validation:.2f}",
                "base model": f"{100 * one.base:.2f}",
                "adapted": f"{100 * one.adapted:.2f}",
                "by": one.candidate,
                "selected": "yes" if one.name == self.selected else "",
            }
            for one in self.models
        ]


def read_candidates(folder: Path) -> SearchResults | None:
    """Read candidates.json of a run; `None` if `adapt` did not make the run."""
    path = folder / CANDIDATES
    return typed_json.read(path, SearchResults, "candidates of a run") if path.is_file() else None


def read_base_models(folder: Path) -> BaseModels | None:
    """Read base_models.json of a run; `None` if no base models were compared."""
    path = folder / BASE_MODELS
    return typed_json.read(path, BaseModels, "base models of a run") if path.is_file() else None
