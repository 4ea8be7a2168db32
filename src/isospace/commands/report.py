"""The command `report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from isospace.commands.console import Console
from isospace.commands.options import LoadsModels, as_options
from isospace.commands.printing import print_json, print_result, print_table
from isospace.errors import UserError


@dataclass(frozen=True)
class Report(LoadsModels):
    """Options of `isospace report`."""

    runs: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER ...")
    ] = ()
    """Folders of runs, or the folder of a comparison."""
    output: Path | None = None
    """The page to write; its tables are put beside it, as md, csv and tex. Default: report.html in
    the folder of the run or of the comparison."""
    query: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Show which sentences are nearest to this text before and after training; can be given several
    times."""
    picture: Path | None = None
    """Also write the curves as a picture, whose name ends in .svg, .png or .pdf."""
    json: bool = False
    """Print the table of runs as JSON, and no progress."""

    def run(self) -> int:
        """Write the page and the tables, print the runs."""
        from isospace.report.figures import write_picture
        from isospace.report.run_set import NAMED_RUNS, collect
        from isospace.report.runs import runs_table
        from isospace.report.scoreboard import all_tables, comparison_tables
        from isospace.report.write import write_report
        from isospace.system.tables import write_tables

        if not self.runs:
            raise UserError("give the folders of one or more runs")
        with Console(self.json) as console:
            run_set = collect(self.runs)
            if self.picture is not None:
                write_picture(run_set, self.picture)
            page = write_report(run_set, self.output, self.query, as_options)
            written = [page, *write_tables(all_tables(run_set), page)]
            table = runs_table(run_set)
        tested = run_set.comparisons.get(NAMED_RUNS)
        if self.json:
            print_json({"protocol": table.note, "runs": table.rows})
        else:
            print_table("runs", table.rows, table.note)
            if tested is not None:
                for found in comparison_tables(NAMED_RUNS, tested):
                    if "differences" in found.name:
                        print_table(found.caption, found.rows, found.note)
                print_result(tested.summary)
        if run_set.untested:
            console.line("tests", f"none between these runs. {run_set.untested}")
        console.line("report", ", ".join(map(str, written)))
        return 0
