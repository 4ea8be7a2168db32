"""Alignment and uniformity on STS-B, by every definition in use: split, threshold, repetition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from isospace.evaluation.geometry import alignment, uniformity
from isospace.evaluation.pairs import Encode, ScoredPairs, encode_distinct
from isospace.evaluation.sts import STSSet
from isospace.evaluation.task import Conditions, Request, Subject, Task, TitledRows

_SEED = 0  # of the dropout views


@dataclass(frozen=True)
class STSBProtocol:
    """The sentences and positive pairs of STS-B that alignment and uniformity are taken over.

    Attributes:
        splits: of STS-B, put together.
        positives: a key of `_REACHES` (encoded without dropout), or `DROPOUT_VIEWS`.
        used_by: whose numbers it is for.
        repeated: whether uniformity counts a sentence once for every pair that it is in.
    """

    splits: tuple[str, ...]
    positives: str
    used_by: str
    repeated: bool = False

    @property
    def where(self) -> str:
        """The splits in words."""
        return " + ".join(self.splits)


TABLES_PROTOCOL = "stsb-dev >= 4"
"""The protocol of alignment and uniformity that is always printed, a key of `PROTOCOLS`."""

DROPOUT_VIEWS = "two dropout views"
_REACHES = {"gold >= 4": np.greater_equal, "gold > 4": np.greater}
_WHOLE = ("train", "dev", "test")

PROTOCOLS = {
    "stsb-dev >= 4": STSBProtocol(
        ("dev",), "gold >= 4", "isospace's tables; WhitenedCSE looks at dev (threshold not said)"
    ),
    "stsb-dev > 4": STSBProtocol(("dev",), "gold > 4", "SimCSE's wording (higher than 4), on dev"),
    "stsb-test >= 4": STSBProtocol(
        ("test",), "gold >= 4", "DiffCSE's split, with the threshold of released code"
    ),
    "stsb-test > 4": STSBProtocol(("test",), "gold > 4", "DiffCSE's split, with SimCSE's wording"),
    "stsb-all >= 4": STSBProtocol(
        _WHOLE, "gold >= 4", "near SCD's code, which takes the three splits one by one"
    ),
    "stsb-all > 4": STSBProtocol(_WHOLE, "gold > 4", "SimCSE, by its authors' answer in issue 52"),
    **{
        f"stsb-{name} >= 4, repeated": STSBProtocol(
            splits, "gold >= 4", "code that takes the files' columns as they are", repeated=True
        )
        for name, splits in {"dev": ("dev",), "test": ("test",), "all": _WHOLE}.items()
    },
    "dropout-views": STSBProtocol(
        ("dev",), DROPOUT_VIEWS, "SimCSE++, whose code takes the batches it trains on"
    ),
}
"""The definitions in use. Uniformity is over all sentences of the splits, without dropout: the
distinct ones, each once, or as many as the pairs have (in STS-B dev 2,909 or 3,000)."""


@dataclass(frozen=True)
class AlignmentUniformity:
    """Alignment and uniformity on STS-B, and how they were made."""

    alignment: float
    uniformity: float
    name: str
    n_positives: int
    n_sentences: int

    @property
    def protocol(self) -> str:
        """The protocol in words."""
        named = PROTOCOLS[self.name]
        sentences = "sentences as the pairs have them" if named.repeated else "distinct sentences"
        return (
            f"STS-B {named.where}, L2-normalised; alignment over {self.n_positives} "
            f"pairs ({named.positives}), uniformity over {self.n_sentences} {sentences}, no dropout"
        )

    def row(self) -> dict[str, str]:
        """Cells of the table for people."""
        return {
            "protocol": self.name,
            "alignment": f"{self.alignment:.4f}",
            "uniformity": f"{self.uniformity:.4f}",
            "pairs": f"{self.n_positives:,}",
            "sentences": f"{self.n_sentences:,}",
        }

    def to_json(self) -> dict[str, Any]:
        """All fields, the protocol in words, and whose numbers it is for."""
        named = {"protocol": self.protocol, "used_by": PROTOCOLS[self.name].used_by}
        return asdict(self) | named


def possible_protocols(sets: Mapping[str, STSSet], rates: Sequence[float]) -> list[str]:
    """The protocols that data and encoder allow.

    Args:
        sets: copies of STS-B on the Hub lack its train split; one's own may have other scores.
        rates: the encoder's own dropout rates; without dropout two views are one.
    """
    subsets = sets["STSBenchmark"].subsets
    return [
        name
        for name, protocol in PROTOCOLS.items()
        if set(protocol.splits) <= set(subsets)
        and (any(rates) if protocol.positives == DROPOUT_VIEWS else _positives(subsets, protocol))
    ]


def _positives(subsets: Mapping[str, ScoredPairs], protocol: STSBProtocol) -> list[int]:
    """Positions of the positives among the pairs of its splits."""
    gold = np.concatenate([subsets[split].gold for split in protocol.splits])
    return list(np.flatnonzero(_REACHES[protocol.positives](gold, 4.0)))


def stsb_geometry(
    encode: Encode,
    sets: Mapping[str, STSSet],
    protocol: str = TABLES_PROTOCOL,
    encode_noisy: Encode | None = None,
) -> AlignmentUniformity:
    """Alignment and uniformity on STS-B, as the papers draw them.

    Papers differ in split, threshold and noise and seldom say so: the result names all three.

    Args:
        encode: sentences -> `(sentence, dim)`, without dropout.
        sets: as `sts.load_sts` gives them, with STSBenchmark.
        protocol: a key of `PROTOCOLS`, for which there are splits and pairs.
        encode_noisy: the same under dropout, drawn anew at each call; for "dropout-views".
    """
    named, subsets = PROTOCOLS[protocol], sets["STSBenchmark"].subsets
    pairs = [pair for split in named.splits for pair in subsets[split]]
    texts = [text for pair in pairs for text in pair]
    rows, clean = encode_distinct(encode, texts)
    if named.positives == DROPOUT_VIEWS:
        assert encode_noisy is not None
        x, y = encode_noisy(list(rows)), encode_noisy(list(rows))
    else:
        chosen = _positives(subsets, named)
        x, y = (clean[[rows[pairs[i][side]] for i in chosen]] for side in (0, 1))
    spread = clean[[rows[text] for text in texts]] if named.repeated else clean
    return AlignmentUniformity(alignment(x, y), uniformity(spread), protocol, len(x), len(spread))


@dataclass(frozen=True)
class STSBGeometryScores:
    """Alignment and uniformity by one or every protocol that data and encoder allow."""

    by_protocol: tuple[AlignmentUniformity, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """One after the other."""
        return [scores.to_json() for scores in self.by_protocol]

    def tables(self, conditions: Conditions, subsets: bool) -> list[TitledRows]:
        """A row a protocol."""
        title = (
            "STS-B, L2-normalised; alignment over the pairs, uniformity over the distinct "
            "sentences without dropout"
        )
        rows = [scores.row() for scores in self.by_protocol]
        return [TitledRows(title, rows)] if rows else []


class STSBGeometry(Task[STSBGeometryScores]):
    """Alignment and uniformity on STS-B: by the tables' protocol, or by all where asked for."""

    name = "geometry"

    def __init__(self, sets: Mapping[str, STSSet], every_protocol: bool) -> None:
        self.sets, self.every_protocol = sets, every_protocol

    @classmethod
    def load(cls, request: Request) -> STSBGeometry:
        """STS-B is one of the STS sets; without them there is nothing to measure."""
        return cls(request.sts, request.config.geometry)

    def score(self, subject: Subject) -> STSBGeometryScores:
        """Measure by each protocol; the dropout views are the same in every call."""
        names = possible_protocols(self.sets, subject.encoder.noise.rates) if self.sets else []
        if not self.every_protocol:
            names = [name for name in names if name == TABLES_PROTOCOL]
        with torch.random.fork_rng():
            torch.manual_seed(_SEED)
            scores = [
                stsb_geometry(subject.encode, self.sets, name, subject.encode_noisy)
                for name in names
            ]
        return STSBGeometryScores(tuple(scores))
