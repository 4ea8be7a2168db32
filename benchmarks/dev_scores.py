"""Does speed change what is learned? STS-B dev after the same sentences, over seeds."""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import lines, write_dev_file
from isospace.config import CorpusConfig, TrainConfig
from isospace.encoders.fast import FAMILIES
from isospace.encoders.loading import load_encoder
from isospace.encoders.settings import EncoderSettings
from isospace.evaluation.own_data import load_scored_pairs
from isospace.evaluation.sts import evaluate_pairs
from isospace.objectives import SimCSE
from isospace.system.devices import has_bf16
from isospace.training.prepare import load_data
from isospace.training.train import train
from training import peer_train, with_itself

SEEDS = (0, 1, 2)
OFFERED = 3_400
"""Sentences; isospace holds some of them out, and the others are what both train on, once."""
LEARNING_RATE = 3e-5


def tables(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row a candidate."""
    candidates: dict[str, Callable[[Path, Path, int], float]] = {
        "sentence-transformers' trainer": _peer,
        "isospace, transformers' layers": _plain,
        "isospace": _ours,
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        corpus, labels = Path(folder, "corpus.txt"), Path(folder, "dev.csv")
        corpus.write_text("\n".join(lines(options.corpus, OFFERED)), encoding="utf-8")
        write_dev_file(options.sts, labels)
        for name, score in candidates.items():
            scores = [score(corpus, labels, seed) for seed in SEEDS]
            shown = ", ".join(f"{score:.2f}" for score in scores)
            mean, sd = statistics.mean(scores), statistics.stdev(scores)
            rows.append([name, f"{mean:.2f}", f"{sd:.2f}", shown])
    title = "STS-B dev after an epoch of simcse (minilm, [CLS], Spearman x 100)"
    return [{"title": title, "columns": ["", "mean", "sd", "seeds 0, 1, 2"], "rows": rows}]


def _config(corpus: Path, labels: Path, seed: int = 0, output: Path | None = None) -> TrainConfig:
    return TrainConfig(
        text=CorpusConfig(corpus=(str(corpus),), held_out=200),
        objective=SimCSE(head="none"),
        pooling="cls",
        learning_rate=LEARNING_RATE,
        budget=(1, "epochs"),
        evaluations=1,
        select="labels",
        labels=str(labels),
        seed=seed,
        output=output,
    )


def _ours(corpus: Path, labels: Path, seed: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        config = _config(corpus, labels, seed, Path(folder, "run"))
        evaluations = train(config).results.training.evaluations
    return float(100 * evaluations[-1]["labels_spearman"])


def _plain(corpus: Path, labels: Path, seed: int) -> float:
    """The same with transformers' own layers in place of the fast path."""
    family = FAMILIES.pop("bert")
    try:
        return _ours(corpus, labels, seed)
    finally:
        FAMILIES["bert"] = family


def _peer(corpus: Path, labels: Path, seed: int) -> float:
    """Batches of as many, of the sentences that a run trains on."""
    text = load_data(_config(corpus, labels)).corpus
    encoder = load_encoder("minilm", EncoderSettings(pooling="cls"))
    own_limit = encoder.model.max_seq_length
    columns = with_itself([text[line] for line in text.train_rows.tolist()])
    settings = {"num_train_epochs": 1, "learning_rate": LEARNING_RATE, "seed": seed}
    peer_train(encoder.model, columns, bf16=has_bf16(), **settings)
    encoder.model.max_seq_length = own_limit
    return 100 * evaluate_pairs(encoder.embed, load_scored_pairs(labels))
