"""sentence-transformers' trainer with an objective of ours."""

import torch
from toy import sentences

from isospace.encoders.loading import load_encoder
from isospace.objectives import OBJECTIVES
from isospace.training.objective_loss import ObjectiveLoss


def train_scd(toy_model, folder):
    """Return the log of two updates; the weights go to `rank-N.pt` of this process's rank."""
    import datasets
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    model = load_encoder(str(toy_model), device="cpu").model
    torch.manual_seed(0)
    loss = ObjectiveLoss(model, OBJECTIVES["scd"](projector=(64, 64)))
    arguments = SentenceTransformerTrainingArguments(
        str(folder / "out"), max_steps=2, per_device_train_batch_size=8, report_to=[],
        use_cpu=True, learning_rate=1e-3, lr_scheduler_type="constant", logging_steps=1,
        disable_tqdm=True, save_strategy="no",
    )  # fmt: skip
    data = datasets.Dataset.from_dict({"text": sentences(64)})
    trainer = SentenceTransformerTrainer(model, arguments, train_dataset=data, loss=loss)
    trainer.train()
    weights = {name: value.detach() for name, value in loss.named_parameters()}
    torch.save(weights, folder / f"rank-{arguments.process_index}.pt")
    return trainer.state.log_history
