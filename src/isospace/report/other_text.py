"""The tables of what happened on other text than the corpus."""

from __future__ import annotations

from isospace.comparison.results import ComparisonResults
from isospace.evaluation.other_text import PROTOCOL
from isospace.report.papers import (
    MEAN_SD,
    finished,
    mean_sd,
    mean_sd_of_different,
    not_shipped,
)
from isospace.report.retrieval import chance
from isospace.report.run_set import RunSet
from isospace.system.tables import Table


def other_text_gains_table(name: str, results: ComparisonResults) -> Table | None:
    """Return the gains of each row on other text; `None` where it was not measured."""
    if not results.other_text:
        return None
    rows = [
        {"": row} | {column: found.points for column, found in gains.items()}
        for row, gains in results.other_text.items()
    ]
    note = (
        f"Gain over the base model x 100: {PROTOCOL}. In brackets 95 % intervals "
        f"{chance(results)}, each by itself; nothing was chosen by these sets."
    )
    return Table("other-text-gains", f"Comparison {name}: other text", rows, note)


def other_text_table(run_set: RunSet) -> Table | None:
    """Return the scores of every set of other text before and after; `None` of older runs."""
    rows = []
    for group, runs in run_set.groups().items():
        done = [results.other_text for results in finished(runs) if results.other_text]
        for column in done[0] if done else ():
            found = [sets[column] for sets in done if column in sets]
            gains = [one.gain for one in found]
            rows.append(
                {
                    "objective": group + not_shipped(finished(runs)),
                    "other text": column,
                    "gain": gains[0].points
                    if len(gains) == 1
                    else mean_sd([100 * one.mean for one in gains], sign="+"),
                    "base model": mean_sd_of_different([100 * one.base for one in found]),
                    "adapted": mean_sd_of_different([100 * one.adapted for one in found]),
                }
            )
    if not rows:
        return None
    note = (
        f"x 100, {MEAN_SD}, where they differ; of a single run the gain's 95 % interval in "
        f"brackets. {PROTOCOL}."
    )
    return Table("other-text", "Other text: before and after", rows, note)
