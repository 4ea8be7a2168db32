"""The tables of a report: comparisons, the runs, and the papers' tables from `papers`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from isospace.comparison.results import (
    ComparisonProtocol,
    ComparisonResults,
    RowGain,
)
from isospace.evaluation.benchmark import HALVES
from isospace.evaluation.scores import CORRECTED, CORRECTED_NOTE
from isospace.report.other_text import other_text_gains_table, other_text_table
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
from isospace.system.run_folder import ADAPT_SETTINGS
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
            found = comparison_tables(name, results)
            tables += [replace(table, name=table.name + number) for table in found]
    tables.append(runs_table(run_set))
    makers = (retrieval_table, other_text_table, papers_table, transfer_table)
    tables += filter(None, (make(run_set) for make in makers))
    return _with_sts_first(tables) if _sts_leads(run_set) else tables


def _with_sts_first(tables: list[Table]) -> list[Table]:
    """Return tables with those of the sets that the user gave in front."""
    of_sts = ("sts", "gains", "all-differences", "transfer")
    first = [table for name in of_sts for table in tables if table.name.startswith(name)]
    return [*first, *(table for table in tables if table not in first)]


def _sts_leads(run_set: RunSet) -> bool:
    """Tell whether STS sets come first: nobody gave pairs, nor a folder to adapt to."""
    runs = [named.run for named in run_set.runs]
    adapted = any((run.folder / ADAPT_SETTINGS).is_file() for run in runs)
    return not adapted and all(HALVES in one.verdict.protocol for one in finished(runs))


def comparison_tables(name: str, results: ComparisonResults) -> list[Table]:
    """Return the tables of a comparison, of what the user gave data for first."""
    tables = list(filter(None, (make(name, results) for make in COMPARISON_TABLES)))
    return _with_sts_first(tables) if HALVES in results.protocol.pairs else tables


def comparison_table(name: str, results: ComparisonResults) -> Table:
    """What `isospace compare` found: mean and sd over seeds, gains over the base model, Holm's p.

    The papers' columns have a table of their own.
    """
    measure, criterion = results.measure, results.protocol.criterion
    rows = []
    for candidate, columns in results.scores.items():
        scores, chose = retrieval_cells(columns, measure), results.criterion.get(candidate)
        row = {"": candidate, measure: scores[measure]}
        row |= dict.fromkeys((f"gain in {measure}", "95 % interval", "p (Holm)", "seeds"), "")
        if candidate in results.gains:
            found = results.gains[candidate][measure]
            row["seeds"] = "" if candidate in results.baselines else str(found.over_base.seeds)
            row[f"gain in {measure}"] = f"{100 * found.over_base.mean:+.2f}"
            row["95 % interval"] = found.over_base.interval
            row["p (Holm)"] = _p(found.holm_p)
        row[criterion] = "" if chose is None else f"{100 * chose:.2f}"
        rows.append(row | scores)
    protocol = results.protocol
    seeds = max(columns[measure].n for columns in results.scores.values())
    spread = f", mean ± standard deviation of {seeds} seeds" if seeds > 1 else ""
    note = (
        f"x 100{spread}. {_protocol(protocol)} {criterion}, mean over the seeds, chose the row "
        "that is judged. A gain is the difference of unrounded means. "
        f"{_baselines(results)}{_settings_that_differ(results)}The interval is "
        f"{chance(results)}. p is of the gain over the base model, corrected for all rows (Holm)."
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
    scores = _average_first(next(iter(gains.values())))
    if scores == ["MRR"]:
        return None
    rows = [
        {"": score} | {row: _gain_interval(columns[score]) for row, columns in gains.items()}
        for score in scores
    ]
    note = (
        "Gain over the base model x 100, mean over the seeds, and its 95 % interval "
        f"{chance(results)}. * p below 5 %, corrected for the rows (Holm) but not for the number "
        "of scores."
    )
    return Table("gains", f"Comparison {name}: gains in every score", rows, note)


def _average_first(scores: Iterable[str]) -> list[str]:
    """Return the scores with the average of the STS sets in front, where it is seen."""
    return sorted(scores, key=lambda score: not score.startswith("Avg"))


def _gain_interval(found: RowGain) -> str:
    """A gain and its interval, x 100, and whether it is beyond chance."""
    gain, sure = found.over_base, found.holm_p < 1 - CONFIDENCE
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
    scores, pairs = _average_first(results.differences), results.differences[results.measure]
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
    other_text_gains_table,
    gains_table,
    differences_table,
    all_differences_table,
)
"""Name and results of a comparison -> a table, or `None` where it would say nothing more."""


def runs_table(run_set: RunSet) -> Table:
    """A row per setting: scores before and after as mean, sd and n over its seeds, verdicts."""
    done = finished([named.run for named in run_set.runs])
    corrected = any(
        abs(_corrected_mrr(results) - results.adapted.pairs.mrr) > 1e-9 for results in done
    )
    rows = [_runs_row(group, runs, corrected) for group, runs in run_set.groups().items()]
    protocols = dict.fromkeys(results.verdict.protocol for results in done)
    if _sts_leads(run_set):
        rows = [_sts_first(row) for row in rows]
    note = "; ".join(protocols)
    if note:
        note = (
            f"x 100, {MEAN_SD}, n of them, where they differ. A gain is the difference of the "
            "unrounded means, a gain in MRR that of the verdict. "
            f"{f'{CORRECTED_NOTE}; its difference is the gain. ' if corrected else ''}Shipped: "
            "what model/ holds. Cost: time and peak memory of the longest run. Measured by: "
            f"{note}."
        )
    return Table("runs", "Runs: before and after", rows, note)


def _sts_first(row: dict[str, str]) -> dict[str, str]:
    """Return a row with its columns of STS behind the name."""
    first = {column: cell for column, cell in row.items() if "STS" in column}
    return {"objective": row["objective"]} | first | row


def _runs_row(group: str, runs: Sequence[Run], corrected: bool) -> dict[str, str]:
    config, done = runs[0].config, finished(runs)
    verdicts = [results.verdict.kind.value for results in done]
    verdicts += ["unfinished"] * (len(runs) - len(done))
    counts = Counter(verdicts)
    verdict = ", ".join(f"{n} {v}" if len(verdicts) > 1 else v for v, n in counts.items())
    row = {"objective": group, "verdict": verdict}
    if done:
        mrr = {
            state: [100 * scores_of(results, state).pairs.mrr for results in done]
            for state in STATES
        }
        right = [100 * _corrected_mrr(results) for results in done]
        row["gain in MRR"] = f"{fmean(right) - fmean(mrr['base model']):+.2f}"
        row |= {f"MRR {state}": mean_sd_of_different(values) for state, values in mrr.items()}
        if corrected:
            row[CORRECTED] = mean_sd_of_different(right)
        sts = {
            state: [row["Avg"] for row in sts_rows(done, state) if "Avg" in row] for state in STATES
        }
        if all(sts.values()):
            row["gain in STS"] = f"{fmean(sts['adapted']) - fmean(sts['base model']):+.2f}"
            row |= {f"STS {state}": mean_sd_of_different(values) for state, values in sts.items()}
        row["shipped"] = _shipped(done)
        row["kept"] = _kept(done)
        row["n"] = str(len(done))
        row["cost"] = max(done, key=lambda results: results.seconds).cost
    return row | {"model": Path(config.model).name}


def _shipped(done: Sequence[RunResults]) -> str:
    """Say what the folders model/ hold."""
    count = sum(not results.ships_base for results in done)
    if count in (0, len(done)):
        return "adapted" if count else "base model"
    return f"result by {count} of {len(done)}"


def _corrected_mrr(results: RunResults) -> float:
    """Return the MRR of the result without what selection by the same pairs has added."""
    gain, start = results.verdict.gain, results.base.pairs.mrr
    # The base model itself was not compared: the gain is the best of all others.
    if gain is None or results.adapted.pairs == results.base.pairs:
        return results.adapted.pairs.mrr
    return start + gain.mean


def _kept(done: Sequence[RunResults]) -> str:
    """Say in words what was selected, and by which rule; label use is said."""
    words = [
        results.candidate
        or (f"step {results.choice.step}" if results.choice.step else "base model")
        for results in done
    ]
    return f"{', '.join(words)} ({done[0].selected_by})"
