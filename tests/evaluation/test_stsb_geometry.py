"""Alignment and uniformity on STS-B dev."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from isospace.evaluation.evaluate_config import EvaluateConfig
from isospace.evaluation.geometry import STSBGeometry, stsb_geometry
from isospace.evaluation.pairs import ScoredPairs
from isospace.evaluation.senteval import STSSet
from isospace.evaluation.task import Request


def encode(sentences):
    angles = np.radians([float(sentence) for sentence in sentences])
    return 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def stsb(gold):
    dev = ScoredPairs("dev", ("0", "0", "0"), ("60", "30", "90"), np.array(gold), "s")
    return {"STSBenchmark": STSSet("STSBenchmark", {"dev": dev})}


def squared_distance(degrees):
    return 2 - 2 * np.cos(np.radians(degrees))


def test_pairs_from_four_on_are_positive_and_each_sentence_counts_once():
    result = stsb_geometry(encode, stsb([5.0, 4, 1]))
    assert result.alignment == pytest.approx(np.mean(squared_distance([60, 30])), abs=1e-6)
    between = [b - a for a, b in itertools.combinations((0, 30, 60, 90), 2)]
    potentials = np.exp(-2 * squared_distance(between))
    assert result.uniformity == pytest.approx(np.log(potentials.mean()), abs=1e-5)
    assert "2 pairs (gold >= 4), uniformity over 4 distinct" in result.protocol


@pytest.mark.parametrize(("gold", "measured"), [([5.0, 4, 1], True), ([1.0, 0.8, 0.2], False)])
def test_without_positive_pairs_nothing_is_measured(gold, measured):
    found = STSBGeometry.load(Request(EvaluateConfig(), None, stsb(gold), []))
    assert (found is not None) == measured
