"""An evaluation: what selection may know of an encoder in the middle of its training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.pooling import Precision
from isospace.encoders.prompts import Side
from isospace.evaluation.benchmark import Benchmark
from isospace.evaluation.held_out import HeldOut
from isospace.evaluation.pairs import PromptedEncoders
from isospace.evaluation.sts import evaluate_pairs
from isospace.evaluation.vector_cache import cached
from isospace.system.progress import Progress
from isospace.training.checkpoint import random_state, set_random_state
from isospace.views import View


def run_evaluation(
    config: TrainConfig,
    encoder: Encoder,
    held_out: HeldOut,
    benchmark: Benchmark,
    mixed_precision: str,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Measure the encoder without touching a random state.

    It has the arithmetic of training (`mixed_precision`, in Accelerate's words), as it is for
    choosing; the benchmark keeps float32. With `cache` clean vectors are kept there, for a base
    model, which many runs measure. `progress` shows the texts of these.

    Returns:
        What `HeldOut.measure` measures, and labels_spearman where there are labels; NaN where
        vectors are not finite.
    """
    noise = _noise(config, encoder)
    precision: Precision = "bf16" if mixed_precision == "bf16" else "float32"

    def clean(texts: Sequence[str], side: Side | None) -> np.ndarray:
        return encoder.embed(texts, precision=precision, side=side)

    def noisy(texts: Sequence[str], side: Side | None) -> np.ndarray:
        return encoder.embed(texts, noise, config.max_length, precision=precision, side=side)

    encode, encode_noisy = (PromptedEncoders.of_prompts(encoder.prompts, f) for f in (clean, noisy))
    if cache is not None:
        encode = cached(encoder, cache, precision, progress=progress)
    state = random_state()
    try:
        torch.manual_seed(config.seed)
        evaluation = held_out.measure(encode, encode_noisy)
        if benchmark.labels is not None:
            evaluation["labels_spearman"] = evaluate_pairs(encode, benchmark.labels)
        return evaluation
    finally:
        set_random_state(state)


def _noise(config: TrainConfig, encoder: Encoder) -> View:
    """The encoder's own dropout, by which runs of all objectives compare; else the objective's."""
    rates = (view.dropout for view in config.objective.views if view.dropout != 0.0)
    return View() if any(encoder.noise.rates) else View(dropout=next(rates, None))
