"""The tables of retrieval: every measure of the verdict's pairs, and BM25's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isospace.comparison.results import ComparisonResults, SeedScores
from isospace.evaluation.hybrid import NO_SHARED
from isospace.evaluation.ranking import MEASURES
from isospace.evaluation.scores import CORRECTED, CORRECTED_NOTE, GAIN, PairScores, gain_cells
from isospace.report.papers import (
    MEAN_SD,
    finished,
    mean_sd,
    mean_sd_of_different,
    not_shipped,
)
from isospace.report.run_set import RunSet
from isospace.system.tables import Table
from isospace.training.results import RunResults


def bm25_table(name: str, results: ComparisonResults) -> Table | None:
    """BM25 alone and fused with each row; `None` of runs of before there was BM25."""
    mrr = {row: columns["MRR"] for row, columns in results.scores.items() if "MRR" in columns}
    if not results.with_bm25 or "base model" not in mrr:
        return None
    rows = []
    for row, found in results.with_bm25.items():
        scores, over_alone = retrieval_cells(found.scores, "MRR"), found.over_alone
        cells = {"": row, "MRR": scores.get("MRR", ""), GAIN: found.over_base.points}
        cells["MRR of its row alone"] = cells["MRR over its row alone"] = ""
        if over_alone is not None:
            if alone := mrr.get(row.removesuffix(" + BM25")):
                cells["MRR of its row alone"] = mean_sd(alone.seeds)
            cells["MRR over its row alone"] = over_alone.points
            scores["weight of BM25"] = f"{found.weight:g}"
        rows.append(cells | scores)
    chosen = "nothing was chosen among these rows"
    if not results.protocol.split:
        chosen = (
            "the same pairs chose the checkpoints, which flatters all but BM25 and the base models"
        )
    start = mean_sd(mrr["base model"].seeds)
    note = (
        f"x 100; the base model alone has an MRR of {start}. Fused: cosine and BM25. In brackets "
        f"95 % intervals {chance(results)}, each by itself; {chosen}. The weight was chosen "
        "by each base model on the validation pairs, where there are such."
    )
    return Table("bm25", f"Comparison {name}: beside BM25", rows, note)


def retrieval_table(run_set: RunSet) -> Table | None:
    """Every measure of the verdict's pairs, before and after, beside BM25; `None` of older runs."""
    rows: list[dict[str, str]] = []
    weights: set[str] = set()
    for group, runs in run_set.groups().items():
        done = [results for results in finished(runs) if results.base.with_bm25 is not None]
        weights |= {f"{one.base.with_bm25.weight:g}" for one in done if one.base.with_bm25}
        rows += [{"objective": group} | row for row in _state_rows(done)]
    if not rows:
        return None
    note = (
        f"x 100, {MEAN_SD}, where they differ. + BM25: cosine and BM25 fused, weight "
        f"{', '.join(sorted(weights))}. {NO_SHARED}: each right text without the words of its "
        "query, all others as they are."
    )
    if any(GAIN in row for row in rows):
        note += f" {GAIN}: of single runs, with 95 % intervals for other pairs."
    if any(CORRECTED in row for row in rows):
        note += f" {CORRECTED_NOTE}."
    return Table("retrieval", "Retrieval of test pairs: before and after, beside BM25", rows, note)


def _state_rows(done: Sequence[RunResults]) -> list[dict[str, str]]:
    """Return a row for each state of the runs of one setting, and for the same with BM25."""
    found: dict[str, list[PairScores]] = {}
    after = f"adapted{not_shipped(done)}"
    for results in done:
        for name, scores in (("base model", results.base), (after, results.adapted)):
            found.setdefault(name, []).append(scores.pairs)
            if scores.with_bm25 is not None:
                found.setdefault("BM25", []).append(scores.with_bm25.bm25)
                found.setdefault(f"{name} + BM25", []).append(scores.with_bm25.hybrid)
    gains: dict[str, dict[str, str]] = {}
    if len(done) == 1 and (over_base := done[0].over_base(after)):
        gains = gain_cells({name: seeds[0].mrr for name, seeds in found.items()}, over_base)
    rows = {name: _row(seeds) for name, seeds in found.items()}
    # Gains follow their MRR, where they are seen without scrolling.
    return [
        {"state": name, "MRR": row["MRR"]} | gains.get(name, {}) | row for name, row in rows.items()
    ]


def _row(seeds: Sequence[PairScores]) -> dict[str, str]:
    rows = [one.row() for one in seeds]
    return {
        column: mean_sd_of_different([100 * row[column] for row in rows])
        for column in rows[0]
        if all(column in row for row in rows)
    }


def retrieval_cells(columns: Mapping[str, SeedScores], measure: str) -> dict[str, str]:
    """The score that the verdict is about, and all of retrieval that is known."""
    retrieval = ("MRR", *MEASURES, NO_SHARED)
    shown = dict.fromkeys([measure, *(name for name in retrieval if name in columns)])
    return {name: mean_sd(columns[name].seeds) for name in shown if name in columns}


def chance(results: ComparisonResults) -> str:
    """What intervals and p allow for."""
    seeds = {one.over_base.seeds for columns in results.gains.values() for one in columns.values()}
    return "for other test items" if seeds == {1} else "for other seeds and other test items"
