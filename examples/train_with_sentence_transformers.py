"""Use an isospace objective as the loss of sentence-transformers' own trainer.

    python train_with_sentence_transformers.py sentences.txt BASE_MODEL --output trained

`isospace train` also measures, selects the checkpoint and goes on after a crash; the trainer of
sentence-transformers does none of that.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)

from isospace import OBJECTIVES, ObjectiveLoss

if __name__ == "__main__":
    parser = ArgumentParser(description="Train with an isospace objective as the loss.")
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
        loss=ObjectiveLoss(model, OBJECTIVES["simcse++"](head="none")),
    )
    trainer.train()
    model.save_pretrained(arguments.output, create_model_card=False)
    print(f"trained on {len(lines):,} sentences: {arguments.output}")
