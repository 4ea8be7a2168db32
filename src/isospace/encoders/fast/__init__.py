"""Faster CPU code for some model families; values equal transformers' up to rounding.

`FAMILIES` lists the families. `packed.py` has the shared parts: tokens without padding and dropout.
`post_norm.py` has layers built like BERT's.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor, nn

from isospace.encoders.fast import modernbert
from isospace.encoders.fast.bert import BERT, DISTILBERT, MPNET, ROBERTA


class Family(Protocol):
    """The interface of a model family: two functions of a module or an object."""

    def refusal(self, model: Any, /) -> str | None:
        """Return the reason why `forward` cannot compute this model; `None` if it can."""

    def forward(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, first_only: bool
    ) -> Tensor:
        """Return the model's last hidden states.

        Args:
            model: a Hugging Face model without a `refusal`; its modules' flags and rates control
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


def model_type(model: nn.Module) -> str:
    """Return the model type in a Hugging Face model's config, or else its class name."""
    config: Any = getattr(model, "config", None)
    return str(getattr(config, "model_type", type(model).__name__))


def refusal(model: nn.Module) -> str | None:
    """Return the reason why a Hugging Face model has no fast path; `None` if it has one."""
    kind = model_type(model)
    return FAMILIES[kind].refusal(model) if kind in FAMILIES else f"{kind} has none"


def forward(
    model: nn.Module, input_ids: Tensor, attention_mask: Tensor, first_only: bool
) -> Tensor:
    """Run `Family.forward` of a model's family; requires a model without a `refusal`."""
    family = FAMILIES[model_type(model)]
    return family.forward(model, input_ids, attention_mask, first_only)
