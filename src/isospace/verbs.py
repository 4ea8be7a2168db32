"""The verbs of the command line: a dataclass each, whose fields are its options."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from isospace.compare import Measure, compare, contestant
from isospace.config import TrainConfig
from isospace.display import Display
from isospace.doctor import examine
from isospace.encoder import Precision
from isospace.errors import UserError
from isospace.evaluate import evaluate
from isospace.evaluation.classifiers import ProtocolName
from isospace.objectives import OBJECTIVES, SimCSE
from isospace.objectives.base import Objective
from isospace.pooling import PoolingName
from isospace.recipes import as_json, describe, overview
from isospace.report import markdown_table, runs_table, write_curves, write_report
from isospace.run import Run
from isospace.train import train

DEFAULT_RECIPE = "adapt"
if TYPE_CHECKING:
    _ObjectiveChoice = Objective
else:
    _ObjectiveChoice = tyro.extras.subcommand_type_from_defaults(
        {name: kind() for name, kind in OBJECTIVES.items()}, prefix_names=False
    )


def print_result(text: str) -> None:
    """Results go to standard output; everything else goes to standard error."""
    sys.stdout.write(text + "\n")


def print_table(title: str, rows: Sequence[dict[str, str]], plain: bool) -> None:
    """Rows as a table, as Markdown where nobody looks, or as JSON (`plain`)."""
    if plain:
        print_result(json.dumps(rows, indent=2))
        return
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(row.get(column, "") for column in columns))
    console = Console(highlight=False, markup=False)
    console.print(
        table if console.is_terminal else markdown_table(rows), soft_wrap=not console.is_terminal
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
        outcome = train(config, self.resume, quiet=self.json)
        if self.json and outcome.results:  # other processes than the first have none
            print_result(json.dumps(outcome.results, indent=2))
        elif self.resume:
            print_result(outcome.verdict)
        return 0


@dataclass(frozen=True)
class Compare:
    """Train several objectives by several seeds at one budget, and say which one to adapt with."""

    contestants: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Objectives, each NAME or NAME:FIELD=VALUE,FIELD=VALUE with options of its own; learning_rate,
    dropout, batch_size, model and pooling can be given there too."""
    config: TrainConfig
    seeds: int = 3
    """Runs of each, with seeds counting up from --seed."""
    verdict_on: Measure = "pairs"
    """What the verdict is about: pairs that belong together, or the average of the STS sets."""
    json: bool = False
    """Print results.json on standard output and no progress."""

    def run(self) -> int:
        """Run what is missing, compare, print."""
        if not self.contestants:
            raise UserError("give one or more objectives to compare, such as simcse whitenedcse")
        if self.config.output is None:
            raise UserError("--output is missing: the folder of the comparison (it can be resumed)")
        if not self.config.text.corpus:
            raise UserError("--corpus is missing: give a text file, a folder, - or docstrings")
        settings = {text: contestant(text, self.config) for text in self.contestants}
        found = compare(settings, self.seeds, self.config.output, self.verdict_on, self.json)
        if self.json:
            print_result(json.dumps(found.to_json(), indent=2))
        else:
            print_table("comparison, x 100", found.rows(), plain=False)
            print_result(found.decision.text)
        return 0


@dataclass(frozen=True)
class Evaluate:
    """Score a model on the seven STS sets, and on pairs of your own."""

    model: Annotated[str, tyro.conf.Positional] = "minilm"
    """minilm, a model folder, the folder of a run, or a Hub name."""
    data: str | None = None
    """Folder with the STS sets in SentEval's layout, or hub; default: ISOSPACE_DATA, if set."""
    pairs: Path | None = None
    """A two-column file of texts that belong together."""
    pooling: PoolingName | None = None
    """Tokens to sentence; by default the model's own pooling."""
    transfer: ProtocolName | None = None
    """Also score MR, CR, SUBJ, MPQA, SST-2, TREC and MRPC (in --data): senteval is the papers'
    classifier, sklearn a faster one on the same folds."""
    precision: Precision = "float32"
    """bf16 is faster where the processor has it; a score moves by a few hundredths of a point."""
    subsets: bool = False
    """Print every sub-set and the settings all, mean and wmean too."""
    json: bool = False
    """Print everything as JSON."""

    def run(self) -> int:
        """Load, score, print."""
        report = evaluate(
            self.model,
            self.data,
            self.pairs,
            self.pooling,
            self.transfer,
            self.precision,
            Display(self.json),
        )
        if self.json:
            print_result(json.dumps(report.to_json(), indent=2))
            return 0
        for title, rows in report.tables(self.subsets):
            print_table(title, rows, plain=False)
        return 0


@dataclass(frozen=True)
class Objectives:
    """List the objectives that can be trained."""

    json: bool = False
    """Print as JSON."""

    def run(self) -> int:
        """Print the table."""
        print_table("objectives", [objective_row(name) for name in OBJECTIVES], self.json)
        return 0


@dataclass(frozen=True)
class Recipes:
    """List the published settings and the averages they aim at, or show one in full."""

    name: Annotated[str, tyro.conf.Positional] = ""
    """Show everything about this recipe."""
    json: bool = False
    """Print everything as JSON."""

    def run(self) -> int:
        """Print the table, or one row."""
        if self.json or self.name:
            print_result(as_json(self.name) if self.json else describe(self.name))
        else:
            print_table("recipes (averages as published)", overview(), plain=False)
        return 0


@dataclass(frozen=True)
class Report:
    """Make a page and a table from the folders of runs."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of runs."""
    output: Path | None = None
    """The page to write; default: report.html in the folder of a single run."""
    picture: Path | None = None
    """Also write the curves of a single run as a picture (svg, png, pdf)."""
    json: bool = False
    """Print the table as JSON."""

    def run(self) -> int:
        """Write the page, print the table."""
        if not self.runs:
            raise UserError("give the folders of one or more runs")
        runs = [Run(folder) for folder in self.runs]
        page = write_report(runs, self.output)
        if self.picture is not None:
            if len(runs) != 1:
                raise UserError("--picture shows the curves of one run; give one folder")
            write_curves(runs[0], self.picture)
        print_table("runs", runs_table(runs), self.json)
        Display(self.json).line("report", str(page))
        return 0


@dataclass(frozen=True)
class Doctor:
    """Say what works on this machine."""

    json: bool = False
    """Print as JSON."""

    def run(self) -> int:
        """Look and print."""
        findings = examine()
        if self.json:
            print_result(json.dumps([asdict(finding) for finding in findings], indent=2))
            return 0
        rows = [{"": "ok" if f.ok else "--", "what": f.name, "found": f.text} for f in findings]
        print_table("doctor", rows, plain=False)
        return 0


Verb = Literal["train", "compare", "evaluate", "objectives", "recipes", "report", "doctor"]
VERBS: dict[Verb, type[Any]] = {
    "train": Train,
    "compare": Compare,
    "evaluate": Evaluate,
    "objectives": Objectives,
    "recipes": Recipes,
    "report": Report,
    "doctor": Doctor,
}


def objective_row(name: str) -> dict[str, str]:
    """The row of an objective in the table of objectives."""
    kind: type[Objective] = OBJECTIVES[name]
    objective = kind()
    return {
        "objective": name,
        "from": objective.paper.title.split(":")[0],
        "year": str(objective.paper.year),
        "views": objective.describe_views(),
        "head": objective.head_summary,
        "terms": ", ".join(objective.term_names),
        "passes": str(len(objective.views)),
        "paper": objective.paper.url,
    }
