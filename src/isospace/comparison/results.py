"""The fields of a comparison's results.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isospace.evaluation.benchmark import ADAPTED, BASE, HYBRID_ADAPTED, HYBRID_BASE, recommendation
from isospace.evaluation.other_text import other_text_sentence
from isospace.statistics.gains import Gain
from isospace.statistics.verdict import Difference, VerdictKind
from isospace.system import typed_json


@dataclass(frozen=True)
class ComparisonProtocol:
    """Protocol of a comparison, in words.

    `labels` selected checkpoints, and `unseen` says which test pairs were left out because the
    labels have them. `criterion` selected among the rows. `split` is true if no validation pair is
    a test pair.
    """

    pairs: str
    sts: str | None
    checkpoints: str
    labels: str | None
    unseen: str | None
    split: bool
    criterion: str


@dataclass(frozen=True)
class SeedScores:
    """Scores of the seeds of one row, x 100; a base model has one value and no spread."""

    mean: float
    sd: float | None
    n: int
    seeds: tuple[float, ...]

    @classmethod
    def of_seeds(cls, seeds: Sequence[float]) -> SeedScores:
        """Summarise the score of each seed."""
        sd = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None
        return cls(float(np.mean(seeds)), sd, len(seeds), tuple(seeds))


@dataclass(frozen=True)
class RowGain:
    """Gain of one row in one score; `holm_p` is its p, corrected for all rows."""

    over_base: Gain
    holm_p: float


@dataclass(frozen=True)
class BM25Row:
    """Scores of BM25, alone (without a weight) or in hybrid search with the runs of one row.

    `over_base` is the gain in MRR over the base model without BM25.
    """

    scores: dict[str, SeedScores]
    weight: float | None
    over_base: Gain


@dataclass(frozen=True)
class ComparisonVerdict:
    """Verdict of a comparison on the candidate `name`; `None` if the base model was selected.

    `model` is the folder to load if `name` is advised and has one.
    """

    kind: VerdictKind
    name: str | None
    text: str
    model: str | None


@dataclass(frozen=True)
class ComparisonResults:
    """Results of a finished comparison.

    Attributes:
        measure: the score that the verdict is about: "MRR" of the pairs, or the STS "Avg"; if
            labels selected the checkpoints, "Avg unseen", without the test pairs in the labels.
        settings: row -> the settings that its runs share.
        runs: row -> the folders of its runs, relative to that of the comparison.
        baselines: row -> its model, or the models of its seeds.
        criterion: row -> the score that selected its checkpoints and the tested row, 0 to 1, mean
            over the seeds; of a base model only if it could be selected.
        differences: every two candidates or baselines in the score `measure`, largest first.
        with_bm25: "BM25", and "ROW + BM25" of each row -> its scores.
        other_text: row -> set of other text -> gain over the row "base model".
    """

    measure: str
    protocol: ComparisonProtocol
    settings: dict[str, dict[str, Any]]
    runs: dict[str, tuple[str, ...]]
    baselines: dict[str, str]
    criterion: dict[str, float]
    scores: dict[str, dict[str, SeedScores]]
    gains: dict[str, dict[str, RowGain]]
    differences: tuple[Difference, ...]
    verdict: ComparisonVerdict
    with_bm25: dict[str, BM25Row]
    other_text: dict[str, dict[str, Gain]]
    format: int = 12
    """`compare` writes a file of another format anew, from the finished runs."""

    @property
    def other_text_gains(self) -> dict[str, Gain]:
        """Gain of the selected row on each set of other text; empty where none was tested."""
        return self.other_text.get(self.verdict.name or "", {})

    @property
    def summary(self) -> str:
        """The verdict, and what happened on other text."""
        return f"{self.verdict.text} {other_text_sentence(self.other_text_gains)}".rstrip()

    @property
    def recommendation(self) -> str:
        """The way to search that finds most of the test pairs, in words."""
        base, row = self.scores[BASE]["MRR"].mean / 100, self.verdict.name
        mrr = {BASE: base}
        mrr |= {w: base + self.with_bm25[w].over_base.mean for w in ("BM25", HYBRID_BASE)}
        if row is not None and self.verdict.kind is VerdictKind.ADAPTED:
            mrr[ADAPTED] = base + self.gains[row]["MRR"].over_base.mean
            mrr[HYBRID_ADAPTED] = base + self.with_bm25[f"{row} + BM25"].over_base.mean
        return recommendation(mrr, f"model of {row}")


def read_results(path: Path) -> ComparisonResults:
    """Read results.json."""
    return typed_json.read(path, ComparisonResults, "results of a comparison")
