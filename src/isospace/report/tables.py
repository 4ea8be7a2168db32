"""Tables of runs and comparisons: scores, retrieval, other text, and the papers' columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np

from isospace.comparison.results import ComparisonProtocol, ComparisonResults, RowGain, SeedScores
from isospace.config import objective_name
from isospace.evaluation.benchmark import (
    BASE,
    GAIN,
    SAME_PAIRS,
    BenchmarkScores,
    PairScores,
    points_of,
)
from isospace.evaluation.hybrid import NO_SHARED
from isospace.evaluation.judged import MEASURES
from isospace.evaluation.other_text import PROTOCOL
from isospace.recipes import STS_COLUMNS, TRANSFER_COLUMNS
from isospace.report.run_set import RunSet
from isospace.statistics.gains import CONFIDENCE
from isospace.statistics.verdict import Difference
from isospace.system.tables import Table
from isospace.training.results import RunResults
from isospace.training.run import Run

MEAN_SD = "x 100, mean ± standard deviation of the seeds, where they differ"
"""Meaning of the cells of every table."""


def mean_sd(values: Sequence[float], sign: Literal["", "+"] = "") -> str:
    """Format a mean and, if the values differ, their standard deviation (divisor n - 1).

    >>> mean_sd([1.0, 2.0]), mean_sd([1.0, 1.0], sign="+")
    ('1.50 ± 0.71', '+1.00')
    """
    spread = f" ± {np.std(values, ddof=1):.2f}" if np.ptp(values) > 0 else ""
    return f"{np.mean(values):{sign}.2f}{spread}"


def finished(runs: Sequence[Run]) -> list[RunResults]:
    """Return the results of the finished runs."""
    return [results for run in runs if (results := run.results) is not None]


def not_shipped(done: Sequence[RunResults]) -> str:
    """Return a text to append to "adapted" if not all runs ship their result."""
    count = sum(not results.not_shipped for results in done)
    if count == len(done):
        return ""
    return f" (shipped by {count} of {len(done)})" if count else done[0].not_shipped


def sts_rows(scores: Sequence[BenchmarkScores]) -> list[dict[str, float]]:
    """Return the papers' row of each encoder with STS scores, without empty columns."""
    return [one.sts.paper_row for one in scores if one.sts is not None]


def runs_table(run_set: RunSet) -> Table:
    """Return a table with a row for each setting: scores over its seeds, and verdicts."""
    done = finished([named.run for named in run_set.runs])
    rows = [_runs_row(group, runs) for group, runs in run_set.groups().items()]
    protocols = dict.fromkeys(results.verdict.protocol for results in done)
    note = "; ".join(protocols)
    if note:
        note = (
            f"{MEAN_SD}; n is their number. A gain is the difference of the "
            f"unrounded means, a gain in MRR that of the verdict{_same_pairs(done)}. "
            f"Cost: time and peak memory of the longest run. Measured by: {note}."
        )
    return Table("runs", "Runs: before and after", rows, note)


def _same_pairs(done: Sequence[RunResults]) -> str:
    """Return a remark if the same pairs selected and tested; else an empty text."""
    return "" if all(results.split for results in done) else f"; {SAME_PAIRS}"


def _runs_row(group: str, runs: Sequence[Run]) -> dict[str, str]:
    config, done = runs[0].config, finished(runs)
    verdicts = [results.verdict.kind.value for results in done]
    verdicts += ["unfinished"] * (len(runs) - len(done))
    counts = Counter(verdicts)
    verdict = ", ".join(f"{n} {v}" if len(verdicts) > 1 else v for v, n in counts.items())
    row = {"run": group + (not_shipped(done) if done else ""), "verdict": verdict}
    if done:
        row["gain in MRR"] = f"{100 * fmean(map(_gain_in_mrr, done)):+.2f}"
        states = {BASE: [one.base for one in done], "adapted": [one.adapted for one in done]}
        for state, scores in states.items():
            row[f"MRR {state}"] = mean_sd([100 * one.pairs.mrr for one in scores])
        before, after = (
            [row["Avg"] for row in sts_rows(scores) if "Avg" in row] for scores in states.values()
        )
        if before and after:
            row["gain in STS"] = f"{fmean(after) - fmean(before):+.2f}"
            row["STS base model"] = mean_sd(before)
            row["STS adapted"] = mean_sd(after)
        row["kept"] = _kept(done)
        row["n"] = str(len(done))
        row["cost"] = max(done, key=lambda results: results.training.seconds).training.cost
    return row | {"objective": objective_name(config.objective), "model": Path(config.model).name}


