"""Alignment and uniformity on STS-B: what each protocol takes, and what it is refused."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from isospace.evaluation.pairs import ScoredPairs
from isospace.evaluation.sts import STSSet
from isospace.evaluation.stsb_geometry import PROTOCOLS, possible_protocols, stsb_geometry


def encode(sentences):
    angles = np.radians([float(sentence) for sentence in sentences])
    return 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def stsb(*splits):
    """STS-B with three pairs in dev, at 60, 30 and 90 degrees, and one in each of the other two."""
    subsets = {
        "train": ScoredPairs("train", ("0",), ("20",), np.array([4.5]), "s"),
        "dev": ScoredPairs("dev", ("0", "0", "0"), ("60", "30", "90"), np.array([5.0, 4, 1]), "s"),
        "test": ScoredPairs("test", ("0",), ("45",), np.array([4.0]), "s"),
    }
    return {"STSBenchmark": STSSet("STSBenchmark", {split: subsets[split] for split in splits})}


def squared_distance(degrees):
    return 2 - 2 * np.cos(np.radians(degrees))


@pytest.mark.parametrize(
    ("protocol", "splits", "positives", "gaps", "sentences"),
    [
        ("stsb-dev >= 4", "dev", "gold >= 4", (60, 30), (0, 30, 60, 90)),
        ("stsb-dev > 4", "dev", "gold > 4", (60,), (0, 30, 60, 90)),
        ("stsb-test >= 4", "test", "gold >= 4", (45,), (0, 45)),
        (
            "stsb-all >= 4", "train + dev + test", "gold >= 4",
            (20, 60, 30, 45), (0, 20, 30, 45, 60, 90),
        ),
        (
            "stsb-all > 4", "train + dev + test", "gold > 4", (20, 60), (0, 20, 30, 45, 60, 90),
        ),
        ("stsb-dev >= 4, repeated", "dev", "gold >= 4", (60, 30), (0, 60, 0, 30, 0, 90)),
        ("dropout-views", "dev", "two dropout views", (10, 10, 10, 10), (0, 30, 60, 90)),
    ],
)  # fmt: skip
def test_protocols_choose_pairs_and_sentences(protocol, splits, positives, gaps, sentences):
    turns = iter([4, 14])  # the second view is 10 degrees from the first

    def encode_noisy(texts):
        turn = next(turns)
        return encode([float(text) + turn for text in texts])

    result = stsb_geometry(encode, stsb("train", "dev", "test"), protocol, encode_noisy)
    assert result.alignment == pytest.approx(np.mean(squared_distance(gaps)), abs=1e-6)
    between = [b - a for a, b in itertools.combinations(sentences, 2)]
    potentials = np.exp(-2 * squared_distance(between))
    assert result.uniformity == pytest.approx(np.log(potentials.mean()), abs=1e-5)
    which = "sentences as the pairs have them" if "repeated" in protocol else "distinct sentences"
    assert result.protocol == (
        f"STS-B {splits}, L2-normalised; alignment over {len(gaps)} pairs ({positives}), "
        f"uniformity over {len(sentences)} {which}, no dropout"
    )
    document = result.to_json()
    assert json.loads(json.dumps(document)) == document


def test_only_possible_protocols_are_offered():
    every = [name for name in PROTOCOLS if name != "stsb-test > 4"]  # no pair of test has that
    assert possible_protocols(stsb("train", "dev", "test"), (0.1,)) == every
    hub = possible_protocols(stsb("dev", "test"), (0.0, 0.1))
    assert hub == [name for name in every if not name.startswith("stsb-all")]
    assert "dropout-views" not in possible_protocols(stsb("dev", "test"), (0.0,))
    low = stsb("dev", "test")
    for pairs in low["STSBenchmark"].subsets.values():
        pairs.gold[:] /= 5
    assert possible_protocols(low, (0.1,)) == ["dropout-views"]


def test_a_protocols_name_says_what_it_does():
    for name, protocol in PROTOCOLS.items():
        data, _, threshold = name.removeprefix("stsb-").removesuffix(", repeated").partition(" ")
        if threshold:
            assert protocol.positives == f"gold {threshold}"
            assert protocol.splits == (("train", "dev", "test") if data == "all" else (data,))
