"""The tiny encoders and texts of `training.tiny` by the names of the tests, and a short run."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

from isospace.config import CorpusConfig, TrainConfig
from isospace.objectives import WhitenedCSE
from isospace.training.tiny import (
    WORDS,
    sentences,
    tiny_tokenizer,
    write_documents,
    write_tiny_bert as write_toy_model,
    write_tiny_roberta as write_toy_roberta,
)

__all__ = [
    "WORDS",
    "sentences",
    "short_run",
    "write_documents",
    "write_toy_cross_encoder",
    "write_toy_model",
    "write_toy_roberta",
]


def write_toy_cross_encoder(folder: Path, toy: Path) -> Path:
    """A cross-encoder of the size and vocabulary of the toy, with random weights."""
    torch.manual_seed(1)
    model = BertForSequenceClassification(BertConfig.from_pretrained(toy, num_labels=1))
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def short_run(model: Path, corpus: Path, output: Path) -> TrainConfig:
    """A run of 20 updates."""
    return TrainConfig(
        text=CorpusConfig(corpus=(str(corpus),), near_duplicates=False),
        objective=WhitenedCSE(),
        model=str(model),
        batch_size=16,
        budget=(320, "sentences"),
        learning_rate=1e-3,
        evaluations=2,
        output=output,
        select="last",
    )
