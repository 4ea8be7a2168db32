"""Changes of an encoder for training: trainable weights and attention masks."""

from __future__ import annotations

import torch

from isospace.encoders import adapters
from isospace.encoders.batch import Batch
from isospace.encoders.encoder import Encoder
from isospace.errors import UserError, first_line


def train_adapters(encoder: Encoder, rank: int, seed: int) -> None:
    """Freeze all weights, and add an adapter of this rank to every linear layer."""
    encoder.requires_grad_(False)
    try:
        adapters.insert(encoder.transformer, rank, seed)
    except ValueError as error:
        raise UserError(
            f"`lora` {rank}: {encoder.source} ({encoder.family}) has no linear layers for adapters "
            f"({first_line(error)}). Leave `lora` out"
        ) from error


def is_causal(encoder: Encoder) -> bool:
    """Return true if no token's state depends on later tokens, as in decoders.

    The function compares the states of two texts, since each family has its own setting.
    """
    if not encoder.is_transformer:
        return False
    first_states = []
    for last in (1, 2):
        ids = torch.tensor([[0, 0, last]], device=encoder.device)
        batch = Batch(ids, torch.ones_like(ids))
        with torch.no_grad(), encoder.noise.at(0.0):
            states = encoder.model[0](encoder.features(batch))["token_embeddings"]
        first_states.append(states[:, :2])
    return torch.equal(*first_states)
