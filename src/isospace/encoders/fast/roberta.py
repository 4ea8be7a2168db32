"""RoBERTa, XLM-RoBERTa and CamemBERT: BERT's layers, with positions that begin behind the padding.

The position of padding is its own token's id; the first token has the next one.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from isospace.encoders.fast import bert
from isospace.encoders.fast.packed import positions_behind

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
    positions = positions_behind(input_ids, model.embeddings.position_embeddings.padding_idx)
    return bert.forward(model, input_ids, attention_mask, first_only, layers, states, positions)
