"""Faster arithmetic on the CPU for some families; values equal transformers' own to rounding.

`FAMILIES` is the table of them. What all share, the packing of tokens without their padding and the
dropout, is in `packed.py`; layers built like BERT's are in `post_norm.py`.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor, nn

from isospace.encoders.fast import modernbert
from isospace.encoders.fast.bert import BERT, DISTILBERT, MPNET, ROBERTA


class Family(Protocol):
    """The two functions that a family offers, as a module or an object."""

    def refusal(self, model: Any, /) -> str | None:
        """Say why `forward` would not compute what this model does; `None` if it does."""

    def forward(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        first_only: bool,
        layers: slice,
        states: Tensor | None,
    ) -> Tensor:
        """Return the model's last hidden states.

        Args:
            model: a Hugging Face model that is not refused; dropout follows its modules' flags and
                rates.
            input_ids: (batch, length) int64, padded on the right.
            attention_mask: (batch, length), 1 for tokens.
            first_only: only the first token's state is wanted ([CLS] pooling): the last layer then
                computes no other.
            layers: those that run.
            states: (batch, length, dim), what the first of them gets; `None`: the embeddings.

        Returns:
            (batch, length or 1, dim) in the weights' type, zero at the padding. Under autocast the
            matrix products run in autocast's type; sums, norms and the result do not.
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
"""Model type, as in a Hugging Face config.json -> what computes its layers."""


def model_type(model: nn.Module) -> str:
    """Return the family that a Hugging Face model names, or else its class."""
    config: Any = getattr(model, "config", None)
    return str(getattr(config, "model_type", type(model).__name__))


def refusal(model: nn.Module) -> str | None:
    """Say why no fast path serves this Hugging Face model; `None` if one does."""
    kind = model_type(model)
    return FAMILIES[kind].refusal(model) if kind in FAMILIES else f"{kind} has none"


def forward(
    model: nn.Module,
    input_ids: Tensor,
    attention_mask: Tensor,
    first_only: bool,
    layers: slice = slice(None),
    states: Tensor | None = None,
) -> Tensor:
    """Run `Family.forward` of the family of a model that is not refused."""
    family = FAMILIES[model_type(model)]
    return family.forward(model, input_ids, attention_mask, first_only, layers, states)
