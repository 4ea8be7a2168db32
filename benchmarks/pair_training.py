"""Training on pairs, timed: isospace's loop and sentence-transformers' trainer on the same ones.

Every function prepares in its process and returns one round (see `contest.py`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from common import lines
from isospace.config import CorpusConfig, TrainConfig
from isospace.corpus.lines import tokenise
from isospace.encoders.loading import load_encoder
from isospace.encoders.settings import EncoderSettings
from isospace.objectives import SimCSE
from isospace.training.build import build_training
from isospace.training.examples import Examples
from isospace.training.loop import Loop
from isospace.training.prepare import make_accelerator
from training import between_steps, peer_train

LENGTH = 128
SENTENCES = 4
"""Of a second text; the first is the sentence before them."""


def pairs_of(corpus: Path, count: int) -> list[tuple[str, str]]:
    """A sentence, and the next few as one text."""
    step = SENTENCES + 1
    text = lines(corpus, count * step)
    return [(text[i], " ".join(text[i + 1 : i + step])) for i in range(0, count * step, step)]


def ours(corpus: Path, batch: int, pass_tokens: int | None, steps: int) -> Callable[[], float]:
    """The loop on pairs, both directions of the loss."""
    config = TrainConfig(
        text=CorpusConfig(corpus=(str(corpus),)),
        objective=SimCSE(head="none"),
        views="pairs",
        batch_size=batch,
        pass_tokens=pass_tokens,
        precision="bf16",
    )
    accelerator = make_accelerator(config)
    encoder = load_encoder("minilm", EncoderSettings(pooling="mean"))
    texts = [text for pair in pairs_of(corpus, 10 * batch * steps) for text in pair]
    with tempfile.TemporaryDirectory() as folder:
        tokens = tokenise(
            texts,
            "pairs",
            lambda part: encoder.tokens.ids(part, LENGTH),
            encoder.tokens.fingerprint(LENGTH),
            Path(folder),
        )
        examples = Examples.from_lines(np.arange(0, len(texts), 2), 2)
        training = build_training(config, encoder, [tokens, tokens], examples, accelerator)
    iterator = iter(Loop(training, 10**6))
    return lambda: sum(next(iterator).seconds for _ in range(steps))


def peer(corpus: Path, batch: int, mini_batch: int | None, steps: int) -> Callable[[], float]:
    """sentence-transformers' trainer with its loss of pairs, cached where parts are asked for."""
    from sentence_transformers.losses import CachedMultipleNegativesRankingLoss

    network = load_encoder("minilm", EncoderSettings(pooling="mean")).model
    pairs = pairs_of(corpus, 10 * batch * steps)
    columns = {"anchor": [a for a, _ in pairs], "positive": [b for _, b in pairs]}
    loss: Any = None
    if mini_batch is not None:
        loss = CachedMultipleNegativesRankingLoss(network, mini_batch_size=mini_batch)
    return lambda: between_steps(
        lambda watch: peer_train(
            network, columns, loss, batch, LENGTH, callbacks=[watch], max_steps=steps + 1
        )
    )
