"""Faster CPU code for some model families; values equal transformers' up to rounding.

`FAMILIES` lists the families. `packed.py` has the shared parts: tokens without padding and dropout.
`bert.py` has layers built like BERT's.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from isospace.encoders.fast import modernbert
from isospace.encoders.fast.bert import BERT, DISTILBERT, MPNET, ROBERTA

FAMILIES: dict[str, Any] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "mpnet": MPNET,
    "distilbert": DISTILBERT,
    "modernbert": modernbert,
}
"""Model type, as in a Hugging Face config.json -> an object or a module that computes its layers.

It has `fits` and `forward`, with the arguments of the functions below.
"""


def fits(model: Any) -> bool:
    """Return true if a Hugging Face model has a fast path."""
    family = FAMILIES.get(model.config.model_type)
    return family is not None and bool(family.fits(model))


def forward(model: Any, input_ids: Tensor, attention_mask: Tensor, first_only: bool) -> Tensor:
    """Return the last hidden states of a Hugging Face model.

    Args:
        model: a model that `fits`; its modules' flags and rates control dropout.
        input_ids: (batch, length) int64, padded on the right.
        attention_mask: (batch, length), 1 for tokens.
        first_only: compute only the first token's state in the last layer ([CLS] pooling).

    Returns:
        (batch, length or 1, dim) in the weights' type, zero at the padding. Autocast changes the
        type of matrix products only, and not of sums, norms and the result.
    """
    family = FAMILIES[model.config.model_type]
    return family.forward(model, input_ids, attention_mask, first_only)
