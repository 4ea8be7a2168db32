"""The results of a run: the one place that knows the fields of results.json."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isospace.evaluation.other_text import OtherTextScores, other_text_sentence
from isospace.evaluation.scores import (
    ADAPTED,
    BASE,
    HYBRID_ADAPTED,
    BenchmarkScores,
    BM25Gains,
    recommendation,
)
from isospace.statistics.gains import Gain
from isospace.statistics.verdict import Verdict
from isospace.system import typed_json
from isospace.training.origin import Origin
from isospace.training.selection import Choice

FORMAT = 8
"""Of results.json."""


@dataclass(frozen=True)
class CorpusFacts:
    """The training text: sentences left after cleaning, their digest, and what cleaning did.

    Attributes:
        longest: tokens to which they were cut; `None` in archived runs of older studies.
    """

    sentences: int
    digest: str
    counts: dict[str, int]
    longest: int | None


@dataclass(frozen=True)
class RunResults:
    """Everything that a finished run says, every number with its protocol.

    Attributes:
        isospace: the version that wrote it.
        config: the settings, as in config.json.
        origin: of the encoder that training began with.
        corpus: what was trained on.
        pooling: tokens to sentence.
        steps: updates of the whole run.
        benchmark: digest of the test items; equal for runs that can be compared item by item.
        base: scores of the encoder that training began with.
        adapted: scores of the checkpoint that was chosen.
        labels: which labelled pairs took part in choosing, `None` where none did.
        choice: which checkpoint was chosen, and why.
        model_step: the step of the weights in model/; 0 where the verdict keeps the base model.
        verdict: whether the result gains over the base model.
        with_bm25: gains over BM25 and over hybrid search; `None` in archived runs of older studies.
        other_text: set of other text -> what the base and the adapted model came to there.
        split: whether the validation pairs are others than those of the verdict.
        evaluations: measurements during training, the base model (step 0) first.
        seconds: wall clock, sessions before a resumption included.
        memory_mb: at its peak, of the GPU where there is one, else of the process, of several the
            first; `None` in archived runs of older studies.
        environment: versions and machine.
        pairs: digest of the test pairs alone.
        candidate: what was done to the weights of the choice to make the result, such as a map
            behind them, in words; empty where nothing was, or the base model is kept.
        format: of the file.
    """

    isospace: str
    config: dict[str, Any]
    origin: Origin
    corpus: CorpusFacts
    pooling: str
    steps: int
    benchmark: str
    base: BenchmarkScores
    adapted: BenchmarkScores
    labels: str | None
    choice: Choice
    model_step: int
    verdict: Verdict
    with_bm25: BM25Gains | None
    other_text: dict[str, OtherTextScores]
    split: bool
    evaluations: tuple[dict[str, float], ...]
    seconds: float
    memory_mb: float | None
    environment: dict[str, str | int]
    pairs: str = ""
    candidate: str = ""
    format: int = FORMAT

    @property
    def ships_base(self) -> bool:
        """True if model/ holds the base model."""
        return self.model_step == 0 and not self.candidate

    @property
    def not_shipped(self) -> str:
        """Words to follow "adapted" where model/ holds the base model in its place."""
        other = self.adapted.pairs != self.base.pairs
        return " (not shipped)" if self.ships_base and other else ""

    def over_base(self, result: str = "adapted") -> dict[str, Gain]:
        """Gains in MRR over the base model, of the verdict's pairs.

        `result` is what a table calls the result, which has a row like "BM25", "base model + BM25"
        and itself fused; none where it is the base model.
        """
        if self.with_bm25 is None:
            return {}
        found = {
            way.replace("adapted", result): own for way, own in self.with_bm25.over_base.items()
        }
        if HYBRID_ADAPTED in self.with_bm25.over_base and self.verdict.gain is not None:
            found[result] = self.verdict.gain
        return found

    @property
    def other_text_gains(self) -> dict[str, Gain]:
        """Set of other text -> gain; empty where no other model than the base was tested."""
        gains = {name: scores.gain for name, scores in self.other_text.items()}
        return gains if any(one.changed for one in gains.values()) else {}

    @property
    def summary(self) -> str:
        """The verdict, and what happened on other text."""
        other_text = other_text_sentence(self.other_text_gains)
        return f"{self.verdict.text} {other_text}".rstrip()

    @property
    def recommendation(self) -> str:
        """The way to search that finds most of the test pairs, in words."""
        base = self.base.pairs.mrr
        mrr = {BASE: base} | {way: base + one.mean for way, one in self.over_base().items()}
        if self.ships_base:
            mrr = {way: x for way, x in mrr.items() if not way.startswith(ADAPTED)}
        return recommendation(mrr)

    @property
    def selected_by(self) -> str:
        """The rule that chose the checkpoint, in words, with the labels that it used."""
        return f"dev-selected on {self.labels}" if self.labels else self.choice.rule

    @property
    def kept(self) -> str:
        """The checkpoint that model/ holds, and the reason."""
        if self.candidate:
            return f"{self.candidate}; of the (first) training: {self.choice.reason}"
        if self.model_step == self.choice.step:
            return self.choice.reason
        return (
            "the base model, because of the verdict; by the rule it would be another: "
            f"{self.choice.reason}"
        )

    @property
    def cost(self) -> str:
        """Time and memory, in words."""
        memory = "" if self.memory_mb is None else f", {self.memory_mb / 1e3:.1f} GB"
        return f"{self.seconds:.0f} s{memory}"

    def evaluation(self, step: int) -> dict[str, float]:
        """The measurements at a step; 0 is the base model."""
        return next(measured for measured in self.evaluations if measured["step"] == step)


def write_results(path: Path, results: RunResults) -> None:
    """Write results.json."""
    typed_json.write(path, results)


def read_results(path: Path) -> RunResults:
    """Read results.json.

    Raises:
        UserError: the file is damaged, or another version's.
    """
    return typed_json.read(path, RunResults, "results of a run", FORMAT)
