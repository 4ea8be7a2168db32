"""All tables of a report, tables of comparisons first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from isospace.comparison.results import ComparisonProtocol, ComparisonResults, RowGain, SeedScores
from isospace.evaluation.hybrid import NO_SHARED
from isospace.evaluation.other_text import PROTOCOL
from isospace.evaluation.ranking import MEASURES
from isospace.evaluation.scores import BASE, GAIN
from isospace.report.run_set import RunSet
from isospace.report.tables import (
    mean_sd,
    other_text_table,
    papers_table,
    retrieval_table,
    runs_table,
    transfer_table,
)
from isospace.statistics.gains import CONFIDENCE
from isospace.statistics.verdict import Difference
from isospace.system.tables import Table


def all_tables(run_set: RunSet) -> list[Table]:
    """Return every table that has numbers, tables of comparisons first.

    Names are unique: tables of several comparisons are numbered. Tables of a single run do not
    name it, and what `runs_table` has is in the others.
    """
    tables = []
    for i, (name, results) in enumerate(run_set.comparisons.items(), start=1):
        number = f"-{i}" if len(run_set.comparisons) > 1 else ""
        if results is not None:
            found = comparison_tables(name, results)
            tables += [replace(table, name=table.name + number) for table in found]
    makers = (retrieval_table, other_text_table, papers_table, transfer_table)
    of_runs = list(filter(None, (make(run_set) for make in makers)))
    if len(run_set.runs) == 1 and of_runs:
        return tables + [_without_run(table) for table in of_runs]
    return [*tables, runs_table(run_set), *of_runs]


def _without_run(table: Table) -> Table:
    rows = [{name: cell for name, cell in row.items() if name != "run"} for row in table.rows]
    return replace(table, rows=rows)


def comparison_tables(name: str, results: ComparisonResults) -> list[Table]:
    """Return the tables of a comparison that have something to show."""
    makers = (
        comparison_table,
        bm25_table,
        other_text_gains_table,
        gains_table,
        differences_table,
    )
    return list(filter(None, (make(name, results) for make in makers)))


def comparison_table(name: str, results: ComparisonResults) -> Table:
    """Return the main table: mean and sd over seeds, gains over the base model, Holm's p."""
    measure, criterion = results.measure, results.protocol.criterion
    rows = []
    for candidate, columns in results.scores.items():
        scores, selected_by = retrieval_cells(columns, measure), results.criterion.get(candidate)
        row = {"": candidate, measure: scores[measure]}
        row |= dict.fromkeys((f"gain in {measure}", "95 % interval", "p (Holm)", "seeds"), "")
        if candidate in results.gains:
            found = results.gains[candidate][measure]
            row["seeds"] = "" if candidate in results.baselines else str(found.over_base.seeds)
            row[f"gain in {measure}"] = f"{100 * found.over_base.mean:+.2f}"
            row["95 % interval"] = found.over_base.interval
            row["p (Holm)"] = f"{found.holm_p:.3g}"
        row[criterion] = "" if selected_by is None else f"{100 * selected_by:.2f}"
        rows.append(row | scores)
    protocol = results.protocol
    seeds = max(columns[measure].n for columns in results.scores.values())
    spread = f", mean ± standard deviation of {seeds} seeds" if seeds > 1 else ""
    note = (
        f"x 100{spread}. {_protocol(protocol)} {criterion}, mean over the seeds, selected the row "
        "of the verdict. A gain is the difference of unrounded means. "
        f"{_baselines(results)}The interval is {_scope(results)}. p is of the gain over the base "
        "model, corrected for all rows (Holm)."
    )
    if measure == "MRR" and not protocol.split:
        note += (
            " The pairs are too few to split: they selected the checkpoints too. The verdict "
            "allows for that; intervals and p of MRR in these tables do not."
        )
    return Table("comparison", f"Comparison {name}", rows, note)


def _baselines(results: ComparisonResults) -> str:
    """Return a sentence on which rows are baselines, and what that means."""
    if not results.baselines:
        return ""
    rows = ", ".join(f"{row} ({model})" for row, model in results.baselines.items())
    return (
        f"Baselines, scored once: {rows}. No baseline can be selected, so the verdict is never "
        "about one, and their intervals are for other test items alone. "
    )


def _protocol(protocol: ComparisonProtocol) -> str:
    sts = f" STS: {protocol.sts}." if protocol.sts else ""
    unseen = f" Unseen: {protocol.unseen}." if protocol.unseen else ""
    selected = f"Checkpoints selected by {protocol.checkpoints}."
    return f"Retrieval: {protocol.pairs}.{sts}{unseen} {selected}"


