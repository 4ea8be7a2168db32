"""The tables of a report: comparisons, the runs, and the papers' tables from `papers`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from isospace.comparison.results import (
    ComparisonProtocol,
    ComparisonResults,
    RowGain,
)
from isospace.report.elsewhere import elsewhere_gains_table, elsewhere_table
from isospace.report.papers import (
    MEAN_SD,
    STATES,
    finished,
    mean_sd_of_different,
    papers_table,
    scores_of,
    sts_rows,
    transfer_table,
)
from isospace.report.retrieval import (
    bm25_table,
    chance,
    retrieval_cells,
    retrieval_table,
)
from isospace.report.run_set import RunSet
from isospace.statistics.decision import Difference
from isospace.statistics.gains import CONFIDENCE
from isospace.system.tables import Table
from isospace.training.results import RunResults
from isospace.training.run import Run


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
    makers = (retrieval_table, elsewhere_table, papers_table, transfer_table)
    return [*tables, *filter(None, (make(run_set) for make in makers))]


def comparison_table(name: str, results: ComparisonResults) -> Table:
    """What `isospace compare` found: mean and sd over seeds, gains over the start, Holm's p.

    The papers' columns have a table of their own.
    """
    measure, criterion = results.measure, results.protocol.criterion
    rows = []
    for candidate, columns in results.scores.items():
        row = {"": candidate} | retrieval_cells(columns, measure)
        chose = results.criterion.get(candidate)
        row[criterion] = "" if chose is None else f"{100 * chose:.2f}"
        if candidate in results.gains:
            found = results.gains[candidate][measure]
            row["seeds"] = "" if candidate in results.baselines else str(found.over_start.seeds)
            row[f"gain in {measure}"] = f"{100 * found.over_start.mean:+.2f}"
            row["95 % interval"] = found.over_start.interval
            row["p (Holm)"] = _p(found.holm_p)
        rows.append(row)
    protocol = results.protocol
    seeds = max(columns[measure].n for columns in results.scores.values())
    spread = f", mean ± standard deviation of {seeds} seeds" if seeds > 1 else ""
    note = (
        f"x 100{spread}. {_protocol(protocol)} {criterion}, mean over the seeds, chose the row "
        f"that is judged. {_baselines(results)}{_settings_that_differ(results)}The interval is "
        f"{chance(results)}. p is of the gain over the start, corrected for all rows (Holm)."
    )
    if measure == "MRR" and not protocol.split:
        note += (
            " The pairs are too few to split: they chose the checkpoints too, which intervals and "
            "p of MRR in these tables do not allow for; the verdict does."
        )
    return Table("comparison", f"Comparison {name}", rows, note)


def _baselines(results: ComparisonResults) -> str:
    """Which rows are no candidates, and what that means."""
    if not results.baselines:
        return ""
    rows = ", ".join(f"{row} ({model})" for row, model in results.baselines.items())
    return (
        f"Baselines, scored once as they are: {rows}; nothing was chosen among them, so the "
        "verdict is never on one, and their gains are judged for other test items alone. "
    )


def _settings_that_differ(results: ComparisonResults) -> str:
    """The settings in which the rows differ, beside the options of their objectives."""
    rows = [
        f"{row}: {', '.join(f'{name} {value}' for name, value in settings.items())}"
        for row, settings in results.differing_settings().items()
    ]
    return f"Settings that differ: {'; '.join(rows)}. " if rows else ""


def _p(value: float) -> str:
    return f"{value:.3g}"


def _protocol(protocol: ComparisonProtocol) -> str:
    sts = f" STS: {protocol.sts}." if protocol.sts else ""
    unseen = f" Unseen: {protocol.unseen}." if protocol.unseen else ""
    chosen = f"Checkpoints chosen by {protocol.checkpoints}."
    return f"Retrieval: {protocol.pairs}.{sts}{unseen} {chosen}"


def gains_table(name: str, results: ComparisonResults) -> Table | None:
    """The gain in every score, with its interval; `None` if only pairs were scored."""
    gains = results.gains
    scores = list(next(iter(gains.values())))
    if scores == ["MRR"]:
        return None
    rows = [
        {"": score} | {row: _gain_interval(columns[score]) for row, columns in gains.items()}
        for score in scores
    ]
    note = (
        "Gain over the start x 100, mean over the seeds, and its 95 % interval "
        f"{chance(results)}. * p below 5 %, corrected for the rows (Holm) but not for the number "
        "of scores."
    )
    return Table("gains", f"Comparison {name}: gains in every score", rows, note)


def _gain_interval(found: RowGain) -> str:
    """A gain and its interval, x 100, and whether it is beyond chance."""
    gain, sure = found.over_start, found.holm_p < 1 - CONFIDENCE
    return f"{gain.points}{'*' if sure else ''}"


def differences_table(name: str, results: ComparisonResults) -> Table | None:
    """Which candidate is ahead of which in what the verdict is about; `None` for one alone."""
    measure, found = results.measure, results.differences[results.measure]
    if not found:
        return None
    rows = [
        {
            "": f"{one.ahead} over {one.behind}",
            f"difference in {measure}": f"{100 * one.gain.mean:+.2f}",
            "95 % interval": one.gain.interval,
            "p (Holm)": _p(one.holm_p),
            "found": _found(one),
        }
        for one in found
    ]
    note = (
        f"Difference of the means over the seeds x 100, and its 95 % interval {chance(results)}, "
        f"of this pair alone. p is {_corrected(len(found))}. Shown: p below 5 %. Within a point: "
        "the interval lies between -1 and +1. Cannot tell: neither; they may be equal or not."
    )
    return Table("differences", f"Comparison {name}: differences in {measure}", rows, note)


def all_differences_table(name: str, results: ComparisonResults) -> Table | None:
    """The same in every score, in short; `None` if only pairs were scored, or for one alone."""
    scores, pairs = list(results.differences), results.differences[results.measure]
    if scores == ["MRR"] or not pairs:
        return None
    rows = []
    for first, second in ((one.ahead, one.behind) for one in pairs):
        row = {"": f"{first} over {second}"}
        for score in scores:
            [one] = [
                d for d in results.differences[score] if {d.ahead, d.behind} == {first, second}
            ]
            ahead = round(100 * one.gain.mean, 2) * (1 if one.ahead == first else -1) + 0.0
            row[score] = f"{ahead:+.2f}{'*' if one.shown else ''}{'=' if one.equivalent else ''}"
        rows.append(row)
    note = (
        f"Differences x 100. * shown: p below 5 %, {_corrected(len(pairs))} but not corrected for "
        "the number of scores. = within a point: the 95 % interval lies between -1 and +1. Without "
        "a mark the test cannot tell."
    )
    return Table("all-differences", f"Comparison {name}: differences in every score", rows, note)


def _found(one: Difference) -> str:
    found = ["shown"] * one.shown + ["within a point"] * one.equivalent
    return ", ".join(found) or "cannot tell"


def _corrected(pairs: int) -> str:
    return "of the only pair of rows" if pairs == 1 else f"corrected for all {pairs} pairs (Holm)"


COMPARISON_TABLES = (
    comparison_table,
    bm25_table,
    elsewhere_gains_table,
    gains_table,
    differences_table,
    all_differences_table,
)
"""Name and results of a comparison -> a table, or `None` where it would say nothing more."""


def runs_table(run_set: RunSet) -> Table:
    """A row per setting: scores before and after as mean, sd and n over its seeds, verdicts."""
    rows = [_runs_row(group, runs) for group, runs in run_set.groups().items()]
    protocols = dict.fromkeys(
        results.verdict.protocol for results in finished([named.run for named in run_set.runs])
    )
    note = "; ".join(protocols)
    if note:
        note = (
            f"x 100, {MEAN_SD}, n of them, where they differ. Gains are those of the verdicts, "
            "without what choosing by the same pairs has added. Cost: time and peak memory of the "
            f"longest run. Measured by: {note}."
        )
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
        row |= {f"MRR {state}": mean_sd_of_different(values) for state, values in scores.items()}
        row["gain in MRR"] = f"{100 * fmean(map(_gain, done)):+.2f}"
        for state in STATES:
            averages = [row["Avg"] for row in sts_rows(done, state) if "Avg" in row]
            if averages:
                row[f"STS {state}"] = mean_sd_of_different(averages)
        row["n"] = str(len(done))
        row["kept"] = _kept(done)
        row["cost"] = max(done, key=lambda results: results.seconds).cost
    return row | {"model": Path(config.model).name}


def _gain(results: RunResults) -> float:
    """That of the verdict, which leaves out what choosing by the same pairs has added."""
    gain = results.verdict.gain
    if gain is None:  # nothing was compared
        return results.result.pairs.mrr - results.start.pairs.mrr
    return gain.mean


def _kept(done: Sequence[RunResults]) -> str:
    """What was chosen, and by which rule; label use is said."""
    chosen = ", ".join(results.made or str(results.choice.step) for results in done)
    return f"{done[0].selected_by}, {'' if done[0].made else 'step '}{chosen}"
