"""The end of a command that made a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isospace.commands.console import Console
from isospace.commands.options import as_options
from isospace.commands.printing import print_json_text, print_result
from isospace.system.typed_json import to_json

if TYPE_CHECKING:
    from isospace.training.run import FinishedRun


def show_finished(outcome: FinishedRun, json: bool) -> None:
    """Print results.json where JSON is asked for; write the run's report and say where it is.

    Of a run that had been finished before the verdict is said, as nothing told it on the way.
    """
    from isospace.report.run_set import collect
    from isospace.report.write import write_report

    if json:
        print_json_text(to_json(outcome.results))
    elif outcome.earlier:
        print_result(f"{outcome.run.folder} had been finished. {outcome.verdict}")
    # Last: its folder may be read-only by now.
    page = write_report(collect([outcome.run.folder]), in_words=as_options)
    Console(json).line("report", str(page))
