"""Alignment and uniformity on STS-B dev."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from isospace.evaluation.geometry import alignment, uniformity
from isospace.evaluation.pairs import Encode, ScoredPairs, encode_distinct
from isospace.evaluation.senteval import STSSet
from isospace.evaluation.task import Conditions, Request, Subject, Task, TitledRows

_LOWEST = 4.0
"""Lowest gold score of a positive pair."""


@dataclass(frozen=True)
class STSBGeometryScores:
    """Alignment and uniformity on STS-B dev.

    Papers differ in split, threshold, repeated sentences and noise, and rarely report them.
    """

    alignment: float
    uniformity: float
    n_positives: int
    n_sentences: int

    @property
    def protocol(self) -> str:
        """Description of the protocol."""
        return (
            f"STS-B dev, L2-normalised; alignment over {self.n_positives:,} pairs (gold >= 4), "
            f"uniformity over {self.n_sentences:,} distinct sentences, no dropout"
        )

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the protocol."""
        return asdict(self) | {"protocol": self.protocol}

    def tables(self, conditions: Conditions, subsets: bool) -> list[TitledRows]:
        """Return one row."""
        row = {"alignment": f"{self.alignment:.4f}", "uniformity": f"{self.uniformity:.4f}"}
        return [TitledRows(self.protocol, [row])]


def stsb_geometry(encode: Encode, sets: Mapping[str, STSSet]) -> STSBGeometryScores:
    """Measure alignment of pairs with gold >= 4, and uniformity of distinct sentences."""
    dev = sets["STSBenchmark"].subsets["dev"]
    rows, clean = encode_distinct(encode, (text for pair in dev for text in pair))
    pairs = [pair for pair, positive in zip(dev, _positive(dev), strict=True) if positive]
    x, y = (clean[[rows[pair[side]] for pair in pairs]] for side in (0, 1))
    return STSBGeometryScores(alignment(x, y), uniformity(clean), len(x), len(clean))


def _positive(pairs: ScoredPairs) -> np.ndarray:
    return np.asarray(pairs.gold >= _LOWEST)


class STSBGeometry(Task[STSBGeometryScores]):
    """Alignment and uniformity on STS-B dev."""

    name = "geometry"

    def __init__(self, sets: Mapping[str, STSSet]) -> None:
        self.sets = sets

    @classmethod
    def load(cls, request: Request) -> STSBGeometry | None:
        """Return a task on STS-B dev; `None` if it is missing or has no positive pairs."""
        usable = request.sts and _positive(request.sts["STSBenchmark"].subsets["dev"]).any()
        return cls(request.sts) if usable else None

    def score(self, subject: Subject) -> STSBGeometryScores:
        """Measure alignment and uniformity."""
        return stsb_geometry(subject.encode, self.sets)
