"""docs/results/relations.md: the gain by each relation of documents, and by dropout.

    python benchmarks/relations.py FOLDER [--jobs 2] [--seeds 3] [--only CORPUS ...]
    python benchmarks/relations.py --judge

FOLDER holds docstrings, debian-en and python-docs as benchmarks/corpora.py makes them. Goes on
where it was stopped, and with the cells in docs/results/relations-CORPUS-cells.npz.xz. With --judge
the finished runs are compared again: no text, no training.

All rows of a corpus have one budget in tokens, and are tested by a relation that trains none of
them. Rows of pairs are the recipe `pairs`, whose settings were selected on pairs that do not test
(benchmarks/fine_tuning.py).
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import archived
from cell_archive import BASELINES, read
from common import draw, gain_cell, points
from documents import BY_RELATION, SOURCES, Source, on_one_text, pairs
from isospace.adaptation.whiten import whiten_model
from isospace.comparison.results import ComparisonResults
from isospace.config import TrainConfig, WhitenConfig
from isospace.objectives import Iso
from isospace.report.tables import mean_sd
from isospace.system.tables import markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "results" / "relations.md"
RUNS = Path("runs/documents")
SEEDS = 3
WHITENED = "soft-whitening"
FITTED_ON = 20_000
"""Passages, by the whitening."""


def candidates(source: Source, folder: Path) -> dict[str, TrainConfig]:
    """The rows that are trained; a name is that of its folder, too."""
    rows = on_one_text(source, folder)
    mixture = pairs(source, folder)
    # What the relations teach, and not the settings of the recipe.
    rows["single-texts"] = replace(mixture, views="dropout")
    rows |= {name: replace(mixture, relations=(name,)) for name in source.relations}
    rows["mixture"] = mixture
    rows["mixture+single-texts"] = replace(mixture, views="both")
    rows["mixture-iso"] = replace(mixture, objective=Iso(temperature=0.05))
    return rows


def main() -> None:
    """Run what is missing; then draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--only", nargs="+", choices=BY_RELATION, default=BY_RELATION)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--output", type=Path, default=RUNS)
    options = parser.parse_args()
    if options.folder is None and not options.judge:
        parser.error("give FOLDER, or --judge")
    for name in options.only:
        rows = candidates(SOURCES[name], options.folder or Path("FOLDER"))
        if not options.judge:
            models = _whitened(name, options)
            runs = options.output / name
            archived.run(rows, options.seeds, runs, cells_of(name), options.jobs, models, "pairs")
        corpus = Path(rows["simcse"].text.corpus[0])
        names = (*rows, WHITENED)
        results = archived.judged_again(names, cells_of(name), corpus, Path(), "MRR")
        draw(PAGE, {f"gains {name}": _table(results)})


def cells_of(corpus: str) -> Path:
    """Return the archive of a corpus."""
    return PAGE.with_name(f"relations-{corpus}-cells.npz.xz")


def _whitened(corpus: str, options: argparse.Namespace) -> dict[str, Path]:
    """Whiten the base model softly, as far as the corpus' validation pairs find that better.

    None where the archive knows what it came to.
    """
    if f"{BASELINES}{WHITENED}" in read(cells_of(corpus))[0]:
        return {}
    output: Path = options.output / "models" / corpus / WHITENED
    if not output.exists():
        text = SOURCES[corpus].text(options.folder)
        tried = output.with_name("power-auto")
        shutil.rmtree(tried, ignore_errors=True)
        config = WhitenConfig(text=text, power="auto", sentences=FITTED_ON, output=tried)
        # In a process of its own: one process has one precision, and training has another.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            found = process.submit(whiten_model, config).result()
            assert found is not None
            if found.power is None or found.whitened:
                tried.rename(output)
            else:
                # Left to choose, it keeps the base model where the test pairs show no gain; a row
                # that they judge must not have been chosen by them.
                config = replace(config, power=found.power, output=output)
                process.submit(whiten_model, config).result()
    return {WHITENED: output}


def _table(results: ComparisonResults) -> str:
    """Return the table of the rows that changed something, the largest gain first."""
    gains = {name: columns["MRR"] for name, columns in results.gains.items()}
    ordered = sorted(gains, key=lambda name: -gains[name].over_base.mean)
    kept = [name for name in ordered if not gains[name].over_base.mean]
    with_bm25 = {name: row.scores["MRR"] for name, row in results.with_bm25.items()}
    rows = []
    for name in ("base model", *(name for name in ordered if name not in kept)):
        scores = {column: found.seeds for column, found in results.scores[name].items()}
        found = gains.get(name)
        rows.append(
            {
                "": name,
                "MRR": _mean(scores["MRR"]),
                "gain": gain_cell(points(found.over_base)) + _star(found.holm_p) if found else "",
                "with BM25": _mean(with_bm25[f"{name} + BM25"].seeds),
                "no shared words": _mean(scores["MRR, no shared words"]),
            }
        )
    rows.append({"": "BM25", "MRR": _mean(with_bm25["BM25"].seeds)})
    note = f"\n\nRows that kept the base model: {', '.join(kept)}." if kept else ""
    return markdown_table(rows) + note


def _star(p: float) -> str:
    return "*" if p < 0.05 else ""


def _mean(seeds: Sequence[float]) -> str:
    return mean_sd(seeds).split()[0]


if __name__ == "__main__":
    main()
