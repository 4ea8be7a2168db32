"""Masked-language models that share an encoder's vocabulary."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from isospace.encoders.places import Place, loading, resolve
from isospace.errors import UserError

_HEADS = (
    ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions"),
    ("lm_head.dense", "lm_head.layer_norm", "lm_head"),
)
"""Names of dense layer, norm and word bias in the heads of BERT and RoBERTa."""


class LanguageModel(nn.Module):
    """A model from token ids to logits of the vocabulary, without dropout and gradient."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.eval().requires_grad_(False)

    def train(self, mode: bool = True) -> LanguageModel:
        """Stay in evaluation mode."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map `ids` and `mask` (n, length) to logits (n, length, vocabulary)."""
        return self.model(input_ids=ids, attention_mask=mask).logits

    def head(self) -> dict[str, Tensor] | None:
        """Return the head's dense, norm and bias; `None` if it is not BERT's or RoBERTa's."""
        weights = self.model.state_dict()
        for dense, norm, words in _HEADS:
            places = {"bias": f"{words}.bias"}
            for name in ("weight", "bias"):
                places |= {f"dense.{name}": f"{dense}.{name}", f"norm.{name}": f"{norm}.{name}"}
            if weights.keys() >= set(places.values()):
                return {part: weights[place] for part, place in places.items()}
        return None


def masked_language_model(
    source: str, tokenizer: PreTrainedTokenizerBase, name: str | None
) -> LanguageModel:
    """Load a masked-language model with the vocabulary of an encoder.

    `source` names the encoder, and is the default of `name`.

    Raises:
        ValueError: the model has no trained head for masked words, or another vocabulary.
    """
    name = name or source
    try:
        model, own, missing = _load(resolve(name))
    except UserError as error:
        raise ValueError(f"masked-language model {name}: {error}") from error
    if missing:
        raise ValueError(
            f"{name} has no trained head for masked words ({missing[0]} is missing), only an "
            "encoder"
        )
    if own.get_vocab() != tokenizer.get_vocab():
        raise ValueError(f"{name} has another vocabulary than {source}")
    return LanguageModel(model)


def _load(place: Place) -> tuple[nn.Module, PreTrainedTokenizerBase, list[str]]:
    """Return model, tokenizer, and the names of weights that are missing in the checkpoint."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity(logging.ERROR)
    try:
        # Missing weights are drawn at random; the caller's random state must not change.
        with loading("cannot be loaded"), torch.random.fork_rng(devices=[]):
            loaded: Any = AutoModelForMaskedLM.from_pretrained(
                place.path, output_loading_info=True, **place.options
            )
            model, info = loaded
            tokenizer = AutoTokenizer.from_pretrained(place.path, **place.options)
    finally:
        transformers_logging.set_verbosity(verbosity)
    return model.float(), tokenizer, sorted(info["missing_keys"])
