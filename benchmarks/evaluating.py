"""STS sets, timed: isospace, mteb and a SentEval-style loop.

Every function prepares in its process and returns one round (see `contest.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

SETS = ["STS16", "STSBenchmark", "SICKRelatedness"]
"""Three of the seven, which would take ten minutes."""


def sets(sts: Path) -> dict[str, Any]:
    """The STS sets of `SETS`."""
    from isospace.evaluation.sts import load_sts

    return {name: found for name, found in load_sts(sts).items() if name in SETS}


def ours(sts: Path, precision: Any) -> Callable[[], None]:
    """What `isospace evaluate` does: read, encode every distinct sentence once, score."""
    from isospace.encoders.loading import load_encoder
    from isospace.evaluation.sts import evaluate_sts

    encoder = load_encoder("minilm", device="cpu")

    def encode(texts: Sequence[str]) -> np.ndarray:
        return encoder.embed(texts, precision=precision)

    def one_round() -> None:
        evaluate_sts(encode, {n: t.test_only() for n, t in sets(sts).items()})

    return one_round


def senteval_loop(sts: Path) -> Callable[[], None]:
    """What SentEval does: set by set, sorted by words, batches of 128, one cosine at a time."""
    from scipy.stats import spearmanr

    from isospace.encoders.loading import load_encoder

    network = load_encoder("minilm", device="cpu").model.eval()

    def vectors(texts: Sequence[str]) -> np.ndarray:
        with torch.no_grad():
            return network(network.preprocess(list(texts)))["sentence_embedding"].numpy()

    def one_round() -> None:
        for task in sets(sts).values():
            for pairs in task.test_only().subsets.values():
                rows = sorted(
                    zip(pairs.first, pairs.second, pairs.gold, strict=True),
                    key=lambda row: (len(row[0].split()), len(row[1].split()), row[0]),
                )
                scores = []
                for start in range(0, len(rows), 128):
                    batch = rows[start : start + 128]
                    first, second = (vectors([row[i] for row in batch]) for i in (0, 1))
                    for a, b in zip(first, second, strict=True):
                        scores.append(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
                spearmanr(scores, [row[2] for row in rows])

    return one_round


def mteb_tasks(sts: Path) -> Callable[[], None]:
    """Mteb on the same pairs, given to its task objects in place of its downloads."""
    import mteb
    from datasets import Dataset, DatasetDict

    from isospace.encoders.loading import load_encoder

    names = {"STSBenchmark": "STSBenchmark", "SICKRelatedness": "SICK-R"}
    network = load_encoder("minilm", device="cpu").model

    def one_round() -> None:
        for name, found in sets(sts).items():
            parts = found.test_only().subsets.values()
            rows = [row for p in parts for row in zip(p.first, p.second, p.gold, strict=True)]
            first, second, gold = zip(*rows, strict=True)
            test = {"sentence1": first, "sentence2": second, "score": [float(g) for g in gold]}
            task = mteb.get_task(names.get(name, name))
            task.dataset = {"default": DatasetDict({"test": Dataset.from_dict(test)})}
            task.data_loaded = True
            mteb.evaluate(network, task, cache=None, show_progress_bar=False)

    return one_round