def gains_table(name: str, results: ComparisonResults) -> Table | None:
    """Return the gains in every score, with intervals; `None` if only pairs were scored."""
    gains = results.gains
    # The STS average comes first.
    scores = sorted(next(iter(gains.values())), key=lambda score: not score.startswith("Avg"))
    if scores == ["MRR"]:
        return None
    rows = [
        {"": score} | {row: _gain_interval(columns[score]) for row, columns in gains.items()}
        for score in scores
    ]
    note = (
        "Gain over the base model x 100, mean over the seeds, and its 95 % interval "
        f"{_scope(results)}. * p below 5 %, corrected for the rows (Holm) but not for the number "
        "of scores."
    )
    return Table("gains", f"Comparison {name}: gains in every score", rows, note)


def _gain_interval(found: RowGain) -> str:
    """Format a gain and its interval, x 100, with a star if the gain is significant."""
    return f"{found.over_base.points}{'*' if found.holm_p < 1 - CONFIDENCE else ''}"


def differences_table(name: str, results: ComparisonResults) -> Table | None:
    """Return the differences between rows in the verdict's score; `None` for a single row."""
    measure, found = results.measure, results.differences
    if not found:
        return None
    rows = [
        {
            "": f"{one.ahead} over {one.behind}",
            f"difference in {measure}": f"{100 * one.gain.mean:+.2f}",
            "95 % interval": one.gain.interval,
            "p (Holm)": f"{one.holm_p:.3g}",
            "found": _found(one),
        }
        for one in found
    ]
    note = (
        f"Difference of the means over the seeds x 100, and its 95 % interval {_scope(results)}, "
        "of this pair alone. p is corrected for all pairs (Holm). Shown: p below 5 %. Within a "
        "point: the interval lies within -1 and +1. Cannot tell: neither; they may be equal or not."
    )
    return Table("differences", f"Comparison {name}: differences in {measure}", rows, note)


def _found(one: Difference) -> str:
    found = ["shown"] * one.shown + ["within a point"] * one.equivalent
    return ", ".join(found) or "cannot tell"


def bm25_table(name: str, results: ComparisonResults) -> Table:
    """Return the scores of BM25, and of hybrid search with each row."""
    base = mean_sd(results.scores[BASE]["MRR"].seeds)
    rows = []
    for row, found in results.with_bm25.items():
        scores = retrieval_cells(found.scores, "MRR")
        cells = {"": row, "MRR": scores["MRR"], GAIN: found.over_base.points}
        if found.weight is not None:
            scores["weight of BM25"] = f"{found.weight:g}"
        rows.append(cells | scores)
    selected = "nothing was selected among these rows"
    if not results.protocol.split:
        selected = (
            "the same pairs selected the checkpoints, which overstates all but BM25 and the base "
            "models"
        )
    note = (
        f"x 100; the base model alone has an MRR of {base}. + BM25: cosine and "
        f"BM25 fused. In brackets 95 % intervals {_scope(results)}, each by itself; {selected}. "
        "The validation pairs, if there are any, selected the weight."
    )
    return Table("bm25", f"Comparison {name}: BM25 and hybrid search", rows, note)


def retrieval_cells(columns: Mapping[str, SeedScores], measure: str) -> dict[str, str]:
    """Return the cells of the verdict's score and of all known retrieval measures."""
    retrieval = ("MRR", *MEASURES, NO_SHARED)
    shown = dict.fromkeys([measure, *(name for name in retrieval if name in columns)])
    return {name: mean_sd(columns[name].seeds) for name in shown if name in columns}


def _scope(results: ComparisonResults) -> str:
    """Return in words for which other data intervals and p are valid."""
    seeds = {one.over_base.seeds for columns in results.gains.values() for one in columns.values()}
    return "for other test items" if seeds == {1} else "for other seeds and other test items"


def other_text_gains_table(name: str, results: ComparisonResults) -> Table | None:
    """Return the gains of each row on other text; `None` if they were not measured."""
    if not results.other_text:
        return None
    rows = [
        {"": row} | {column: found.points for column, found in gains.items()}
        for row, gains in results.other_text.items()
    ]
    note = (
        f"Gain over the base model x 100: {PROTOCOL}. In brackets 95 % intervals "
        f"{_scope(results)}, each by itself; nothing was selected by these sets."
    )
    return Table("other-text-gains", f"Comparison {name}: other text", rows, note)
