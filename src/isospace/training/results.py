"""The results of a run; only this module knows the fields of results.json."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from isospace.encoders.places import MINILM_HUB_NAME, folder_of, pinned, run_model, wheel_minilm
from isospace.evaluation.before_after import BeforeAndAfter
from isospace.evaluation.scores import CROSS_VALIDATED
from isospace.system import typed_json
from isospace.system.endpoints import Address, is_address
from isospace.system.files import expanded
from isospace.training.selection import Choice


@dataclass(frozen=True)
class Origin:
    """The base model as a model card describes it, when the model was made.

    Attributes:
        name: its name, without parent folders, which are private.
        hub_name: its name on the Hub; `None` for a folder.
        licence: `None` if no card on this machine names one.
    """

    name: str
    hub_name: str | None
    licence: str | None

    @classmethod
    def from_model(cls, model: str) -> Origin:
        """Describe minilm, a folder or a Hub name, without contacting the Hub."""
        if is_address(model):
            return cls(Address.parse("model", model).model, None, None)
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
        evaluations: measurements during training, the base model (step 0) first; empty if nothing
            was trained.
        longest: number of tokens to which texts were cut; `None` if they were not.
        pooling: pooling of the base model.
        precision: device and arithmetic, in words.
        seconds: wall-clock time, earlier sessions included.
        memory_mb: peak memory in MB, earlier sessions included, of the GPU if there is one, else of
            the first process.
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
        labels: the labelled pairs that selected the checkpoint; `None` without labels.
        model_step: update whose weights are in model/; 0 if the verdict keeps the base model.
        split: true if the validation pairs and the test pairs are different pairs.
        candidate: post-processing of the selected weights, in words; empty without one, or if the
            base model is kept.
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
    format: int = 14

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
