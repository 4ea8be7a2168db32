"""The tables of what happened on other text than the corpus."""

from __future__ import annotations

from isospace.comparison.results import ComparisonResults
from isospace.evaluation.elsewhere import PROTOCOL
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


def elsewhere_gains_table(name: str, results: ComparisonResults) -> Table | None:
    """What each row gains or loses elsewhere; `None` of runs of before this was measured."""
    if not results.elsewhere:
        return None
    rows = [
        {"": row} | {column: found.points for column, found in gains.items()}
        for row, gains in results.elsewhere.items()
    ]
    note = (
        f"Gain over the start x 100: {PROTOCOL}. In brackets 95 % intervals {chance(results)}, "
        "each by itself; nothing was chosen by these sets."
    )
    return Table("elsewhere-gains", f"Comparison {name}: elsewhere", rows, note)


def elsewhere_table(run_set: RunSet) -> Table | None:
    """Every set elsewhere before and after; `None` of older runs."""
    rows = []
    for group, runs in run_set.groups().items():
        done = [results.elsewhere for results in finished(runs) if results.elsewhere]
        for column in done[0] if done else ():
            found = [sets[column] for sets in done if column in sets]
            gains = [one.gain for one in found]
            rows.append(
                {
                    "objective": group + not_shipped(finished(runs)),
                    "elsewhere": column,
                    "gain": gains[0].points
                    if len(gains) == 1
                    else mean_sd([100 * one.mean for one in gains], sign="+"),
                    "start": mean_sd_of_different([100 * one.start for one in found]),
                    "result": mean_sd_of_different([100 * one.result for one in found]),
                }
            )
    if not rows:
        return None
    note = (
        f"x 100, {MEAN_SD}, where they differ; of a single run the gain's 95 % interval in "
        f"brackets. {PROTOCOL}."
    )
    return Table("elsewhere", "Elsewhere: before and after, on other text", rows, note)
