"""The results of a run; only this module knows the fields of results.json."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from huggingface_hub import try_to_load_from_cache

from isospace.config import Rule
from isospace.encoders.places import MINILM_HUB_NAME, folder_of, pinned, run_model, wheel_minilm
from isospace.evaluation.benchmark import (
    ADAPTED,
    BASE,
    CROSS_VALIDATED,
    HYBRID_ADAPTED,
    BenchmarkScores,
    recommendation,
    table_rows,
)
from isospace.evaluation.other_text import OtherTextScores, other_text_sentence
from isospace.statistics import selection
from isospace.statistics.gains import Gain
from isospace.statistics.verdict import Verdict
from isospace.system import typed_json
from isospace.system.endpoints import Address, is_address
from isospace.system.files import expanded

BY_PAIRS, BY_LABELS, BY_LAST = "pairs_mrr", "labels_spearman", "step"
"""Names of the measurements that select; the highest is kept."""

SMALLEST_RANK_SHARE = 0.5
SMALLEST_NEIGHBOUR_OVERLAP = 0.1


@dataclass(frozen=True)
class Choice:
    """The checkpoint that is kept, and the reason for people; step 0 is the base model.

    `criterion` is the measurement that selected it, `collapsed` the steps of collapsed evaluations.
    """

    step: int
    rule: Rule
    criterion: str
    collapsed: tuple[int, ...]
    reason: str


def is_collapsed(evaluation: Mapping[str, float], base: Mapping[str, float]) -> bool:
    """Return true if the space has collapsed.

    The effective rank is below half of the base model's, or sentences keep less than a tenth of
    their ten nearest neighbours.
    """
    return not (
        evaluation["effective_rank"] >= SMALLEST_RANK_SHARE * base["effective_rank"]
        and evaluation["neighbour_overlap"] >= SMALLEST_NEIGHBOUR_OVERLAP
    )


def select_checkpoint(
    evaluations: Sequence[Mapping[str, float]],
    rule: Rule,
    natural_pairs: bool,
    base_competes: bool = True,
) -> Choice:
    """Select an evaluation of held-out text by labels, label-free (the default), or the last.

    The label-free criterion is the MRR of natural pairs, such as a docstring's summary and its next
    paragraph. Unlike the training loss, MRR compares different texts, so a model cannot raise it by
    ignoring dropout, and it does not depend on the spread of the cosines.

    Without natural pairs the last evaluation is kept: neither halves of sentences nor any other
    label-free measurement selected better (docs/results/selection.md). In both cases, collapsed
    evaluations are set aside (`is_collapsed`).

    Args:
        evaluations: in order of their steps; the first is the base model (step 0).
        rule: the setting `select`.
        natural_pairs: false if pairs_mrr is measured on halves of sentences.
        base_competes: select the base model if no other is better, and not only if all others are
            set aside.

    >>> base = {"step": 0, "pairs_mrr": 0.4, "effective_rank": 90.0, "neighbour_overlap": 1.0}
    >>> later = {"step": 9, "pairs_mrr": 0.3, "effective_rank": 95.0, "neighbour_overlap": 0.7}
    >>> [select_checkpoint([base, later], "label-free", natural).step for natural in (True, False)]
    [0, 9]
    """
    criterion = {"labels": BY_LABELS, "last": BY_LAST}.get(
        rule, BY_PAIRS if natural_pairs else BY_LAST
    )
    base = evaluations[0]
    collapsed = tuple(
        int(evaluation["step"]) for evaluation in evaluations[1:] if is_collapsed(evaluation, base)
    )

    usable = [
        evaluation
        for evaluation in evaluations[1:]
        if math.isfinite(evaluation[criterion])
        and (rule != "label-free" or int(evaluation["step"]) not in collapsed)
    ]
    if base_competes or not usable:
        usable.insert(0, base)
    kept = usable[selection.best_position([evaluation[criterion] for evaluation in usable])]
    reason = _reason(kept, base, rule, criterion, base_competes)
    if collapsed:
        reason += f"; collapsed at steps {', '.join(map(str, collapsed))}"
    return Choice(int(kept["step"]), rule, criterion, collapsed, reason)


def _reason(
    kept: Mapping[str, float],
    base: Mapping[str, float],
    rule: Rule,
    criterion: str,
    base_competes: bool,
) -> str:
    step = int(kept["step"])
    if step == 0 and (criterion == BY_LAST or not base_competes):
        return "every checkpoint has collapsed, or none was reached"
    if step == 0:
        return f"no checkpoint beats the base model by {criterion} ({base[criterion]:.4f})"
    if criterion == BY_LAST:
        why = "" if rule == "last" else ", because the corpus has no natural pairs"
        return f"the last checkpoint (step {step}){why}"
    return (
        f"step {step} has the best {criterion}: {kept[criterion]:.4f}, "
        f"base model {base[criterion]:.4f}"
    )


@dataclass(frozen=True)
class BeforeAndAfter(ABC):
    """Scores of the base model and of the adapted model on the same test items.

    `with_bm25` has the gain in MRR over the base model for each search with BM25.
    """

    base: BenchmarkScores
    adapted: BenchmarkScores
    verdict: Verdict
    with_bm25: dict[str, Gain]
    other_text: dict[str, OtherTextScores]

    adapted_model: ClassVar[str] = "adapted model"  # in sentences

    @property
    @abstractmethod
    def ships_base(self) -> bool:
        """True if the base model was written, and not the adapted model."""

    def over_base(self, result: str = ADAPTED) -> dict[str, Gain]:
        """Return the gains in MRR over the base model on the test pairs, by row of the table.

        `result` is the adapted model's name there. Its rows are left out if it is the base model.
        """
        found = {way.replace(ADAPTED, result): own for way, own in self.with_bm25.items()}
        if HYBRID_ADAPTED in self.with_bm25 and self.verdict.gain is not None:
            found[result] = self.verdict.gain
        return found

    def before_and_after(self, adapted: str, column: str = "") -> list[dict[str, str]]:
        """Return the table of the scores; an empty name leaves the adapted model out."""
        states = {BASE: self.base}
        if adapted and self.adapted != self.base:
            states[adapted] = self.adapted
        return table_rows(column, states, self.over_base(adapted))

    @property
    def other_text_gains(self) -> dict[str, Gain]:
        """Set of other text -> gain; empty if only the base model was tested."""
        gains = {name: scores.gain for name, scores in self.other_text.items()}
        return gains if any(one.changed for one in gains.values()) else {}

    @property
    def summary(self) -> str:
        """The verdict, and the change on other text."""
        other_text = other_text_sentence(self.other_text_gains)
        return f"{self.verdict.text} {other_text}".rstrip()

    @property
    def recommendation(self) -> str:
        """A sentence that recommends the search with the highest MRR on the test pairs."""
        base = self.base.pairs.mrr
        mrr = {BASE: base} | {way: base + one.mean for way, one in self.over_base().items()}
        if self.ships_base:
            mrr = {way: x for way, x in mrr.items() if not way.startswith(ADAPTED)}
        return recommendation(mrr, self.adapted_model)


@dataclass(frozen=True)
class Origin:
    """The base model on a model card: its name without parent folders, which are private.

    `hub_name` is `None` for a folder, `licence` if no card on this machine names one.
    """

    name: str
    hub_name: str | None
    licence: str | None

    @classmethod
    def from_model(cls, model: str) -> Origin:
        """Describe minilm, a folder or a Hub name, without contacting the Hub."""
        if is_address(model):
            return cls(Address.parse(model).model, None, None)
        folder = folder_of(model)
        if folder is None and re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?(@\S+)?", model):
            hub_name, revision = pinned(MINILM_HUB_NAME if model == "minilm" else model)
            card = _hub_card(model, hub_name, revision)
            return cls(model, hub_name, _stated_licence(card))
        path = folder or expanded(model)
        card = (run_model(path) or path) / "README.md"
        return cls(path.resolve().name, None, _stated_licence(card))

    @property
    def licence_text(self) -> str:
        """The licence in words."""
        return self.licence or "unknown: see the base model"


@dataclass(frozen=True)
class CorpusFacts:
    """The training text: number of sentences after cleaning, digest, and counts of the cleaning."""

    sentences: int
    digest: str
    counts: dict[str, int]


@dataclass(frozen=True)
class TrainingFacts:
    """The facts of a training, besides the scores of its result.

    Attributes:
        evaluations: the base model's (step 0) first; empty if nothing was trained.
        longest: number of tokens to which texts were cut.
        pooling: pooling of the base model.
        precision: device and arithmetic, in words.
        seconds: wall-clock time, earlier sessions included.
        memory_mb: peak memory of the GPU if there is one, else of the first process.
    """

    choice: Choice
    evaluations: tuple[dict[str, float], ...]
    steps: int
    longest: int | None
    pooling: str
    precision: str
    seconds: float
    memory_mb: float

    @property
    def cost(self) -> str:
        """Time and memory, as text."""
        return f"{self.seconds:.0f} s, {self.memory_mb / 1e3:.1f} GB"

    def evaluation(self, step: int) -> dict[str, float]:
        """Return the measurements at a step; step 0 is the base model."""
        return next(measured for measured in self.evaluations if measured["step"] == step)


@dataclass(frozen=True)
class RunResults(BeforeAndAfter):
    """All results of a finished run, each number with its protocol.

    Attributes:
        isospace: the version that wrote the results.
        benchmark: digest of the test items; runs with equal digests can be compared item by item.
        labels: the labelled pairs that selected the checkpoint.
        model_step: update whose weights are in model/; 0 if the verdict keeps the base model.
        split: true if the validation pairs are not the test pairs.
        candidate: post-processing in model/, in words.
    """

    isospace: str
    config: dict[str, Any]
    origin: Origin
    corpus: CorpusFacts
    training: TrainingFacts
    benchmark: str
    labels: str | None
    model_step: int
    split: bool
    environment: dict[str, str | int]
    pairs: str = ""
    candidate: str = ""
    format: int = 15

    @property
    def ships_base(self) -> bool:
        """True if model/ holds the base model."""
        return self.model_step == 0 and not self.candidate

    @property
    def trained_on(self) -> str:
        """Words that follow held-out pairs if model/ was made from their documents; else empty."""
        every = CROSS_VALIDATED in self.verdict.protocol and not self.ships_base
        return ", on whose documents the model was trained" if every else ""

    @property
    def not_shipped(self) -> str:
        """Words that follow "adapted" in tables if model/ holds the base model; else empty."""
        other = self.adapted.pairs != self.base.pairs
        return " (not shipped)" if self.ships_base and other else ""

    @property
    def selected_by(self) -> str:
        """The rule that selected the checkpoint, with its labels, as text."""
        return f"dev-selected on {self.labels}" if self.labels else self.training.choice.rule

    @property
    def kept(self) -> str:
        """The checkpoint in model/, and the reason, as text."""
        if self.candidate:
            trained = f"; checkpoint of the training: {self.training.choice.reason}"
            return self.candidate + (trained if self.training.steps else "")
        if self.model_step == self.training.choice.step:
            return self.training.choice.reason
        return (
            "the base model, because of the verdict; by the rule it would be another: "
            f"{self.training.choice.reason}"
        )


def write_results(path: Path, results: RunResults) -> None:
    """Write results.json."""
    typed_json.write(path, results)


def read_results(path: Path) -> RunResults:
    """Read results.json."""
    return typed_json.read(path, RunResults, "results of a run")


def _stated_licence(card: Path | None) -> str | None:
    if card is None or not card.is_file():
        return None
    text = card.read_text(encoding="utf-8", errors="replace")
    block = re.match(r"---\r?\n(.*?)\n---", text, re.DOTALL)
    stated = re.search(r"^license:[ \t]*(\S.*?)\s*$", block[1] if block else "", re.MULTILINE)
    return stated[1].strip("\"'") if stated else None


def _hub_card(model: str, hub_name: str, revision: str | None) -> Path | None:
    wheel = wheel_minilm() if model == "minilm" else None
    if wheel is not None:
        return wheel / "README.md"
    try:
        path = try_to_load_from_cache(hub_name, "README.md", revision=revision)
    except ValueError:  # no name that the Hub could have
        return None
    return Path(path) if isinstance(path, str) else None
