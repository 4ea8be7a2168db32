"""docs/results/comparison.md: five rows of the published baselines, by `isospace compare`.

    python benchmarks/comparison.py CORPUS STS_FOLDER [--jobs 2] [--seeds 5] [--output FOLDER]
    python benchmarks/comparison.py --judge STS_FOLDER

The settings are those of baselines.py from [CLS], but twice the sentences and five seeds.
Goes on where it was stopped, as every comparison does, and with the cells whose records are in
docs/results/comparison-cells.npz.xz; the report is in the folder of the runs. With --judge nothing
is trained and no text is read: the runs in the archive are compared again, and the page is drawn of
what they say.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import archived
import baselines
from common import draw
from isospace.comparison.results import ComparisonResults
from isospace.report.tables import comparison_table, differences_table
from isospace.system.tables import Table, markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "results" / "comparison.md"
OBJECTIVES = ("simcse", "whitenedcse", "scd", "simcse++", "iso")
CELLS = PAGE.with_name("comparison-cells.npz.xz")
TABLES = (comparison_table, differences_table)
COLUMNS = {
    "comparison": (
        "", "Avg unseen", "gain in Avg unseen", "95 % interval", "p (Holm)",
        "Spearman on stsb-dev", "MRR",
    )
}  # fmt: skip
"""Of the tables of which the page does not show all."""
SEEDS, SENTENCES = 5, 32_000


def main() -> None:
    """Run what is missing; then draw the page."""
    options = archived.parse(archived.parser(__doc__, "comparison", SEEDS))
    corpus = options.corpus or Path(baselines.CORPUS)
    if options.judge is not None:
        _draw(judged_again(options.judge, corpus))
        return
    table = replace(baselines.TABLES["cls"], rows=OBJECTIVES, sentences=SENTENCES)
    candidates = table.candidates(corpus, options.sts)
    _draw(archived.run(candidates, options.seeds, options.output, CELLS, options.jobs))


def judged_again(sts: Path, corpus: Path = Path(baselines.CORPUS)) -> ComparisonResults:
    """Judge the archived runs; nothing is trained, and of the corpus only its name is used."""
    return archived.judged_again(OBJECTIVES, CELLS, corpus, sts)


def _draw(results: ComparisonResults) -> None:
    """Draw the verdict and the tables."""
    tables = filter(None, (make("", results) for make in TABLES))
    parts = {table.name: shown(table) for table in tables}
    draw(PAGE, parts | {"verdict": results.verdict.text})


def shown(table: Table) -> str:
    """Draw what the page shows of a table of the report; the page has the notes in its prose."""
    columns = COLUMNS.get(table.name)
    rows = [{c: row[c] for c in columns} if columns else row for row in table.rows]
    return markdown_table(rows)


if __name__ == "__main__":
    main()
