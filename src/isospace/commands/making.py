"""Commands that make a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, Corpora, LoadsModels
from isospace.commands.parser import recipes_in
from isospace.commands.printing import print_finished, print_json, print_result, print_table
from isospace.config import AdaptConfig, DistillConfig, Output, TrainConfig, WhitenConfig
from isospace.encoders.settings import EncoderSettings
from isospace.errors import UserError, did_you_mean, no_such
from isospace.objectives.base import Objective
from isospace.recipes import DEFAULT_RECIPE, find
from isospace.system.settings import PathOrText, Written, to_dict


@dataclass(frozen=True)
class Adapt(LoadsModels, CallsEndpoints):
    """Options of `isospace adapt`."""

    corpus: Corpora = ()
    """The text to adapt to: folders or files, or docstrings for those of installed Python
    packages."""
    config: AdaptConfig = field(default_factory=AdaptConfig)
    resume: PathOrText | None = None
    """Continue the run in this folder with its own settings."""

    def run(self) -> None:
        """Run a search, or resume one."""
        text = self.config.text
        text = replace(text, corpus=(*self.corpus, *text.corpus))
        config = replace(self.config, text=text)
        if self.resume:
            _require_no_settings(self.resume, config, AdaptConfig())
        with Console(self.json) as console:
            console.reading(config.text.corpus, self.resume)
            from isospace.adaptation.adapt import adapt

            outcome = adapt(None if self.resume else config, self.resume, console)
        print_finished(outcome, self.json)


@dataclass(frozen=True)
class Train(LoadsModels, CallsEndpoints):
    """Options of `isospace train`."""

    config: TrainConfig = field(default_factory=lambda: find(DEFAULT_RECIPE).config)
    objective: Annotated[Objective, Written(hidden=True)] = field(
        default_factory=lambda: find(DEFAULT_RECIPE).config.objective
    )
    """The objective to train with; NAME --help lists its own options."""
    recipe: str = DEFAULT_RECIPE
    """Take the settings of a row of `isospace recipes`; other options override single ones."""
    resume: PathOrText | None = None
    """Continue the run in this folder with its own settings."""

    @classmethod
    def defaults(cls, words: Sequence[str]) -> Train:
        """Return the settings of the recipe that the words name last."""
        *_, name = DEFAULT_RECIPE, *(named[0] for named in recipes_in(words) if named)
        config = find(name).config
        return cls(config=config, objective=config.objective, recipe=name)

    def run(self) -> None:
        """Train, or resume a run."""
        from isospace.objectives import OBJECTIVES
        from isospace.system.signals import is_main_process

        config = replace(self.config, objective=self.objective)
        for name in config.text.corpus[1:]:  # --corpus takes a misspelt objective as a text
            if not Path(name).exists() and did_you_mean(name, OBJECTIVES):
                raise UserError(no_such("objective", name, OBJECTIVES))
        if self.resume:
            _require_no_settings(self.resume, config, find(DEFAULT_RECIPE).config)
        with Console(self.json) as console:
            console.reading(self.config.text.corpus, self.resume)
            from isospace.training.train import train

            outcome = train(None if self.resume else config, self.resume, console)
        if is_main_process():
            print_finished(outcome, self.json)


@dataclass(frozen=True)
class Export(LoadsModels, EncoderSettings):
    """Options of `isospace export`."""

    model: Annotated[str, Written("MODEL", positional=True)]
    """A run's folder, a model folder, minilm, or a Hub name."""
    to: Literal["st", "onnx"]
    """What to write: st is the sentence-transformers folder that older versions and servers read,
    onnx a graph from token ids to the vector."""
    output: Output = None
    """The folder to make; default: st or onnx in the run's folder, and for other models MODEL-st
    or MODEL-onnx in the current folder."""

    def run(self) -> None:
        """Export the model, and print what the check found."""
        from isospace.export.ship import export

        with Console(self.json) as console:
            shipment = export(self.model, self.to, self.output, self, console)
        if self.json:
            print_json({**asdict(shipment), "folder": str(shipment.folder)})
            return
        console.line("export", f"{self.model} as {self.to}, into {shipment.folder}")
        gap = f"{shipment.gap:.1e} (limit {shipment.limit:g})"
        console.line("parity", f"largest 1 - cosine to the model {gap}")


def _require_no_settings(resume: Path, given: Any, default: Any) -> None:
    """Refuse settings together with a run to resume, which has its own."""
    if given != default:
        raise UserError(
            f"--resume {resume}: uses the settings that the run was started with. Leave other "
            "settings out, or start a new run"
        )


@dataclass(frozen=True)
class Whiten(LoadsModels, CallsEndpoints):
    """Options of `isospace whiten`."""

    config: WhitenConfig = field(default_factory=WhitenConfig)

    def run(self) -> None:
        """Whiten the model and print the results."""
        with Console(self.json) as console:
            console.reading(self.config.text.corpus)
            from isospace.adaptation.whiten import whiten_model
            from isospace.evaluation.other_text import other_text_words
            from isospace.training.card import how_to_load

            results = whiten_model(self.config, console)
        load = how_to_load(Path(str(self.config.output)))
        if self.json:
            print_json(to_dict(results) | {"use": results.recommendation, "load_it": load})
            return
        for title, rows in results.tables():
            print_table(title, rows)
        print_result(f"{results.verdict.text} {results.written}")
        if results.other_text_gains:
            console.line("other text", other_text_words(results.other_text_gains))
        console.line("use", results.recommendation)
        console.line(
            "parity", f"largest 1 - cosine of the folder to the model in memory: {results.gap:.1e}"
        )
        console.line("load it", load)


@dataclass(frozen=True)
class Distill(LoadsModels):
    """Options of `isospace distill`."""

    config: DistillConfig = field(default_factory=DistillConfig)

    def run(self) -> None:
        """Make the twin and print the results."""
        with Console(self.json) as console:
            console.reading(self.config.text.corpus or (self.config.model,))
            from isospace.export.distill import distill

            results = distill(self.config, console)
        load = results.how_to_load(self.config.output)
        if self.json:
            print_json(to_dict(results) | {"load_it": load})
            return
        for title, rows in results.tables():
            print_table(title, rows)
        print_result(results.verdict)
        if results.other_words:
            console.line("other text", results.other_words)
        console.line("load it", load)
