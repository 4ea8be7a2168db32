"""What an evaluation measures: how much of the held-out text, and that the start is the reference."""

import numpy as np

from isospace.evaluation.benchmark import (
    HELD_OUT_PAIRS,
    HELD_OUT_SENTENCES,
    NOISY_SENTENCES,
    HeldOut,
)
from isospace.evaluation.pairs import TextPairs

LARGE = [f"held-out sentence number {i}" for i in range(4000)]


class Recorder:
    """An encoder that draws a vector for each text, and counts the texts of each call."""

    def __init__(self):
        self.counts = []
        self.random = np.random.default_rng(0)

    def __call__(self, texts):
        self.counts.append(len(texts))
        return self.random.standard_normal((len(texts), 8)).astype(np.float32)


def test_an_evaluation_measures_a_fixed_part_of_much_text():
    held_out = HeldOut(LARGE[:2000], TextPairs("p", tuple(LARGE[:2000]), tuple(LARGE[2000:])))
    assert list(held_out.pairs)[:2] == [(LARGE[0], LARGE[2000]), (LARGE[4], LARGE[2004])]
    clean, noisy = Recorder(), Recorder()
    held_out.measure(clean, noisy)
    assert clean.counts == [
        HELD_OUT_SENTENCES,
        2 * HELD_OUT_PAIRS,
    ]  # in one call, as `select_weight` makes it
    assert noisy.counts == [NOISY_SENTENCES, NOISY_SENTENCES]


def test_the_first_evaluation_is_the_reference_of_the_others():
    held_out = HeldOut(LARGE[:30], TextPairs("p", tuple(LARGE[:20]), tuple(LARGE[20:40])))
    overlaps = [held_out.measure(e, e)["neighbour_overlap"] for e in (Recorder(), Recorder())]
    assert overlaps == [1.0, 1.0]  # equal draws: the second is the base model again
    other = Recorder()
    other(LARGE[:3])
    assert held_out.measure(other, other)["neighbour_overlap"] < 1.0