def _gain_in_mrr(results: RunResults) -> float:
    """Return the gain of the result, without selection bias if the test pairs selected it."""
    gain = results.verdict.gain
    # If the base model was kept, the gain belongs to the best of the other candidates.
    if gain is None or results.adapted.pairs == results.base.pairs:
        return results.adapted.pairs.mrr - results.base.pairs.mrr
    return gain.mean


def _kept(done: Sequence[RunResults]) -> str:
    """Return what was selected and by which rule, including the use of labels."""
    words = [
        results.candidate or (f"step {step}" if (step := results.training.choice.step) else BASE)
        for results in done
    ]
    return f"{', '.join(words)} ({done[0].selected_by})"


def retrieval_table(run_set: RunSet) -> Table | None:
    """Return all retrieval measures of the test pairs, before and after, also of BM25 and hybrid.

    The result is `None` if no run is finished.
    """
    done = finished([named.run for named in run_set.runs])
    if not done:
        return None
    weights = {f"{one.base.with_bm25.weight:g}" for one in done}
    rows = [
        {"run": group} | row
        for group, runs in run_set.groups().items()
        for row in _state_rows(finished(runs))
    ]
    note = (
        f"{MEAN_SD}. + BM25: cosine and BM25 fused, weight "
        f"{', '.join(sorted(weights))}. {NO_SHARED}: the words of the query are removed from "
        "the right text, and from no other text."
    )
    if any(GAIN in row for row in rows):
        note += f" {GAIN}: gains of single runs, with 95 % intervals{_same_pairs(done)}."
    return Table("retrieval", "Retrieval of test pairs: before and after, with BM25", rows, note)


def _state_rows(done: Sequence[RunResults]) -> list[dict[str, str]]:
    """Return rows for both states of the runs of one setting, for BM25, and for hybrid search."""
    if not done:
        return []
    found: dict[str, list[PairScores]] = {}
    after = f"adapted{not_shipped(done)}"
    for results in done:
        for name, scores in ((BASE, results.base), (after, results.adapted)):
            found.setdefault(name, []).append(scores.pairs)
            found.setdefault("BM25", []).append(scores.with_bm25.bm25)
            found.setdefault(f"{name} + BM25", []).append(scores.with_bm25.hybrid)
    gains = done[0].over_base(after) if len(done) == 1 else {}
    rows = {name: _row(seeds) for name, seeds in found.items()}
    # Gains come directly after the MRR, so that they are visible without scrolling.
    return [
        {"state": name, "MRR": row["MRR"]} | ({GAIN: points_of(gains, name)} if gains else {}) | row
        for name, row in rows.items()
    ]


def _row(seeds: Sequence[PairScores]) -> dict[str, str]:
    return {
        column: mean_sd([100 * one.values[column] for one in seeds])
        for column in seeds[0].values
        if all(column in one.values for one in seeds)
    }


def other_text_table(run_set: RunSet) -> Table | None:
    """Return a table with scores on other text before and after; `None` if none was measured."""
    rows = []
    for group, runs in run_set.groups().items():
        done = [results.other_text for results in finished(runs) if results.other_text]
        for column in done[0] if done else ():
            found = [sets[column] for sets in done if column in sets]
            gains = [one.gain for one in found]
            rows.append(
                {
                    "run": group + not_shipped(finished(runs)),
                    "other text": column,
                    "gain": gains[0].points
                    if len(gains) == 1
                    else mean_sd([100 * one.mean for one in gains], sign="+"),
                    BASE: mean_sd([100 * one.base for one in found]),
                    "adapted": mean_sd([100 * one.adapted for one in found]),
                }
            )
    if not rows:
        return None
    note = f"{MEAN_SD}. Brackets have 95 % intervals of single runs. {PROTOCOL}."
    return Table("other-text", "Other text: before and after", rows, note)


