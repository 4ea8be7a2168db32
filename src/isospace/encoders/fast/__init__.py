"""Faster CPU code for families built like BERT; values equal transformers' up to rounding.

`bert.py` computes the layers, `packed.py` has tokens without padding and fast dropout.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from isospace.encoders.fast.bert import BERT, DISTILBERT, MPNET, ROBERTA, PostNorm

FAMILIES: dict[str, PostNorm] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "mpnet": MPNET,
    "distilbert": DISTILBERT,
}
"""Model type, as in a Hugging Face config.json -> what computes its layers."""


def fits(model: Any) -> bool:
    """Return true if a Hugging Face model has a fast path."""
    family = FAMILIES.get(model.config.model_type)
    return family is not None and family.fits(model)


def forward(model: Any, input_ids: Tensor, attention_mask: Tensor, first_only: bool) -> Tensor:
    """Return the last hidden states of a Hugging Face model.

    The flags and rates of the model's modules control dropout. Ids and mask are (batch, length),
    padded on the right. With `first_only` the last layer computes the first token's state alone
    ([CLS] pooling).

    The result is (batch, length or 1, dim) in the weights' type, zero at the padding. Autocast
    changes the type of matrix products only, and not of sums, norms and the result.
    """
    family = FAMILIES[model.config.model_type]
    return family.forward(model, input_ids, attention_mask, first_only)
