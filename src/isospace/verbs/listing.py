"""The verbs that only tell: `objectives`, `recipes`, `doctor`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated

import tyro

from isospace.objectives import OBJECTIVES
from isospace.objectives.base import Objective
from isospace.recipes import as_json, describe, overview
from isospace.verbs.diagnosis import examine
from isospace.verbs.printing import print_result, print_table


@dataclass(frozen=True)
class Objectives:
    """List the objectives that can be trained."""

    json: bool = False
    """Print as JSON."""

    def run(self) -> int:
        """Print the table."""
        rows = [objective_row(name) for name in OBJECTIVES]
        if self.json:
            print_result(json.dumps(rows, indent=2))
        else:
            print_table("objectives", rows)
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
            print_table("recipes (averages as published)", overview())
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
        print_table("doctor", rows)
        return 0


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