def papers_table(run_set: RunSet) -> Table | None:
    """Return the STS scores in the papers' columns; `None` if there are none."""
    bases: dict[tuple[str, str], dict[str, str]] = {}
    ours = []
    for group, runs in run_set.groups().items():
        done = finished(runs)
        if base := sts_rows([one.base for one in done[:1]]):
            encoder = _encoder(runs)
            bases.setdefault(encoder, _papers_row(BASE, STS_COLUMNS, base, encoder))
            adapted, name = sts_rows([one.adapted for one in done]), group + not_shipped(done)
            ours.append(_papers_row(name, STS_COLUMNS, adapted, encoder, done[0].labels))
    if not ours:
        return None
    note = f"Spearman {MEAN_SD}: 'all' for STS12-16, test for STS-B and SICK-R."
    if any(row["selected on"] == "stsb-dev" for row in ours):
        note += (
            " STS-B dev was drawn from the same sets: 1,131 of its 1,500 pairs are test pairs of "
            "STS12-16. It selected the checkpoints of rows that say so."
        )
    return Table("sts", "STS, in the papers' columns", [*bases.values(), *ours], note)


def transfer_table(run_set: RunSet) -> Table | None:
    """Return the papers' table of transfer tasks, or `None` if `evaluate` scored no run.

    The scores are those of the shipped models; the name of a row says if some are the base model.
    """
    rows, protocols = [], []
    for group, runs in run_set.groups().items():
        scored = [run for run in runs if run.results and run.transfer]
        if not scored:
            continue
        kept = sum(run.finished.ships_base for run in scored)
        name = f"{group} (base model kept by {kept} of {len(scored)})" if kept else group
        scores = [run.transfer["row"] for run in scored]
        protocols += [run.transfer["row_protocol"] for run in scored]
        labels = scored[0].finished.labels
        rows.append(_papers_row(name, TRANSFER_COLUMNS, scores, _encoder(scored), labels))
    if not rows:
        return None
    note = f"{MEAN_SD}. Measured by: {'; '.join(dict.fromkeys(protocols))}."
    return Table("transfer", "Transfer tasks, in the papers' columns", rows, note)


def _encoder(runs: Sequence[Run]) -> tuple[str, str]:
    """Return base model and pooling."""
    return runs[0].config.model, finished(runs)[0].training.pooling


def _papers_row(
    name: str,
    columns: Sequence[str],
    scores: Sequence[Mapping[str, float | None]],
    encoder: tuple[str, str],
    labels: str | None = None,
) -> dict[str, str]:
    """Return the row of some runs; `labels` selected their checkpoints."""
    row = {"": name, "n": str(len(scores))}
    for column in columns:
        values = [value for score in scores if (value := score.get(column)) is not None]
        row[column] = mean_sd(values) if values else ""
    return row | {"base model": ", ".join(encoder), "selected on": labels or ""}


def all_tables(run_set: RunSet) -> list[Table]:
    """Return every table that has numbers, tables of comparisons first, under unique names.

    Tables of a single run do not name it, and what `runs_table` has is in the others.
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
    found = [
        comparison_table(name, results),
        bm25_table(name, results),
        other_text_gains_table(name, results),
        gains_table(name, results),
        differences_table(name, results),
    ]
    return [table for table in found if table is not None]


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
    note = (
        f"{MEAN_SD}. {_protocol(protocol)} The verdict is about the row with the "
        f"highest {criterion}, mean over the seeds. A gain is the difference of unrounded means. "
        f"{_baselines(results)}The interval is {_scope(results)}. p is the p-value of the gain "
        "over the base model, corrected for the number of rows (Holm)."
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
        "about one, and their intervals cover other test items, but no other seeds. "
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
