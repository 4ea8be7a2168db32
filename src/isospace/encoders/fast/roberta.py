"""RoBERTa, XLM-RoBERTa and CamemBERT: BERT's layers, with positions that begin behind the padding.

The position of padding is its own token's id; the first token has the next one.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from isospace.encoders.fast import bert

refusal = bert.refusal


def forward(
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    first_only: bool,
    layers: slice,
    states: Tensor | None,
) -> Tensor:
    """The last hidden states, as `Family.forward` says."""
    first_position = model.embeddings.position_embeddings.padding_idx + 1
    return bert.forward(
        model, input_ids, attention_mask, first_only, layers, states, first_position
    )
