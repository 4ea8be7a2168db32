"""The candidates of adapt on a page: a picture, tables, and the queries that changed."""

from __future__ import annotations

from typing import Any

from isospace.adaptation.results import SearchResults, read_base_models, read_candidates
from isospace.evaluation.scores import BASE
from isospace.report import figures
from isospace.statistics.gains import Gain
from isospace.system.tables import Table
from isospace.training.run import Run


def candidates_part(run: Run, number: int, split: bool) -> dict[str, Any] | None:
    """Return the part of a page on a run of adapt; `None` for other runs.

    `number` is that of the run on the page; `split` is true if no validation pair is a test pair.
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
    return {
        "picture": picture,
        "base_models": _base_models(run),
        "best": best,
        "tried": tried,
        "better": candidates.better,
        "worse": candidates.worse,
    }


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
    """Return the values of each candidate and baseline for `figures.candidates`, x 100.

    An interval is that of the gain, added to the MRR of the base model.
    """
    base = candidates.best[0].mrr

    def mark(
        name: str, mrr: float, state: str, gain: Gain | None, note: str = ""
    ) -> dict[str, Any]:
        label = f"{name}: {100 * mrr:.2f}{note}"
        values = {"name": name, "value": 100 * mrr, "state": state, "label": label}
        if gain is None:
            return values
        interval = {"low": 100 * (base + gain.low), "high": 100 * (base + gain.high)}
        return values | interval | {"label": f"{label}, gain {gain.points}"}

    first, *others = [
        mark(
            one.kind,
            one.mrr,
            "selected" if one.selected else BASE if one.gain is None else "candidate",
            one.gain,
            f" ({one.name})",
        )
        for one in candidates.best
    ]
    baselines = [
        mark(name, mrr, "BM25", candidates.baseline_gains.get(name))
        for name, mrr in candidates.baselines.items()
    ]
    return [first, *baselines, *others]
