"""What a user would pick instead: sentence-transformers' own recipes, by its own trainer.

Losses and learning rates are those of its documentation's scripts, and so are a warm-up of a tenth
and, for pairs, batches without duplicates. Batches are 64 where these have more, and texts are cut
to 64 tokens, so that as many tokens are as many updates as isospace's.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.saving import save_model
from isospace.system.devices import has_bf16
from isospace.training.examples import LONGEST_CROP, SHORTEST_CROP, Examples
from isospace.training.prepare import load_data
from training import peer_train, with_itself

LENGTH = 64
DELETED = 0.6
"""Share of the words that TSDAE's input is without."""


@dataclass(frozen=True)
class PeerRecipe:
    """One of sentence-transformers' recipes.

    Attributes:
        pairs: whether it is given the pairs of the corpus; else its texts.
        columns: its examples, by column, of texts.
        loss: name in `sentence_transformers.losses`.
        batch: examples.
        learning_rate: of AdamW after the warm-up.
    """

    pairs: bool
    columns: Callable[[Sequence[str]], dict[str, Sequence[str]]]
    loss: str
    batch: int
    learning_rate: float


def damaged(texts: Sequence[str]) -> dict[str, Sequence[str]]:
    """Columns of TSDAE: each text without most of its words, and as it is."""
    draw = random.Random(0)
    kept = [[word for word in text.split() if draw.random() > DELETED] for text in texts]
    return {
        "damaged": [
            " ".join(words or [draw.choice(text.split())])
            for words, text in zip(kept, texts, strict=True)
        ],
        "original": texts,
    }


PEERS = {
    "st-simcse": PeerRecipe(False, with_itself, "MultipleNegativesRankingLoss", 64, 5e-5),
    "st-ct": PeerRecipe(
        False, lambda texts: {"text": texts}, "ContrastiveTensionLossInBatchNegatives", 64, 5e-5
    ),
    "st-tsdae": PeerRecipe(False, damaged, "DenoisingAutoEncoderLoss", 8, 3e-5),
    "st-mnrl": PeerRecipe(
        True,
        lambda texts: {"anchor": texts[::2], "positive": texts[1::2]},
        "MultipleNegativesRankingLoss",
        64,
        5e-5,
    ),
}
"""CT is the one with negatives from the batch, which its documentation recommends."""


def train_peer(name: str, config: TrainConfig, folder: Path) -> float:
    """Train by a recipe on the text of a run, and write the model.

    Args:
        name: of the recipe.
        config: of a run on pairs; its text, model, seed and budget, in tokens, are meant.
        folder: where the model is written.

    Returns:
        The seconds of the training.
    """
    from sentence_transformers import losses

    recipe, encoder = PEERS[name], load_encoder(config.model)
    network, limit = encoder.model, encoder.model.max_seq_length
    texts = drawn(encoder, config if recipe.pairs else replace(config, views="dropout"))
    loss: Any = getattr(losses, recipe.loss)(network)
    started = time.monotonic()
    peer_train(
        network,
        recipe.columns(texts),
        loss,
        recipe.batch,
        LENGTH,
        bf16=config.precision != "float32" and has_bf16(),
        learning_rate=recipe.learning_rate,
        warmup_steps=0.1,  # a share
        batch_sampler="no_duplicates" if recipe.pairs else "batch_sampler",
        num_train_epochs=1,
        seed=config.seed,
    )
    seconds = time.monotonic() - started
    network.max_seq_length = limit
    save_model(encoder, folder)
    return seconds


def drawn(encoder: Encoder, config: TrainConfig) -> list[str]:
    """Texts of so many tokens as the budget has, one after the other; of pairs both.

    Of two crops of a text each is drawn once, as words of it.
    """
    corpus = load_data(config).corpus
    examples = Examples.from_corpus(config, corpus)
    random = np.random.default_rng(config.seed)
    found: list[str] = []
    tokens = 0
    for place in random.permutation(len(examples)):
        texts = [examples.texts[int(row)] for row in examples.rows[place]]
        if examples.cropped is not None and examples.cropped[place]:
            texts = [_crop(text, random) for text in texts]
        found += texts
        tokens += sum(map(len, encoder.tokens.ids(texts, LENGTH)))
        if tokens >= config.budget[0]:
            break
    return found


def _crop(text: str, random: np.random.Generator) -> str:
    """A run of its words, as long as isospace's crops."""
    words = text.split()
    length = max(1, round(random.uniform(SHORTEST_CROP, LONGEST_CROP) * len(words)))
    start = int(random.integers(len(words) - length + 1))
    return " ".join(words[start : start + length])
