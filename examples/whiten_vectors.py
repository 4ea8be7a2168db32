"""Whiten vectors that you already have, made by any model.

    python whiten_vectors.py questions.npy answers.npy --output map.npy

Row i of the two files belongs together: a question and its answer, a title and its text. Most of
the pairs fit the map; the others say whether it helps. To use it, compute
`vectors @ numpy.load("map.npy")` for questions and answers alike, before you normalise them.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import numpy as np
import torch

from isospace.operators.fitted_whitening import PairMoments


def mrr(questions: np.ndarray, answers: np.ndarray) -> float:
    """Return the mean reciprocal rank of each question's own answer among all, by cosine."""
    a, b = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (questions, answers))
    cosines = a @ b.T
    ranks = (cosines >= cosines.diagonal()[:, None]).sum(axis=1)
    return float(np.mean(1 / ranks))


if __name__ == "__main__":
    parser = ArgumentParser(description="Whiten vectors by pairs that belong together.")
    parser.add_argument("questions", type=Path, help=".npy, (n, dim)")
    parser.add_argument("answers", type=Path, help=".npy, (n, dim)")
    parser.add_argument("--power", type=float, default=0.5, help="how far to whiten, 0 to 1")
    parser.add_argument("--output", type=Path, default=Path("map.npy"))
    arguments = parser.parse_args()

    x, y = np.load(arguments.questions), np.load(arguments.answers)
    order = np.random.default_rng(0).permutation(len(x))
    test, fit = np.split(order, [len(x) // 5])
    moments = PairMoments.from_pairs(torch.from_numpy(x[fit]), torch.from_numpy(y[fit]))
    kernel = moments.fit(arguments.power).kernel.numpy().astype(x.dtype)
    print(f"MRR of {len(test):,} other pairs: {100 * mrr(x[test], y[test]):.2f} before, ", end="")
    print(f"{100 * mrr(x[test] @ kernel, y[test] @ kernel):.2f} after")
    np.save(arguments.output, kernel)
