"""What one encoder came to on a benchmark, as the files of results hold it, and in tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isospace.evaluation.beside_bm25 import NO_SHARED
from isospace.evaluation.retrieval import RetrievalScores
from isospace.evaluation.sts import STSScores
from isospace.evaluation.task import percent_cells
from isospace.statistics.choosing import ChosenAmong, judge_chosen
from isospace.statistics.gains import Gain, gain
from isospace.statistics.influence import Scores

DEPTHS = (1, 5, 10, 100)
"""The k of recall@k."""
GAIN = "MRR over the base model"
"""The column of gains with their intervals."""
CORRECTED = "corrected MRR"
"""The column of the MRRs that gains belong to, where the same pairs selected the result."""
CORRECTED_NOTE = f"{CORRECTED}: without what selection by the same pairs has added"
_SHOWN = 1e-4
"""The smallest difference of two MRRs that tables show."""
BASE, ADAPTED = "base model", "adapted"
"""What tables call both models."""
ADAPTED_HYBRID = f"{ADAPTED} + BM25"
"""What the adapted model with BM25 is called, as a way to search."""


@dataclass(frozen=True)
class PairScores:
    """How the verdict's pairs find each other, 0 to 1, and how that was measured.

    Attributes:
        recall: k -> share of queries whose own target is among the first k.
        ndcg_10: nDCG@10; `None` of older runs, like what follows.
        mrr_10: MRR@10.
        no_shared: MRR where each right text is without the words of its query; `None` too where no
            pair shares a word, and where BM25 has a part.
    """

    protocol: str
    queries: int
    candidates: int
    mrr: float
    mean_rank: float
    recall: dict[int, float]
    ndcg_10: float | None
    mrr_10: float | None
    no_shared: float | None

    @classmethod
    def of(cls, ranks: RetrievalScores, no_shared: RetrievalScores | None = None) -> PairScores:
        """Those of ranks."""
        row = ranks.row()
        return cls(
            ranks.protocol,
            len(ranks.ranks),
            ranks.candidates,
            ranks.mrr,
            ranks.mean_rank,
            {k: ranks.recall(k) for k in DEPTHS},
            row["nDCG@10"],
            row["MRR@10"],
            None if no_shared is None else no_shared.mrr,
        )

    def row(self) -> dict[str, float]:
        """Column -> value, 0 to 1, of what is known."""
        row = {"MRR": self.mrr, "nDCG@10": self.ndcg_10, "MRR@10": self.mrr_10}
        row |= {f"R@{k}": self.recall.get(k) for k in (1, 10, 100)} | {NO_SHARED: self.no_shared}
        return {column: value for column, value in row.items() if value is not None}


@dataclass(frozen=True)
class BM25Scores:
    """How the verdict's pairs find each other by BM25 alone, and by it and the encoder together.

    Attributes:
        weight: of BM25 where both are fused, as in `fusion.fuse`.
    """

    bm25: PairScores
    hybrid: PairScores
    weight: float


@dataclass(frozen=True)
class BenchmarkScores:
    """What one encoder reached on a benchmark, as results.json holds it.

    Attributes:
        pairs: of the verdict's pairs.
        sts: of the STS sets, `None` where there is no data.
        with_bm25: of the verdict's pairs with BM25; `None` of older runs.
    """

    pairs: PairScores
    sts: STSScores | None
    with_bm25: BM25Scores | None

    def cells(self) -> dict[str, str]:
        """Cells of the table that people see, x 100."""
        cells = percent_cells(self.pairs.row())
        if self.sts is not None:
            cells |= {column: f"{value:.2f}" for column, value in self.sts.known().items()}
        return cells


def table_rows(
    column: str, states: Mapping[str, BenchmarkScores], gains: Mapping[str, Gain] | None = None
) -> list[dict[str, str]]:
    """A row for each state of an encoder, and for each fused with BM25; above them BM25's.

    Args:
        column: of the names.
        states: name -> scores.
        gains: name of a row -> its gain in MRR over the first state, for a column `GAIN`.
    """
    rows, mrr = [], {}
    for name, scores in states.items():
        rows.append({column: name} | scores.cells())
        mrr[name] = scores.pairs.mrr
        if scores.with_bm25 is not None:
            hybrid = percent_cells(scores.with_bm25.hybrid.row())
            rows.append({column: f"{name} + BM25"} | hybrid)
            mrr[f"{name} + BM25"] = scores.with_bm25.hybrid.mrr
    known = next((scores.with_bm25 for scores in states.values() if scores.with_bm25), None)
    # Behind the first, whose columns are those of the table.
    if known is not None:
        rows.insert(1, {column: "BM25"} | percent_cells(known.bm25.row()))
        mrr["BM25"] = known.bm25.mrr
    if gains:
        cells = gain_cells(mrr, gains)
        rows = [row | cells[row[column]] for row in rows]
    return rows


def gain_cells(mrr: Mapping[str, float], gains: Mapping[str, Gain]) -> dict[str, dict[str, str]]:
    """Return the cells of the columns `GAIN` and, where it is needed, `CORRECTED`.

    A gain is less than the difference of two MRRs where the same pairs selected the result.
    `CORRECTED` then shows the MRR without what the selection has added.

    Args:
        mrr: row -> MRR, the base model's first.
        gains: row -> gain over the base model, of some of the rows.
    """
    base = next(iter(mrr.values()))
    corrected = {
        row: f"{100 * (base + gain.mean):.2f}"
        for row, gain in gains.items()
        if row in mrr and abs(base + gain.mean - mrr[row]) > _SHOWN
    }
    return {
        row: ({CORRECTED: corrected.get(row, "")} if corrected else {})
        | {GAIN: gains[row].points if row in gains else ""}
        for row in mrr
    }


@dataclass(frozen=True)
class BM25Words:
    """What the encoder that is shipped is beside plain BM25, on the verdict's pairs.

    Attributes:
        gains: in MRR over that encoder alone (over the result in files of format 6 and below, also
            where the base model is shipped): of "BM25", of "base model + BM25", and where there was
            another result of "adapted + BM25". Over the base model too where the same pairs chose
            the result: beside that all others would look less than they are.
        text: the same in a sentence.
        over_base: of the same ways over the base model; empty of older runs.
    """

    gains: dict[str, Gain]
    text: str
    over_base: dict[str, Gain] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        ways: Mapping[str, Scores],
        start: Scores,
        result: Scores | None = None,
        not_shipped: str | None = None,
        among: ChosenAmong | None = None,
    ) -> BM25Words:
        """Of the scores of the ways that `gains` names.

        Args:
            ways: name -> scores.
            start: of the base model alone.
            result: of the result alone; `None` where it is the base model.
            not_shipped: what the result is in words, where the base model is shipped all the same.
            among: what the same items chose the result among; `None` where others chose.
        """
        over_base = {way: gain(own, start) for way, own in ways.items()}
        if among is not None and result is not None:
            # What choosing has added to the result it has added to what is fused with it.
            over_base[ADAPTED_HYBRID] = judge_chosen(among, (ways[ADAPTED_HYBRID], start))
        if result is None or not_shipped is not None or among is not None:
            # Nobody gets the result, or it is flattered: BM25 is held against the base model.
            return cls(
                over_base, beside_in_words(over_base, "the base model", not_shipped), over_base
            )
        gains = {way: gain(own, result) for way, own in ways.items()}
        return cls(gains, beside_in_words(gains, "the adapted model"), over_base)


def beside_in_words(gains: Mapping[str, Gain], name: str, result: str | None = None) -> str:
    """Whether plain BM25 finds more, and what fusing gives, as far as the pairs can tell.

    Args:
        gains: over the encoder alone, "BM25" first.
        name: of the encoder, as "the base model" or a row of a table.
        result: what "adapted" of "adapted + BM25" is called; default: just that.
    """

    def told(found: Gain) -> str:
        return f"MRR {100 * found.mean:+.2f}, 95 % interval {found.interval}"

    plain = gains["BM25"]
    if plain.low > 0:
        said = f"Plain BM25 finds more than {name} ({told(plain)})"
    elif plain.high < 0:
        said = f"Plain BM25 finds less than {name} ({told(plain)})"
    else:
        said = f"Nothing tells plain BM25 and {name} apart ({told(plain)})"
    for way, found in gains.items():
        if way != "BM25" and found.low > 0:
            untrained = (
                ", without training," if way == "base model + BM25" != f"{name} + BM25" else ""
            )
            called = way if result is None else way.replace("adapted", result)
            said += f"; {called}{untrained} finds more than {name} alone ({told(found)})"
    return f"{said}."
