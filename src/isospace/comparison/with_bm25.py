"""BM25 as rows of a comparison, alone and fused with the runs of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isospace.comparison.results import BM25Row, SeedScores
from isospace.comparison.shared_items import SharedItems
from isospace.evaluation.retrieval import Items
from isospace.evaluation.scores import BenchmarkScores, PairScores, beside_in_words
from isospace.statistics.gains import gain, gain_by_seed


def bm25_rows(
    states: Mapping[str, Sequence[BenchmarkScores]],
    items: Mapping[str, Sequence[Items]],
    shared: SharedItems,
) -> dict[str, BM25Row]:
    """BM25's row, and ROW + BM25 for each row; none where a run is of before there was BM25.

    Nothing was chosen among them, so that their intervals need no correction, but where the same
    pairs have chosen the checkpoints.

    Args:
        states: row -> the scores of each seed; "base model" is one of the rows.
        items: row -> what each test item came to, for each seed.
        shared: the test items.
    """
    if not all("fused" in one for seeds in items.values() for one in seeds):
        return {}
    with_bm25 = {
        row: [one.with_bm25 for one in seeds if one.with_bm25] for row, seeds in states.items()
    }
    start = shared.ranked(items["base model"], "MRR")
    [known] = with_bm25["base model"]
    words = shared.ranked(items["base model"], "BM25")
    rows = {"BM25": BM25Row(_columns([known.bm25]), None, gain(words, start), None)}
    for row in ("base model", *(row for row in states if row != "base model")):
        hybrid = shared.ranked(items[row], "fused")
        alone = gain_by_seed(hybrid, shared.ranked(items[row], "MRR"))
        rows[f"{row} + BM25"] = BM25Row(
            _columns([one.hybrid for one in with_bm25[row]]),
            with_bm25[row][0].weight,
            gain(hybrid, start),
            alone,
        )
    return rows


def with_bm25_text(
    rows: Mapping[str, BM25Row],
    items: Mapping[str, Sequence[Items]],
    shared: SharedItems,
    judged: str,
) -> str:
    """Whether plain BM25 finds more than the row that is judged, and what fusing gives."""
    if not rows:
        return ""
    alone = shared.ranked(items[judged], "MRR")
    gains = {"BM25": gain(shared.ranked(items["base model"], "BM25"), alone)}
    if judged != "base model":
        gains["base model + BM25"] = gain(shared.ranked(items["base model"], "fused"), alone)
    hybrid = shared.ranked(items[judged], "fused")
    return beside_in_words(gains | {f"{judged} + BM25": gain_by_seed(hybrid, alone)}, judged)


def _columns(seeds: Sequence[PairScores]) -> dict[str, SeedScores]:
    """Column -> of each seed, x 100."""
    rows = [one.row() for one in seeds]
    return {column: SeedScores.of([100 * row[column] for row in rows]) for column in rows[0]}
