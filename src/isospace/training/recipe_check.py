"""Run a recipe end to end on a tiny encoder, so that its command is known to start."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from isospace.config import CorpusConfig, TrainConfig
from isospace.objectives import DeCLUTR, WhitenedCSE
from isospace.recipes import find
from isospace.system.progress import Silent
from isospace.training.run import FinishedRun
from isospace.training.tiny import (
    sentences,
    write_documents,
    write_senteval,
    write_tiny_bert,
    write_tiny_roberta,
)
from isospace.training.train import train

UPDATES, BATCH, LINES = 2, 16, 160
_LENGTH = 512
"""Tokens that a tiny encoder reads, as the real ones do."""
_NARROWER = 16


def check_recipe(name: str, folder: Path) -> FinishedRun:
    """Train a tiny encoder by a recipe for two updates, score it, and save it.

    The encoder is a BERT or RoBERTa of two layers with random weights, of the family of the
    recipe's model. The width, the groups of WhitenedCSE and the projectors are a sixteenth of the
    recipe's, and batches hold 16 texts or 2 documents. Every other setting is the recipe's own. The
    texts are random sentences in the format that the recipe reads.

    Args:
        name: of the recipe.
        folder: for the encoder and the texts, which further checks reuse, and for the run.

    Raises:
        UserError: there is no such recipe, or it cannot be run.
    """
    config = find(name).config
    labelled = config.select == "labels"
    batch = BATCH // 8 if isinstance(config.objective, DeCLUTR) else BATCH  # of long documents
    settings = replace(
        _narrowed(config, folder),
        text=replace(config.text, corpus=(str(_corpus(config, folder)),)),
        model=str(_encoder(config, folder)),
        batch_size=batch,
        budget=(UPDATES * batch, "sentences"),
        evaluations=1,
        data=str(_once(folder / "sts", write_senteval)) if labelled else None,
        output=folder / "runs" / name,
    )
    return train(settings, progress=Silent())


def _once(path: Path, write: Callable[[Path], Any]) -> Path:
    """Write a file or folder unless an earlier check did."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
    return path


def _encoder(config: TrainConfig, folder: Path, *, masked_words: bool = False) -> Path:
    """Return a tiny encoder of the family of the recipe's model."""
    width = (1024 if "large" in config.model else 768) // _NARROWER
    roberta = "roberta" in config.model
    family, write = ("roberta", write_tiny_roberta) if roberta else ("bert", write_tiny_bert)
    sizes = {"hidden_size": width, "num_hidden_layers": 2, "length": _LENGTH}
    name = f"{family}-{width}{'-masked' * masked_words}"
    return _once(folder / name, lambda path: write(path, masked_words=masked_words, **sizes))


def _narrowed(config: TrainConfig, folder: Path) -> TrainConfig:
    """Return settings whose objective fits the tiny encoder."""
    changed: dict[str, Any] = {}
    if isinstance(config.objective, WhitenedCSE) and config.objective.groups:
        changed["groups"] = config.objective.groups // _NARROWER
    if projector := getattr(config.objective, "projector", ()):
        changed["projector"] = tuple(size // _NARROWER for size in projector)
    if getattr(config.objective, "generator", None) is not None:
        changed["generator"] = str(_encoder(config, folder, masked_words=True))
    return replace(config, objective=replace(config.objective, **changed))


def _corpus(config: TrainConfig, folder: Path) -> Path:
    """Return a corpus in the format that the recipe reads."""
    text: CorpusConfig = config.text
    if config.views == "pairs":
        return _once(folder / "documents", write_documents)
    if text.columns:
        labels = ("entailment", "neutral", "contradiction")
        sides = [sentences(LINES, seed) for seed in range(len(text.columns))]
        rows = [
            dict(zip(text.columns, row, strict=True))
            | ({text.label_column: labels[number % 3]} if text.label_column else {})
            for number, row in enumerate(zip(*sides, strict=True))
        ]
        content = "".join(f"{json.dumps(row)}\n" for row in rows)
        name = "labelled.jsonl" if text.label_column else "triples.jsonl"
        return _once(folder / name, lambda path: path.write_text(content))
    name, lines = "lines.txt", sentences(LINES)
    if isinstance(config.objective, DeCLUTR):  # documents of four spans and more
        words = 4 * config.objective.max_span
        name = "long.txt"
        lines = [" ".join(sentences(words // 8, seed)) for seed in range(LINES // 4)]
    return _once(folder / name, lambda path: path.write_text("\n".join(lines)))
