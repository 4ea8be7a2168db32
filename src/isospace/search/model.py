"""The model of an index: found where it is now, and checked to be the same."""

from __future__ import annotations

from pathlib import Path

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.errors import UserError
from isospace.search.about import About


def load_model(folder: Path, about: About, model: str | None) -> Encoder:
    """Load the model that made the vectors of an index.

    Args:
        folder: of the index.
        about: its isospace.json.
        model: where the model is now, `None`: where it was.

    Raises:
        UserError: it cannot be loaded, or is another.
    """
    name = model or about.model
    try:
        encoder = load_encoder(name)
    except UserError as error:
        if model is not None:
            raise
        raise UserError(
            f"{error}. {folder} is an index of this model; if it is elsewhere now, say where with "
            "`model`"
        ) from error
    if encoder.dim != about.dim:
        difference = f"{encoder.dim} dimensions, not {about.dim}"
    elif weights_hash(encoder) != about.weights:
        difference = "other weights, another tokenizer or another pooling"
    else:
        return encoder
    raise UserError(
        f"{folder}: an index of another model ({about.model}); {name} has {difference}. Name the "
        "right one with `model`, or index the texts anew into another folder"
    )
