"""Evaluations of an encoder during its training, by which a checkpoint is selected."""

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
from isospace.statistics.influence import Scores, mean_scores
from isospace.system.progress import Progress
from isospace.training.checkpoint import random_state, set_random_state
from isospace.training.selection import Choice, select_checkpoint
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
    """Measure the encoder on held-out text; all random states are restored.

    The test scores are always measured in float32. `cache` keeps vectors without dropout, for a
    base model that many runs measure.

    Returns:
        The measurements of `HeldOut.measure`, and labels_spearman if there are labels; NaN if
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
    """Return the encoder's own dropout, shared by all objectives, or else the objective's."""
    rates = (view.dropout for view in config.objective.views if view.dropout != 0.0)
    return View() if any(encoder.noise.rates) else View(dropout=next(rates, None))


class Evaluations:
    """The evaluations of a training and the selected checkpoint, in the first process.

    `select` of the settings says how a checkpoint is selected. If `base_competes`, the base model
    is kept if no evaluation is better.

    Attributes:
        measured: the evaluations in order, the base model first.
        ranks: reciprocal ranks and displacements (1 + halves, pair) of each evaluation, if the
            validation pairs are also the test pairs.
    """

    def __init__(
        self,
        config: TrainConfig,
        held_out: HeldOut,
        benchmark: Benchmark,
        base_competes: bool = True,
    ) -> None:
        self._config, self._held_out, self._benchmark = config, held_out, benchmark
        self._base_competes = base_competes
        self.measured: list[dict[str, float]] = []
        self.ranks: list[torch.Tensor] = []

    def add(self, evaluation: dict[str, float]) -> None:
        """Add the evaluation that `run_evaluation` measured last."""
        self.measured.append(evaluation)
        if self.by_test_pairs and (ranks := self._held_out.ranks) is not None:
            items = np.stack([ranks.reciprocal_ranks, *ranks.displacement])
            self.ranks.append(torch.from_numpy(items))

    @property
    def by_test_pairs(self) -> bool:
        """True if the test pairs also select the checkpoint, because they are too few to split."""
        return (
            not self._benchmark.split
            and self._held_out.natural
            and self._config.select == "label-free"
        )

    @property
    def tried(self) -> dict[int, Scores]:
        """Step -> MRR of the test pairs at each evaluation that could be selected.

        Empty if other pairs select.
        """
        if not self.by_test_pairs:
            return {}
        groups, collapsed = self._held_out.pairs.group_numbers(), self.choice.collapsed
        return {
            int(evaluation["step"]): mean_scores(items[:1].numpy(), groups, items[1:, None].numpy())
            for evaluation, items in zip(self.measured, self.ranks, strict=True)
            if evaluation["step"] not in collapsed
        }

    @property
    def choice(self) -> Choice:
        """The checkpoint to keep so far."""
        natural = self._held_out.natural
        return select_checkpoint(self.measured, self._config.select, natural, self._base_competes)

    @property
    def newest(self) -> str:
        """The newest evaluation as text, with the base model's in brackets."""
        shown = ("pairs_loss", "pairs_mrr", "uniformity", "effective_rank", "labels_spearman")
        now, base = self.measured[-1], self.measured[0]
        cells = [f"{name} {now[name]:.4g} (was {base[name]:.4g})" for name in shown if name in now]
        return ", ".join(cells)
