"""The tables of retrieval: every measure of the verdict's pairs, and BM25's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isospace.comparison.results import ComparisonResults, SeedScores
from isospace.evaluation.beside_bm25 import NO_SHARED
from isospace.evaluation.ranking import MEASURES
from isospace.evaluation.scores import GAIN, PairScores
from isospace.report.papers import (
    MEAN_SD,
    STATES,
    finished,
    mean_sd,
    mean_sd_of_different,
    scores_of,
)
from isospace.report.run_set import RunSet
from isospace.system.tables import Table


def bm25_table(name: str, results: ComparisonResults) -> Table | None:
    """BM25 alone and fused with each row; `None` of runs of before there was BM25."""
    if not results.beside:
        return None
    rows = []
    for row, found in results.beside.items():
        cells = {"": row} | retrieval_cells(found.scores, "MRR")
        cells["MRR over the start"] = found.over_start.points
        if found.over_alone is not None:
            cells["MRR over its row alone"] = found.over_alone.points
            cells["weight of BM25"] = f"{found.weight:g}"
        rows.append(cells)
    chosen = "nothing was chosen among these rows"
    if not results.protocol.split:
        chosen = "the same pairs chose the checkpoints, which flatters all but BM25 and the starts"
    note = (
        f"x 100. Fused: cosine and BM25. In brackets 95 % intervals {chance(results)}, each by "
        f"itself; {chosen}. The weight was chosen by each start on the pairs that choose, where "
        "there are such."
    )
    return Table("bm25", f"Comparison {name}: beside BM25", rows, note)


def retrieval_table(run_set: RunSet) -> Table | None:
    """Every measure of the verdict's pairs, before and after, beside BM25; `None` of older runs."""
    rows: list[dict[str, str]] = []
    weights: set[str] = set()
    for group, runs in run_set.groups().items():
        done = [results for results in finished(runs) if results.start.beside is not None]
        found: dict[str, list[PairScores]] = {}
        for results in done:
            for state in STATES:
                scores = scores_of(results, state)
                found.setdefault(state, []).append(scores.pairs)
                if scores.beside is not None:
                    found.setdefault("BM25", []).append(scores.beside.bm25)
                    found.setdefault(f"{state} + BM25", []).append(scores.beside.fused)
                    weights.add(f"{scores.beside.weight:g}")
        gains = done[0].over_start() if len(done) == 1 else {}
        for name, seeds in found.items():
            row, cells = {"objective": group, "state": name}, _row(seeds)
            if gains:  # behind what it is of, where it is seen without scrolling
                row |= {"MRR": cells["MRR"], GAIN: gains[name].points if name in gains else ""}
            rows.append(row | cells)
    if not rows:
        return None
    note = (
        f"x 100, {MEAN_SD}, where they differ. + BM25: cosine and BM25 fused, weight "
        f"{', '.join(sorted(weights))}. {NO_SHARED}: each right text without the words of its "
        "query, all others as they are."
    )
    if any(GAIN in row for row in rows):
        note += f" {GAIN}: of single runs, with 95 % intervals for other pairs."
    return Table("retrieval", "Retrieval: before and after, beside BM25", rows, note)


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
    seeds = {one.over_start.seeds for columns in results.gains.values() for one in columns.values()}
    return "for other test items" if seeds == {1} else "for other seeds and other test items"
