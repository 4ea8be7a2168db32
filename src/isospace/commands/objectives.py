"""The command `objectives`."""

from __future__ import annotations

from dataclasses import dataclass

from isospace.commands.options import PrintsJson
from isospace.commands.printing import print_json, print_table
from isospace.objectives import OBJECTIVES


@dataclass(frozen=True)
class Objectives(PrintsJson):
    """Options of `isospace objectives`."""

    def run(self) -> None:
        """Print the table."""
        rows = [objective_row(name) for name in OBJECTIVES]
        if self.json:
            print_json(rows)
        else:
            print_table("objectives", rows)


def objective_row(name: str) -> dict[str, str]:
    """Return an objective's row of the table."""
    objective = OBJECTIVES[name]()
    return {
        "objective": name,
        "from": objective.paper.title.split(":")[0],
        "year": str(objective.paper.year),
        "terms": ", ".join(objective.term_names),
        "passes": str(len(objective.views)),
        "paper": objective.paper.url,
    }
