"""The verbs `train` and `compare`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from isospace.comparison.compare import Measure, candidate, compare
from isospace.config import TrainConfig
from isospace.errors import UserError
from isospace.objectives import OBJECTIVES, SimCSE
from isospace.objectives.base import Objective
from isospace.report.run_set import collect
from isospace.report.scoreboard import COMPARISON_TABLES
from isospace.report.write import write_report
from isospace.system.processes import first
from isospace.system.typed_json import to_json
from isospace.training.run import REPORT, Run
from isospace.training.train import train
from isospace.verbs.console import Console
from isospace.verbs.options import as_options
from isospace.verbs.printing import print_result, print_table

DEFAULT_RECIPE = "adapt"
if TYPE_CHECKING:
    _ObjectiveChoice = Objective
else:
    _ObjectiveChoice = tyro.extras.subcommand_type_from_defaults(
        {name: kind() for name, kind in OBJECTIVES.items()}, prefix_names=False
    )


@dataclass(frozen=True)
class Train:
    """Adapt an encoder to a text file without labels, and say whether that helped."""

    config: TrainConfig
    objective: _ObjectiveChoice = field(default_factory=SimCSE)
    """The objective, followed by its own options (--help after its name lists them)."""
    recipe: str = DEFAULT_RECIPE
    """Start from a row of `isospace recipes`; every other option overrides it."""
    resume: Path | None = None
    """Go on with an interrupted run; all other options are read from its folder."""
    json: bool = False
    """Print results.json on standard output and no progress."""

    def run(self) -> int:
        """Train, or go on."""
        config = None if self.resume else replace(self.config, objective=self.objective)
        if config is not None and not config.text.corpus:
            raise UserError("--corpus is missing: give a text file, a folder, - or docstrings")
        outcome = train(config, self.resume, Console(self.json))
        if not first():  # of the processes that share the run
            return 0
        write_report(collect([outcome.run.folder]), in_words=as_options)
        if self.json:
            print_result(to_json(outcome.results))
        elif self.resume:
            print_result(outcome.verdict)
        return 0


@dataclass(frozen=True)
class Compare:
    """Train several objectives by several seeds at one budget, and say which one to adapt with."""

    candidates: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Objectives, each NAME or NAME:FIELD=VALUE,FIELD=VALUE with options of its own; learning_rate,
    dropout, batch_size, model and pooling can be given there too."""
    config: TrainConfig
    seeds: int = 3
    """Runs of each, with seeds counting up from --seed."""
    verdict_on: Measure = "pairs"
    """What the verdict is about: pairs that belong together, or the average of the STS sets."""
    jobs: int = 1
    """Runs at a time, each a process with its part of the cores, or a GPU of its own. Two on two
    cores finish sooner than one after the other."""
    json: bool = False
    """Print results.json on standard output and no progress."""

    def run(self) -> int:
        """Run what is missing, compare, print."""
        if not self.candidates:
            raise UserError("give one or more objectives to compare, such as simcse whitenedcse")
        settings = {text: candidate(text, self.config) for text in self.candidates}
        folder = self.config.output
        if folder is None:
            raise UserError("--output is missing: the folder of the comparison (it can be resumed)")
        if not self.config.text.corpus:
            raise UserError("--corpus is missing: give a text file, a folder, - or docstrings")
        results = compare(
            settings, self.seeds, folder, self.verdict_on, self.jobs, Console(self.json)
        )
        if results is None:  # another process than the first
            return 0
        for runs in results.runs.values():
            for run in runs:
                write_report(collect([folder / run]), in_words=as_options)
        write_report(collect([folder]), in_words=as_options)
        if self.json:
            print_result(to_json(results))
        else:
            tables = [make(folder.name, results) for make in COMPARISON_TABLES]
            for table in filter(None, tables):
                print_table(table.caption, table.rows)
                print_result(f"{table.note}\n")
            print_result(results.verdict.text)
            console = Console(self.json)
            if results.verdict.model is not None:
                _say_how_to_load(Path(results.verdict.model), console)
            console.line("report", str(folder / REPORT))
        return 0


def _say_how_to_load(model: Path, console: Console) -> None:
    run = Run(model.parent)
    how = f'SentenceTransformer("{model}")'
    if not model.is_dir() and run.last_checkpoint.is_file():
        how = as_options(f"{model} is gone; {run.to_resume[0]} makes it again")
    elif not model.is_dir():
        how = f"{model} is gone, and so is its checkpoint: remove the run and compare again"
    console.line("load it", how)
