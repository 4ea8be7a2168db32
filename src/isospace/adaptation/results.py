"""The contents of candidates.json and base_models.json; no other module knows their fields."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isospace.statistics.gains import Gain
from isospace.system import typed_json

FILE, FORMAT = "candidates.json", 3
VALIDATION = "validation MRR"
"""The column of the MRRs that select."""
REJECTED = "rejected: drops too much"
"""A candidate that loses more than `max_drop` on other text."""


@dataclass(frozen=True)
class CandidateScores:
    """One candidate model and its scores on the validation pairs.

    Attributes:
        name: what it is, in words.
        kind: the row of the table that it belongs to.
        mrr: of the validation pairs, 0 to 1.
        other_text: set -> change over the base model on the validation part, in units of 0 to 1.
        allowed: whether it loses at most `max_drop` points there.
    """

    name: str
    kind: str
    mrr: float
    other_text: dict[str, float]
    allowed: bool


@dataclass(frozen=True)
class BestOfKind:
    """The best candidate of one kind, on the validation pairs.

    Attributes:
        kind: the row of the table.
        name: which candidate it is.
        selected: whether it is the adapted model.
        mrr: of the validation pairs, 0 to 1.
        gain: of that over the base model; `None` of the base model. The gain of the selected
            candidate is too high, because it was selected by it.
        other_text: set -> gain over the base model on the validation part.
        seconds: what the kind took, without the kinds before it.
    """

    kind: str
    name: str
    selected: bool
    mrr: float
    gain: Gain | None
    other_text: dict[str, Gain]
    seconds: float


@dataclass(frozen=True)
class ChangedQuery:
    """A query of the test pairs, before and after.

    Attributes:
        query: the first text of a pair.
        right: the second.
        ranks: of the right one, by the base model and by the adapted model.
        first: the texts that were ranked first, by the base model and by the adapted model.
    """

    query: str
    right: str
    ranks: tuple[float, float]
    first: tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class SearchResults:
    """The candidates of one run of `adapt`; its scores on test pairs are in results.json.

    Attributes:
        candidates: all, in the order in which they were tried.
        best: the best of each kind, the base model first.
        baselines: MRR on the validation pairs of "BM25" and of "base model + BM25".
        notes: why candidates are missing, in sentences; empty where none is.
        selected_on: the validation pairs, in words.
        max_drop: points that a candidate may lose on other text.
        other_text: what is measured there, in words.
        better: queries that gained most.
        worse: queries that lost most.
        seconds: wall clock of the whole, sessions before a resumption included.
        baseline_gains: name in `baselines` -> gain of its MRR over the base model's.
        format: of the file.
    """

    candidates: tuple[CandidateScores, ...]
    best: tuple[BestOfKind, ...]
    baselines: dict[str, float]
    notes: tuple[str, ...]
    selected_on: str
    max_drop: float
    other_text: str
    better: tuple[ChangedQuery, ...]
    worse: tuple[ChangedQuery, ...]
    seconds: float
    baseline_gains: dict[str, Gain]
    format: int = FORMAT

    @property
    def selected(self) -> BestOfKind:
        """The candidate that was selected; the base model where no other was better."""
        return next(one for one in self.best if one.selected)

    def rows(self) -> list[dict[str, str]]:
        """Return the table of the best of each kind, x 100, with the baselines."""
        rows: list[dict[str, str]] = []
        names = dict.fromkeys(name for one in self.best for name in one.other_text)
        too_much = {one.name for one in self.candidates if not one.allowed}
        for one in self.best:
            row = {"": one.kind, VALIDATION: f"{100 * one.mrr:.2f}", "gain": ""}
            if one.gain is not None:
                row["gain"] = one.gain.points
            row["minutes"] = f"{one.seconds / 60:.1f}"
            for name in names:
                found = one.other_text.get(name)
                row[_validation(name)] = "" if found is None else found.points
            if one.selected:
                row["selected"] = "yes"
            elif one.name in too_much:
                row["selected"] = REJECTED
            rows.append(row)
        others = [
            {"": name, VALIDATION: f"{100 * mrr:.2f}", "gain": self.baseline_gains[name].points}
            for name, mrr in self.baselines.items()
        ]
        return [rows[0], *others, *rows[1:]]

    def all_rows(self) -> list[dict[str, str]]:
        """Return the table of all candidates on the validation pairs, x 100."""
        words = {True: "", False: REJECTED}
        return [
            {"": one.name, VALIDATION: f"{100 * one.mrr:.2f}"}
            | {_validation(name): f"{100 * x:+.2f}" for name, x in one.other_text.items()}
            | {"selected": "yes" if one.name == self.selected.name else words[one.allowed]}
            for one in self.candidates
        ]


def _validation(name: str) -> str:
    """Return the column of a set's pairs that select; the test pairs have the plain name."""
    return f"{name}, validation"


_BASE_MODELS = "base_models.json"


@dataclass(frozen=True)
class BaseModelScores:
    """One base model that was compared with others, before and after whitening.

    Attributes:
        name: as the user gave it.
        dim: width of its vectors.
        texts_per_second: documents that it encodes, timed in turns with the other models.
        candidate: the version that the validation pairs selected, in words.
        validation: MRR of that version on the validation pairs, 0 to 1.
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

    Attributes:
        models: of two or more.
        selected: the name of the model that the search goes on with.
        gain: of the selected model over the second best, both whitened, on the test pairs.
        verdict: that gain in a sentence.
        format: of the file.
    """

    models: tuple[BaseModelScores, ...]
    selected: str
    gain: Gain
    verdict: str
    format: int = 1

    def rows(self, name: str = "", mrr: float = 0.0) -> list[dict[str, str]]:
        """Return the table of all models, x 100.

        Args:
            name: the adapted model of the whole search, for a row of its own; empty for none.
            mrr: of that on the test pairs.
        """
        rows = []
        for one in self.models:
            row = {
                "": one.name,
                "dimensions": str(one.dim),
                "texts a second": f"{one.texts_per_second:.3g}",
                VALIDATION: f"{100 * one.validation:.2f}",
                "base model": f"{100 * one.base:.2f}",
                "adapted": f"{100 * one.adapted:.2f}",
                "by": one.candidate,
                "selected": "yes" if one.name == self.selected else "",
            }
            rows.append(row)
            if name and one.name == self.selected:
                rows.append({**row, VALIDATION: "", "adapted": f"{100 * mrr:.2f}", "by": name})
        return rows


def write_base_models(folder: Path, compared: BaseModels) -> None:
    """Write base_models.json."""
    typed_json.write(folder / _BASE_MODELS, compared)


def read_base_models(folder: Path) -> BaseModels | None:
    """Read base_models.json of a run; `None` where no base models were compared.

    Raises:
        UserError: the file is damaged, or another version's.
    """
    if not (folder / _BASE_MODELS).is_file():
        return None
    return typed_json.read(folder / _BASE_MODELS, BaseModels, "base models of a run", known=1)


def write_candidates(folder: Path, candidates: SearchResults) -> None:
    """Write candidates.json."""
    typed_json.write(folder / FILE, candidates)


def read_candidates(folder: Path) -> SearchResults | None:
    """Read candidates.json of a run; `None` where the run is not of `adapt`.

    Raises:
        UserError: the file is damaged, or another version's.
    """
    if not (folder / FILE).is_file():
        return None
    return typed_json.read(folder / FILE, SearchResults, "candidates of a run", FORMAT)
