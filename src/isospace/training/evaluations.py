"""Evaluations during training on held-out text, and the checkpoint that they select."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.settings import Precision, Side
from isospace.evaluation.benchmark import Benchmark, HeldOut, HeldOutScores
from isospace.evaluation.pairs import PromptedEncoders, cached
from isospace.evaluation.sts import evaluate_pairs
from isospace.statistics.gains import Scores, mean_scores
from isospace.system.lifecycle import restored_random_state
from isospace.system.progress import Progress
from isospace.training.results import Choice, select_checkpoint


def run_evaluation(
    config: TrainConfig,
    encoder: Encoder,
    held_out: HeldOut,
    benchmark: Benchmark,
    mixed_precision: str,
    base: np.ndarray | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> HeldOutScores:
    """Return `HeldOut.measure`, and labels_spearman if there are labels; restore random states.

    They are NaN if vectors are not finite. `base` are the base model's vectors. `cache` keeps
    vectors without dropout.
    """
    rate = _dropout(config, encoder)
    precision: Precision = "bf16" if mixed_precision == "bf16" else "float32"

    def clean(texts: Sequence[str], side: Side | None) -> np.ndarray:
        return encoder.embed(texts, precision=precision, side=side)

    def noisy(texts: Sequence[str], side: Side | None) -> np.ndarray:
        return encoder.embed(texts, rate, config.max_length, precision=precision, side=side)

    encode, encode_noisy = (PromptedEncoders.of_prompts(encoder.prompts, f) for f in (clean, noisy))
    if cache is not None:
        encode = cached(encoder, cache, precision, progress=progress)
    with restored_random_state():
        torch.manual_seed(config.seed)
        found = held_out.measure(encode, encode_noisy, base)
        if benchmark.labels is not None:
            found.values["labels_spearman"] = evaluate_pairs(encode, benchmark.labels)
        return found


def _dropout(config: TrainConfig, encoder: Encoder) -> float | None:
    """Return the encoder's own dropout, shared by all objectives, or else the objective's."""
    rates = (view.dropout for view in config.objective.views if view.dropout != 0.0)
    return None if any(encoder.noise.rates) else next(rates, None)


class Evaluations:
    """The evaluations of a training and the selected checkpoint, in the first process.

    Attributes:
        measured: the evaluations in order, the base model first.
        ranks: reciprocal ranks and displacements (1 + halves, pair) of each evaluation, if the
            validation pairs are also the test pairs.
        base: the base model's vectors of the held-out sentences, (sentence, dim).
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
        self.base: np.ndarray | None = None

    def add(self, step: int, found: HeldOutScores) -> None:
        """Add the evaluation at a step; the first one is of the base model."""
        self.measured.append({"step": float(step), **found.values})
        if self.base is None:
            self.base = found.vectors
        if self.by_test_pairs:
            items = np.stack([found.ranks.reciprocal_ranks, *found.ranks.displacement])
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
        """Step -> MRR of the test pairs at each usable evaluation; empty if other pairs select."""
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
