"""Changes of an encoder for training: trainable weights and attention masks."""

from __future__ import annotations

from dataclasses import replace

import torch

from isospace.encoders import adapters
from isospace.encoders.batch import Batch
from isospace.encoders.encoder import Encoder
from isospace.encoders.hooks import LastLayers, layers_of
from isospace.errors import UserError, first_line


def train_last(encoder: Encoder, count: int) -> None:
    """Freeze everything below the last `count` layers.

    `Encoder.forward` then runs the frozen part once for each text of a batch, without dropout and
    gradient. All views of the text share its states, and use dropout in the last layers only.
    """
    said = f"`trained_layers` {count}: "
    layers = layers_of(encoder.transformer)
    if layers and count > len(layers):
        raise UserError(f"{said}{encoder.source} has {len(layers)} layers. Give at most as many")
    if encoder.transformer.config.output_hidden_states:
        raise UserError(
            f"{said}the pooling {encoder.pooling} of {encoder.source} reads lower layers too. Take "
            "another `pooling`, or leave `trained_layers` out"
        )
    encoder.last_layers = LastLayers(layers, count) if layers else None
    if encoder.last_layers is None or not _same_apart(encoder):
        raise UserError(
            f"{said}the last layers of {encoder.source} ({encoder.family}) cannot be run without "
            "the lower layers. Leave `trained_layers` out"
        )
    batch = _two_texts(encoder)
    with encoder.noise.at(0.0):
        reached = encoder.states_below(batch).sum()
    trained = [p for p in encoder.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(reached, trained, allow_unused=True)
    for parameter, gradient in zip(trained, gradients, strict=True):
        if gradient is not None:
            parameter.requires_grad_(False)


def _same_apart(encoder: Encoder) -> bool:
    """Return true if the last layers on their own give the same vectors, without dropout."""
    batch = _two_texts(encoder)
    with torch.no_grad(), encoder.noise.at(0.0):
        whole = encoder.vectors(batch, normalised=False)
        try:
            states = encoder.states_below(batch)
        except ValueError:
            return False
        if states.shape[:2] != batch.input_ids.shape:
            return False
        apart = encoder.vectors(replace(batch, states=states), normalised=False)
        return torch.equal(whole, apart)


def _two_texts(encoder: Encoder) -> Batch:
    """Return a batch of two texts for trial passes."""
    ids = encoder.tokens.ids(["one text", "and another that is longer"])
    return encoder.tokens.collate(ids).to(encoder.device)


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


def checkpoint_layers(encoder: Encoder) -> None:
    """Switch on gradient checkpointing: save memory by running layers again in the backward pass.

    Views without dropout save no memory: they use evaluation mode, in which transformers does not
    checkpoint.
    """
    model = encoder.transformer
    newer = "activation_checkpointing_enable"  # its name in later versions of transformers 5
    try:
        getattr(model, newer, model.gradient_checkpointing_enable)()
    except ValueError as error:
        raise UserError(
            f"`gradient_checkpointing`: transformers does not support it for {encoder.source} "
            f"({encoder.family}). Leave it out, or give `pass_tokens`"
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


def attend_both_ways(encoder: Encoder) -> None:
    """Let every token of a decoder see later tokens too (LLM2Vec, BehnamGhader et al. 2024).

    The function sets `is_causal` in transformers' configuration, which a saved folder keeps.

    Raises:
        UserError: the model is not a decoder, or transformers ignores the setting for its family.
    """
    if not is_causal(encoder):
        raise UserError(
            f"`bidirectional`: {encoder.source} ({encoder.family}) is no decoder, so its tokens "
            "see later ones already. Leave the setting out"
        )
    encoder.transformer.config.is_causal = False
    if is_causal(encoder):
        raise UserError(
            f"`bidirectional`: transformers has no such mask for {encoder.source} "
            f"({encoder.family}). Leave the setting out"
        )
