"""The candidates of adapt on a page: a picture, tables, and the queries that changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isospace.adaptation.results import (
    ChangedQuery,
    SearchResults,
    read_base_models,
    read_candidates,
)
from isospace.evaluation.scores import BASE
from isospace.report import figures
from isospace.statistics.gains import Gain
from isospace.system.tables import Table
from isospace.training.run import Run


@dataclass(frozen=True)
class CandidatesPart:
    """Part of a page that shows the candidates."""

    picture: figures.Picture
    base_models: Table | None
    best: Table
    tried: Table
    better: tuple[ChangedQuery, ...]
    worse: tuple[ChangedQuery, ...]


def candidates_part(run: Run, number: int, split: bool) -> CandidatesPart | None:
    """Return the part for a run of adapt; `None` for other runs.

    Args:
        run: the run.
        number: number of the run on the page.
        split: true if no validation pair is a test pair.
    """
    candidates = read_candidates(run.folder)
    if candidates is None:
        return None
    picture = figures.picture(
        figures.candidates(_marks(candidates)),
        f"candidates-{number}",
        "Chart: validation MRR of each candidate",
        "Candidates",
        "Validation pairs. A line is the 95 % interval of the gain over the base model, which the "
        "dashed line goes through.",
        2 * figures.WIDTH,
    )
    verdict = "is of test pairs" if split else "allows for that, as there are no other pairs"
    both = "" if split else " and the test pairs"
    best = Table(
        "candidates",
        f"Candidates: x 100, {candidates.selected_on}, which are the validation pairs{both}",
        candidates.rows(),
        " ".join(
            [
                "Gains are over the base model, with 95 % intervals. The gain of the selected "
                "candidate is too high, because these pairs selected it: the verdict above "
                f"{verdict}. They may have selected the weight of BM25 too. Columns of other text "
                "are changes on its validation pairs; a table below is of its test pairs: "
                f"{candidates.other_text}. Minutes are a candidate's own.",
                *candidates.notes,
            ]
        ),
    )
    tried = Table(
        "tried",
        "All candidates, x 100",
        candidates.all_rows(),
        "Other columns are changes on validation pairs of other text. What loses more there than "
        f"{candidates.max_drop:g} points is rejected.",
    )
    return CandidatesPart(
        picture, _base_models(run), best, tried, candidates.better, candidates.worse
    )


def _base_models(run: Run) -> Table | None:
    """Return the table of the base models; `None` if the run did not compare any."""
    compared = read_base_models(run.folder)
    if compared is None:
        return None
    return Table(
        "base-models",
        "Base models: MRR x 100 on the test pairs",
        compared.rows(),
        "Each base model is whitened, where that helps. The validation pairs selected the version "
        "and the model. Texts a second were timed in turns. The last column names the model that "
        f"was then fine-tuned. {compared.verdict}",
    )


def _marks(candidates: SearchResults) -> list[dict[str, Any]]:
    marks: list[dict[str, Any]] = []
    start = 100 * candidates.best[0].mrr
    for one in candidates.best:
        state = "selected" if one.selected else BASE if one.gain is None else "candidate"
        label = f"{one.kind}: {100 * one.mrr:.2f} ({one.name})"
        marks.append(_mark(one.kind, one.mrr, state, label, one.gain, start))
    others = [
        _mark(
            name,
            mrr,
            "BM25",
            f"{name}: {100 * mrr:.2f}",
            candidates.baseline_gains.get(name),
            start,
        )
        for name, mrr in candidates.baselines.items()
    ]
    return [marks[0], *others, *marks[1:]]


def _mark(
    name: str, mrr: float, state: str, label: str, gain: Gain | None, start: float
) -> dict[str, Any]:
    """Return the values of a point and its interval, x 100.

    The interval is that of the gain, added to the base model's MRR `start`.
    """
    mark: dict[str, Any] = {"name": name, "value": 100 * mrr, "state": state, "label": label}
    if gain is not None:
        mark["label"] = f"{label}, gain {gain.points}"
        mark |= {"low": start + 100 * gain.low, "high": start + 100 * gain.high}
    return mark
