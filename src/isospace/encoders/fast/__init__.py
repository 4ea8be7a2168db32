"""Faster CPU code for some model families; values equal transformers' up to rounding.

`FAMILIES` lists the families. `packed.py` has the shared parts: tokens without padding and dropout.
`bert.py` has layers built like BERT's.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from isospace.encoders.fast import modernbert
from isospace.encoders.fast.bert import BERT, DISTILBERT, MPNET, ROBERTA


class Family(Protocol):
    """The interface of a model family: two functions of a module or an object."""

    def fits(self, model: Any, /) -> bool:
        """Return true if `forward` can compute this model."""

    def forward(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, first_only: bool
    ) -> Tensor:
        """Return the model's last hidden states.

        Args:
            model: a Hugging Face model that `fits`; its modules' flags and rates control
                dropout.
            input_ids: (batch, length) int64, padded on the right.
            attention_mask: (batch, length), 1 for tokens.
            first_only: compute only the first token's state in the last layer ([CLS] pooling).

        Returns:
            (batch, length or 1, dim) in the weights' type, zero at the padding. Autocast changes
            the type of matrix products only, and not of sums, norms and the result.
        """


FAMILIES: dict[str, Family] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "mpnet": MPNET,
    "distilbert": DISTILBERT,
    "modernbert": modernbert,
}
"""Model type, as in a Hugging Face config.json -> family that computes its layers."""


def fits(model: Any) -> bool:
    """Return true if a Hugging Face model has a fast path."""
    family = FAMILIES.get(model.config.model_type)
    return family is not None and family.fits(model)


def forward(model: Any, input_ids: Tensor, attention_mask: Tensor, first_only: bool) -> Tensor:
    """Run `Family.forward` of a model's family; requires a model that `fits`."""
    family = FAMILIES[model.config.model_type]
    return family.forward(model, input_ids, attention_mask, first_only)
