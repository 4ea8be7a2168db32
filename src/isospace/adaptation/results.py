"""Contents of candidates.json and base_models.json; no other module knows their fields."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from isospace.statistics.gains import Gain
from isospace.system import typed_json

T = TypeVar("T")

FILE, FORMAT = "candidates.json", 3
VALIDATION = "validation MRR"
"""Column of the MRR on the validation pairs."""
REJECTED = "rejected: drops too much"
"""Mark of a candidate that drops more than `max_drop` points on other text."""


@dataclass(frozen=True)
class CandidateScores:
    """One candidate model and its scores on the validation pairs.

    Attributes:
        kind: its row in the table.
        mrr: MRR on the validation pairs, 0 to 1.
        other_text: set -> change over the base model on the set's validation part, 0 to 1.
        allowed: true if it drops at most `max_drop` points on other text.
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
        mrr: MRR on the validation pairs, 0 to 1.
        gain: gain of `mrr` over the base model; `None` for the base model. For the selected
            candidate the gain is too high, because the same pairs selected it.
        other_text: set -> gain over the base model on the set's validation part.
        seconds: time for this kind, without the kinds before it.
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
        right: the second text of the pair.
        ranks: ranks of the right text by the base model and by the adapted model.
        first: top texts by the base model and by the adapted model.
    """

    query: str
    right: str
    ranks: tuple[float, float]
    first: tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class SearchResults:
    """The candidates of one run of `adapt`; its scores on test pairs are in results.json.

    Attributes:
        candidates: all candidates, by kind, in the order in which the kinds were tried.
        best: the best candidate of each kind, the base model first.
        baselines: MRR on the validation pairs of "BM25" and of "base model + BM25".
        notes: remarks for the user, such as reasons for missing candidates.
        selected_on: description of the validation pairs.
        max_drop: largest drop on other text, in points of 100.
        other_text: description of the sets of other text.
        seconds: wall clock of the whole search, with earlier sessions of a resumed run.
        baseline_gains: name in `baselines` -> gain of its MRR over the base model's.
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
        """The selected candidate; the base model if no other was better."""
        return next(one for one in self.best if one.selected)

    def rows(self) -> list[dict[str, str]]:
        """Return the table of the baselines and the best candidate of each kind, x 100."""
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
    """Return the column name of a set's validation part; its test part has the plain name."""
    return f"{name}, validation"


_BASE_MODELS, _BASE_MODELS_FORMAT = "base_models.json", 1


@dataclass(frozen=True)
class BaseModelScores:
    """One base model in a comparison of base models, before and after whitening.

    Attributes:
        name: name of the model, as the user gave it.
        dim: width of its vectors.
        texts_per_second: documents that it encodes per second, timed in turns with the others.
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

    Attributes:
        selected: name of the model that is fine-tuned.
        gain: gain of the selected model over the second best, each in its selected version, on the
            test pairs.
    """

    models: tuple[BaseModelScores, ...]
    selected: str
    gain: Gain
    verdict: str
    format: int = _BASE_MODELS_FORMAT

    def rows(self, name: str = "", mrr: float = 0.0) -> list[dict[str, str]]:
        """Return the table of all models, x 100.

        Args:
            name: description of the adapted model of the whole search, for another row; empty: no
                such row.
            mrr: MRR of the adapted model on the test pairs.
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


def write_results(folder: Path, results: SearchResults | BaseModels) -> None:
    """Write candidates.json or base_models.json."""
    name = FILE if isinstance(results, SearchResults) else _BASE_MODELS
    typed_json.write(folder / name, results)


def _read(path: Path, kind: type[T], what: str, known: int) -> T | None:
    return typed_json.read(path, kind, what, known) if path.is_file() else None


def read_candidates(folder: Path) -> SearchResults | None:
    """Read candidates.json of a run; `None` if `adapt` did not make the run.

    Raises:
        UserError: the file is damaged, or has another format.
    """
    return _read(folder / FILE, SearchResults, "candidates of a run", FORMAT)


def read_base_models(folder: Path) -> BaseModels | None:
    """Read base_models.json of a run; `None` if no base models were compared.

    Raises:
        UserError: the file is damaged, or has another format.
    """
    return _read(folder / _BASE_MODELS, BaseModels, "base models of a run", _BASE_MODELS_FORMAT)
