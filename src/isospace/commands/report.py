"""The command `report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from isospace.commands.console import Console
from isospace.commands.options import PrintsJson, as_options
from isospace.commands.printing import print_json, print_table
from isospace.errors import UserError


@dataclass(frozen=True)
class Report(PrintsJson):
    """Options of `isospace report`."""

    runs: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER ...")
    ] = ()
    """Folders of runs, or the folder of a comparison."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The page to write; its tables become md and tex files in the same folder. Default:
    report.html in the folder of the run or of the comparison."""

    def run(self) -> None:
        """Write the page and the tables, and print the table of runs."""
        from isospace.report.run_set import collect
        from isospace.report.tables import all_tables, runs_table
        from isospace.report.write import write_report
        from isospace.system.tables import write_tables

        if not self.runs:
            raise UserError("give the folders of one or more runs")
        with Console(self.json) as console:
            run_set = collect(self.runs)
            page = write_report(run_set, self.output, as_options)
            written = [page, *write_tables(all_tables(run_set), page)]
            table = runs_table(run_set)
        if self.json:
            print_json({"protocol": table.note, "runs": table.rows})
        else:
            print_table("runs", table.rows, table.note)
        console.line("report", ", ".join(map(str, written)))
