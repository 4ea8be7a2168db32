"""A ladder's part of the page: its rungs as a picture and a table, and the queries that changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isospace.adaptation.results import Changed, Ladder, read_ladder
from isospace.report import figures
from isospace.statistics.gains import Gain
from isospace.system.tables import Table
from isospace.training.run import Run


@dataclass(frozen=True)
class LadderPart:
    """What a page shows of a ladder."""

    picture: figures.Picture
    rungs: Table
    tried: Table
    better: tuple[Changed, ...]
    worse: tuple[Changed, ...]


def ladder_part(run: Run, number: int, split: bool) -> LadderPart | None:
    """Of a run that a ladder left; `None` of any other.

    Args:
        run: its folder.
        number: the run's on the page.
        split: whether others than the pairs that choose have judged.
    """
    ladder = read_ladder(run.folder)
    if ladder is None:
        return None
    picture = figures.picture(
        figures.ladder(_marks(ladder)),
        f"ladder-{number}",
        "Chart: validation MRR of each rung of the ladder",
        "The ladder",
        "Validation pairs. A line is the 95 % interval of the gain over the start, which the "
        "dashed line goes through.",
        2 * figures.WIDTH,
    )
    verdict = "is of test pairs" if split else "allows for that, as there are no other pairs"
    both = "" if split else " and the test pairs"
    rungs = Table(
        "ladder",
        f"The ladder: x 100, {ladder.chosen_on}, which are the validation pairs{both}",
        ladder.rows(),
        " ".join(
            [
                "Gains are over the row start, with 95 % intervals. The gain of the row that was "
                "taken is too high, because these pairs selected it: the verdict above "
                f"{verdict}. They may have selected the weight of BM25 too. Columns of other text "
                "are changes on its validation pairs; a table below is of its test pairs: "
                f"{ladder.elsewhere}. Minutes are a rung's own.",
                *ladder.story,
            ]
        ),
    )
    tried = Table(
        "tried",
        "Every state that was tried, x 100",
        ladder.tried_rows(),
        "Other columns are changes on validation pairs of other text. What loses more there than "
        f"{ladder.may_lose:g} points may not be taken.",
    )
    return LadderPart(picture, rungs, tried, ladder.better, ladder.worse)


def _marks(ladder: Ladder) -> list[dict[str, Any]]:
    marks: list[dict[str, Any]] = []
    start = 100 * ladder.rungs[0].mrr
    for rung in ladder.rungs:
        state = "taken" if rung.chosen else "start" if rung.gain is None else "rung"
        label = f"{rung.name}: {100 * rung.mrr:.2f} ({rung.words})"
        marks.append(_mark(rung.name, rung.mrr, state, label, rung.gain, start))
    others = [
        _mark(name, mrr, "BM25", f"{name}: {100 * mrr:.2f}", ladder.beside_gains.get(name), start)
        for name, mrr in ladder.beside.items()
    ]
    return [marks[0], *others, *marks[1:]]


def _mark(
    name: str, mrr: float, state: str, label: str, gain: Gain | None, start: float
) -> dict[str, Any]:
    """A point, and where there is a gain its interval around the start's MRR, x 100."""
    mark: dict[str, Any] = {"name": name, "value": 100 * mrr, "state": state, "label": label}
    if gain is not None:
        mark["label"] = f"{label}, gain {gain.points}"
        mark |= {"low": start + 100 * gain.low, "high": start + 100 * gain.high}
    return mark
