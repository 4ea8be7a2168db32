"""Use isospace's losses in sentence-transformers' own trainer.

    python train_with_sentence_transformers.py sentences.txt BASE_MODEL --output trained

The losses are functions of tensors, so any trainer can call them. `isospace train` also measures,
selects the checkpoint and goes on after a crash.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)

from isospace.losses import dimension_contrast, info_nce


class DropoutContrast(torch.nn.Module):
    """SimCSE with the contrast between dimensions of SimCSE++: every text twice under dropout."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Iterable[dict[str, Any]], labels: Any = None) -> torch.Tensor:
        """Compute the loss of a batch with one text column."""
        [texts] = features
        first, second = (self.model(dict(texts))["sentence_embedding"] for _ in range(2))
        return info_nce(first, second, temperature=0.05) + 0.1 * dimension_contrast(first, second)


if __name__ == "__main__":
    parser = ArgumentParser(description="Train with isospace's losses.")
    parser.add_argument("sentences", type=Path, help="a sentence a line")
    parser.add_argument("model", help="the base model: a folder or a Hub name")
    parser.add_argument("--output", default="trained", help="the folder of the trained model")
    arguments = parser.parse_args()

    lines = arguments.sentences.read_text(encoding="utf-8").splitlines()
    model = SentenceTransformer(arguments.model)
    trainer = SentenceTransformerTrainer(
        model,
        SentenceTransformerTrainingArguments(
            arguments.output,
            num_train_epochs=1,
            per_device_train_batch_size=64,
            learning_rate=1e-5,
            report_to=[],
            save_strategy="no",
        ),
        train_dataset=Dataset.from_dict({"text": lines}),
        loss=DropoutContrast(model),
    )
    trainer.train()
    model.save_pretrained(arguments.output, create_model_card=False)
    print(f"trained on {len(lines):,} sentences: {arguments.output}")
