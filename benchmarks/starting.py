"""From the command to the first update: a process, its imports, the model, texts, first scores.

Everything that is kept between runs is there: texts, tokens, vectors of the base model. isospace
has scored the base model by then; sentence-transformers reads the lines and begins.
"""

from __future__ import annotations

import argparse
import gzip
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROUNDS = 3


def tables(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds of both, by turns."""
    commands = {"sentence-transformers' trainer": _peer, "isospace train": _ours}
    found: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(ROUNDS + 1):  # the first fills the caches
        for name, command in commands.items():
            with tempfile.TemporaryDirectory() as folder:
                seconds = command(options.corpus, Path(folder))
            if number:
                found[name].append(seconds)
    rows = [
        [name, f"{median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})"]
        for name, seconds in found.items()
    ]
    title = "from the command to the first update, everything cached, minilm"
    return [{"title": title, "columns": ["", "seconds"], "rows": rows}]


def _ours(corpus: Path, folder: Path) -> float:
    """Until the log of the run has its first update."""
    words = ["-m", "isospace", "train", "--corpus", str(corpus)]
    words += ["--output", str(folder / "run")]
    log = folder / "run" / "metrics.jsonl"
    return _until(words, lambda: log.is_file() and '"kind": "step"' in log.read_text())


def _peer(corpus: Path, folder: Path) -> float:
    """Train until the callback of the first update."""
    from isospace.encoders.places import resolve

    mark = folder / "begun"
    return _until([__file__, resolve("minilm").path, str(corpus), str(mark)], mark.exists)


def _until(words: Sequence[str], reached: Callable[[], bool]) -> float:
    """Seconds until a Python process has come to where it is ended."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not reached():
            if process.poll() is not None:
                raise RuntimeError(f"{' '.join(words)} ended before its first update")
            time.sleep(0.02)
        return time.perf_counter() - began
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """sentence-transformers' SimCSE recipe, which leaves a mark behind its first update.

    Nothing of isospace is imported here.
    """
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.losses import MultipleNegativesRankingLoss
    from transformers import TrainerCallback

    model, corpus, mark = sys.argv[1:]

    class Mark(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            Path(mark).touch()

    network = SentenceTransformer(model)
    network.max_seq_length = 32
    opener = gzip.open if corpus.endswith(".gz") else open
    with opener(corpus, "rt", encoding="utf-8") as file:
        sentences = [line.strip() for line in file if len(line) > 10]
    settings = SentenceTransformerTrainingArguments(
        str(Path(mark).parent / "run"),
        per_device_train_batch_size=64,
        bf16=True,
        use_cpu=True,
        max_steps=100,
        save_strategy="no",
        report_to="none",
        logging_strategy="no",
    )
    SentenceTransformerTrainer(
        network,
        settings,
        Dataset.from_dict({"anchor": sentences, "positive": sentences}),
        loss=MultipleNegativesRankingLoss(network),
        callbacks=[Mark()],
    ).train()


if __name__ == "__main__":
    main()
