"""Positions of families that begin to count behind the padding."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    DistilBertConfig,
    DistilBertModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
)

from isospace.encoders.tokenisation import EmbeddingChanges, changed_embeddings, embedding_refusal

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 40,
}
FAMILIES = {
    "roberta": lambda: RobertaModel(RobertaConfig(**SIZES, pad_token_id=1)),
    "mpnet": lambda: MPNetModel(MPNetConfig(**SIZES, pad_token_id=1)),
    "distilbert": lambda: DistilBertModel(
        DistilBertConfig(vocab_size=50, dim=16, n_layers=1, n_heads=2, hidden_dim=16)
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_unchanged_positions_are_the_models_own(family):
    model = FAMILIES[family]().eval()
    assert embedding_refusal(model) is None
    ids = torch.tensor([[4, 9, 8, 7, 5], [4, 8, 5, 1, 1]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    kept = torch.ones(2, 5, 16, dtype=torch.bool)
    places = torch.arange(5).repeat(2, 1)
    with torch.no_grad():
        expected = model(ids, attention_mask=mask).last_hidden_state
        with changed_embeddings(model, EmbeddingChanges(places, kept)):
            found = model(ids, attention_mask=mask).last_hidden_state
        moved = places.flip(1)
        with changed_embeddings(model, EmbeddingChanges(moved, kept)):
            other = model(ids, attention_mask=mask).last_hidden_state
        after = model(ids, attention_mask=mask).last_hidden_state
    real = mask.bool()
    assert torch.allclose(found[real], expected[real], atol=1e-6)
    assert not torch.allclose(other[real], expected[real], atol=1e-3)
    assert torch.equal(after, expected)


def test_rotary_positions_are_refused():
    sizes = {**SIZES, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}
    model = ModernBertModel(ModernBertConfig(**sizes, cls_token_id=2, sep_token_id=3))
    assert "ModernBertModel" in embedding_refusal(model)
