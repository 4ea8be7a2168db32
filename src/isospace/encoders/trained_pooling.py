"""Encoders that replace the pooling of another encoder, and share its weights.

Training either encoder trains both. The new encoders use only sentence-transformers modules and a
tokenizer template, so a saved folder needs no custom code.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import (
    CNN,
    Dense,
    Normalize,
    Pooling,
    WordWeights,
)
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from isospace.encoders.encoder import Encoder
from isospace.encoders.modules import rebuilt
from isospace.views.edits import Template
from isospace.views.networks import Convolutions


def at_mask(encoder: Encoder, template: Template) -> Encoder:
    """Return an encoder whose vector is the last state at the mask token of a template.

    The tokenizer truncates a text and then adds the template around it. Token weights, 1 for the
    mask token and 0 for all others, turn mean pooling into the state at the mask. A final
    normalisation stays; other modules after the pooling are dropped.

    Raises:
        ValueError: the tokenizer cannot hold a template, or the template leaves no room for a text.
    """
    tokenizer = _tokenizer_with(encoder, template)
    transformer: Any = copy.copy(encoder.model[0])
    transformer.processor = tokenizer
    weights = WordWeights(_tokens_of(encoder), {str(tokenizer.mask_token): 1.0}, 0.0)
    return _averaged(encoder, [transformer, weights], encoder.token_dim)


def convolved(encoder: Encoder, convolutions: Convolutions) -> Encoder:
    """Return an encoder whose vector is the mean of convolutions over the tokens' last states.

    `WordWeights` of 1 set the states at the padding to 0, so that convolutions do not mix them in.
    """
    weights = WordWeights(_tokens_of(encoder), {}, 1.0)
    cnn = CNN(convolutions.dim, convolutions.channels, list(convolutions.kernels))
    cnn.convs = convolutions.layers
    dim = cnn.get_embedding_dimension()
    modules: list[nn.Module] = [encoder.model[0], weights, cnn]
    if convolutions.relu:  # the CNN module has no ReLU
        rectified = Dense(
            dim,
            dim,
            bias=False,
            activation_function=nn.ReLU(),
            init_weight=torch.eye(dim),
            module_input_name="token_embeddings",
        )
        modules.append(rectified.requires_grad_(False))
    return _averaged(encoder, modules, dim)


def _tokens_of(encoder: Encoder) -> list[str]:
    ids = list(range(encoder.word_embeddings.num_embeddings))
    return [str(token) for token in encoder.tokenizer.convert_ids_to_tokens(ids)]


def _averaged(encoder: Encoder, modules: Sequence[nn.Module], dim: int) -> Encoder:
    """Return an encoder of these modules, followed by mean pooling over tokens."""
    closing = [module for module in encoder.model if isinstance(module, Normalize)]
    model = rebuilt(encoder.model, [*modules, Pooling(dim, "mean"), *closing])
    return type(encoder)(model, encoder.source, encoder.prompts)


def _tokenizer_with(encoder: Encoder, template: Template) -> PreTrainedTokenizerBase:
    """Return a tokenizer that adds the template around a text, inside the special tokens."""
    own, vocabulary = encoder.tokenizer, encoder.vocabulary
    backend = getattr(own, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(
            f"its tokenizer ({type(own).__name__}) has no tokenizer.json that could hold a template"
        )
    before, after = template.parts(vocabulary)
    ids = np.array(own("x")["input_ids"])
    inner = vocabulary.inner(ids)
    around = {"before": [*ids[: inner.start], *before], "after": [*after, *ids[inner.stop :]]}
    count, limit = sum(map(len, around.values())), encoder.max_length
    if limit is not None and limit <= count:
        raise ValueError(
            f"it reads {limit} tokens, and the template takes {count}: no room is left for a text"
        )
    built = Tokenizer.from_str(backend.to_str())
    built.no_truncation()
    built.no_padding()
    built.post_processor = TemplateProcessing(
        single=["before", "$A", "after"],
        special_tokens=[
            {"id": name, "ids": list(map(int, ids)), "tokens": own.convert_ids_to_tokens(ids)}
            for name, ids in around.items()
        ],
    )
    # This class keeps tokenizer.json unchanged; family classes rebuild its post-processor.
    general: Any = PreTrainedTokenizerFast
    tokenizer: PreTrainedTokenizerBase = general(
        tokenizer_object=built,
        model_max_length=own.model_max_length,
        model_input_names=own.model_input_names,
        padding_side=own.padding_side,
        truncation_side=own.truncation_side,
        split_special_tokens=True,  # "[MASK]" in a text is not a mask token
        **own.special_tokens_map,
    )
    return tokenizer
