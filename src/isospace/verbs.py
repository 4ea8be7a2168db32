"""The verbs of the command line: a dataclass each, whose fields are its options."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from isospace.compare import Measure, compare, contestant
from isospace.config import TrainConfig
from isospace.display import Display
from isospace.doctor import examine
from isospace.errors import UserError
from isospace.figures import write_picture
from isospace.objectives import OBJECTIVES, SimCSE
from isospace.objectives.base import Objective
from isospace.printing import print_result, print_table
from isospace.recipes import as_json, describe, overview
from isospace.report import write_report
from isospace.run_set import collect
from isospace.scoreboard import all_tables, comparison_table, runs_table
from isospace.tables import write_tables
from isospace.train import train
from isospace.verb_evaluate import Evaluate, Neighbours

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
        if found is None:  # another process than the first
            return 0
        if self.json:
            print_result(json.dumps(found.to_json(), indent=2))
        else:
            table = comparison_table(found.folder.name, found.to_json())
            print_table(table.caption, table.rows, plain=False)
            print_result(found.decision.text)
            Display(self.json).line("report", str(found.folder / "report.html"))
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
    """Make a page, and tables for papers, from the folders of runs or of a comparison."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of runs, or of a comparison."""
    output: Path | None = None
    """The page to write, with its tables beside it (md, csv, tex); default: report.html in the
    folder of the run or of the comparison."""
    query: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """List the sentences nearest to this text, before and after; can be given several times."""
    picture: Path | None = None
    """Also write the curves as a picture (svg, png, pdf)."""
    json: bool = False
    """Print the table as JSON."""

    def run(self) -> int:
        """Write the page and the tables, print the runs."""
        if not self.runs:
            raise UserError("give the folders of one or more runs")
        found = collect(self.runs)
        page = write_report(found, self.output, self.query)
        written = [page, *write_tables(all_tables(found), page)]
        if self.picture is not None:
            write_picture(found, self.picture)
        print_table("runs", runs_table(found).rows, self.json)
        Display(self.json).line("report", ", ".join(map(str, written)))
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


Verb = Literal[
    "train", "compare", "evaluate", "neighbours", "objectives", "recipes", "report", "doctor"
]
VERBS: dict[Verb, type[Any]] = {
    "train": Train,
    "compare": Compare,
    "evaluate": Evaluate,
    "neighbours": Neighbours,
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
