"""Put a fitted map behind an encoder, so that the model that is saved holds it."""

from __future__ import annotations

from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from torch import nn

from isospace.encoders.encoder import Encoder
from isospace.operators.fitted_whitening import WhiteningMap


def drop_normalize(encoder: Encoder) -> None:
    """Take a closing L2 normalisation off an encoder, in place; cosines stay what they are."""
    while isinstance(encoder.model[-1], Normalize):
        encoder.model.pop(-1)


def fold(encoder: Encoder, whitening: WhiteningMap) -> None:
    """Put a map behind an encoder's own modules, in place: a dense layer, then L2 normalisation.

    The map must have been fitted on this encoder's vectors without their closing normalisation
    (`drop_normalize`), and takes its place. The folder is then transformer, pooling, dense,
    normalisation, the one order that servers which normalise last of all also compute.
    """
    drop_normalize(encoder)
    weight, bias = whitening.weight.float().contiguous(), whitening.bias.float()
    dense = Dense(
        weight.shape[1],
        weight.shape[0],
        activation_function=nn.Identity(),
        init_weight=weight,
        init_bias=bias,
    )
    encoder.model.extend([dense.to(encoder.device), Normalize()])
    encoder.model.similarity_fn_name = "cosine"
