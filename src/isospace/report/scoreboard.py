"""The tables of a report: comparisons, the runs, and the papers' tables from `papers`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from isospace.comparison.results import ComparisonProtocol, ComparisonResults, RowGain
from isospace.report.papers import (
    STATES,
    finished,
    mean_sd,
    papers_table,
    scores_of,
    sts_rows,
    transfer_table,
)
from isospace.report.run_set import RunSet
from isospace.statistics.bootstrap import CONFIDENCE
from isospace.statistics.gains import Gain
from isospace.system.tables import Table
from isospace.training.results import RunResults
from isospace.training.run import Run

_PAIR_SCORES = {"MRR", "R@1"}


def all_tables(run_set: RunSet) -> list[Table]:
    """Every table that there are numbers for, the verdicts of comparisons first.

    No two have the same name: tables of several comparisons are numbered.
    """
    tables = []
    for i, (name, results) in enumerate(run_set.comparisons.items(), start=1):
        number = f"-{i}" if len(run_set.comparisons) > 1 else ""
        if results is not None:
            of_comparison = (make_table(name, results) for make_table in COMPARISON_TABLES)
            tables += [replace(table, name=table.name + number) for table in of_comparison if table]
    tables.append(runs_table(run_set))
    return [*tables, *filter(None, (papers_table(run_set), transfer_table(run_set)))]


def comparison_table(name: str, results: ComparisonResults) -> Table:
    """What `isospace compare` found: mean and sd over seeds, gains over the start, Holm's p.

    The papers' columns have a table of their own.
    """
    measure = results.measure
    rows = []
    for candidate, columns in results.scores.items():
        shown = dict.fromkeys([measure, "MRR", "R@1"])
        row = {"": candidate} | {column: mean_sd(columns[column].seeds) for column in shown}
        if candidate in results.gains:
            gain = results.gains[candidate][measure]
            over_start = gain.over_start
            row["seeds"] = str(over_start.seeds)
            row[f"gain in {measure}"] = f"{100 * over_start.mean:+.2f}"
            row["95 % interval"] = f"{100 * over_start.low:+.2f} to {100 * over_start.high:+.2f}"
            row["p (Holm)"] = _p(gain.holm_p)
            row["p against best"] = _p(gain.holm_p_against_best)
        rows.append(row)
    note = (
        "x 100, mean ± standard deviation over the seeds. "
        f"{_protocol(results.protocol)} {_differences(results)}The interval is over seeds and test "
        "items. p is of the gain over the start, corrected for all rows, and of Welch's test over "
        "seeds against the row with the best mean, corrected for all pairs of rows (Holm)."
    )
    return Table("comparison", f"Comparison {name}", rows, note)


def _differences(results: ComparisonResults) -> str:
    """The settings in which the rows differ, beside the options of their objectives."""
    rows = [
        f"{row}: {', '.join(f'{name} {value}' for name, value in settings.items())}"
        for row, settings in results.differing_settings().items()
    ]
    return f"Settings that differ: {'; '.join(rows)}. " if rows else ""


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _protocol(protocol: ComparisonProtocol) -> str:
    sts = f" STS: {protocol.sts}." if protocol.sts else ""
    unseen = f" Unseen: {protocol.unseen}." if protocol.unseen else ""
    chosen = f"Checkpoints chosen by {protocol.checkpoints}."
    return f"MRR and R@1: {protocol.pairs}.{sts}{unseen} {chosen}"


def gains_table(name: str, results: ComparisonResults) -> Table | None:
    """The gain in every score, with its interval; `None` if only pairs were scored."""

    def shown(gain: RowGain) -> str:
        return gain_interval(gain.over_start) + ("*" if gain.holm_p < 1 - CONFIDENCE else "")

    note = (
        "Gain over the start x 100, mean over the seeds, and its 95 % interval over seeds and test "
        "items. * p below 5 %, corrected for the rows (Holm) but not for the number of scores."
    )
    return _by_score("gains", f"Comparison {name}: gains in every score", results, shown, note)


def against_best_table(name: str, results: ComparisonResults) -> Table | None:
    """Welch's p against the best row of every score.

    `None` if only pairs were scored, or nothing could be tested.
    """
    note = (
        "p of Welch's test over seeds against the row with the best mean in that score, corrected "
        "for all pairs of rows (Holm); empty for that row, and where seeds are too few to test."
    )

    def shown(gain: RowGain) -> str:
        return _p(gain.holm_p_against_best)

    tested = [gain for columns in results.gains.values() for gain in columns.values()]
    if all(gain.holm_p_against_best is None for gain in tested):
        return None
    title = f"Comparison {name}: p against the best in every score"
    return _by_score("against-best", title, results, shown, note)


def _by_score(
    name: str,
    caption: str,
    results: ComparisonResults,
    shown: Callable[[RowGain], str],
    note: str,
) -> Table | None:
    """A row per score, a column per candidate."""
    gains = results.gains
    scores = list(next(iter(gains.values())))
    if not set(scores) - _PAIR_SCORES:
        return None
    rows = [{"": score} | {row: shown(gains[row][score]) for row in gains} for score in scores]
    return Table(name, caption, rows, note)


COMPARISON_TABLES = (comparison_table, gains_table, against_best_table)
"""Name and results of a comparison -> a table, or `None` where it would say nothing more."""


def gain_interval(gain: Gain) -> str:
    """A gain and its interval, x 100."""
    return f"{100 * gain.mean:+.2f} ({100 * gain.low:+.2f} to {100 * gain.high:+.2f})"


def runs_table(run_set: RunSet) -> Table:
    """A row per setting: scores before and after as mean, sd and n over its seeds, verdicts."""
    rows = [_runs_row(group, runs) for group, runs in run_set.groups().items()]
    protocols = dict.fromkeys(
        results.verdict.protocol for results in finished([named.run for named in run_set.runs])
    )
    note = "; ".join(protocols)
    if note:
        note = f"x 100, mean ± standard deviation where the n seeds differ. Measured by: {note}."
    return Table("runs", "Runs: before and after", rows, note)


def _runs_row(group: str, runs: Sequence[Run]) -> dict[str, str]:
    config, done = runs[0].config, finished(runs)
    verdicts = [results.verdict.kind.value for results in done]
    verdicts += ["unfinished"] * (len(runs) - len(done))
    counts = Counter(verdicts)
    verdict = ", ".join(f"{n} {v}" if len(verdicts) > 1 else v for v, n in counts.items())
    row = {"objective": group, "verdict": verdict}
    if done:
        scores = {
            state: [100 * scores_of(results, state).pairs.mrr for results in done]
            for state in STATES
        }
        row |= {f"MRR {state}": _mean_sd_of_different(values) for state, values in scores.items()}
        gains = np.subtract(scores["result"], scores["start"])
        row["gain in MRR"] = f"{gains.mean():+.2f}"
        for state in STATES:
            averages = [row["Avg"] for row in sts_rows(done, state) if "Avg" in row]
            if averages:
                row[f"STS {state}"] = _mean_sd_of_different(averages)
        row["n"] = str(len(done))
        row["kept"] = _kept(done)
    return row | {"model": Path(config.model).name}


def _mean_sd_of_different(values: Sequence[float]) -> str:
    """One number where all seeds have the same, as of a start: a spread of 0 says nothing."""
    return mean_sd(values if np.ptp(values) > 0 else values[:1])


def _kept(done: Sequence[RunResults]) -> str:
    """The rule that chose the checkpoints, and their steps; label use is said."""
    steps = ", ".join(str(results.choice.step) for results in done)
    return f"{done[0].selected_by}, step {steps}"
