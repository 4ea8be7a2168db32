"""docs/results/relations.md: what each relation of documents teaches, beside dropout.

    python benchmarks/relations.py FOLDER [--jobs 2] [--seeds 3] [--only CORPUS ...]
    python benchmarks/relations.py --judge

FOLDER holds docstrings, debian-en and python-docs as benchmarks/corpora.py makes them. Goes on
where it was stopped, and with the runs whose records are in docs/results/relations-cells. With
--judge the finished runs are judged again: no text, no training.

All rows of a corpus have one budget in tokens, and are judged by a relation that trains none of
them. Dropout rows have the settings of `train`'s default, rows of pairs those of the first trials
on docstrings: nothing was chosen on pairs that judge.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import archived
from common import draw
from isospace.comparison.results import ComparisonResults
from isospace.config import CorpusConfig, RelationName, TrainConfig
from isospace.objectives import Iso, SimCSE, WhitenedCSE
from isospace.report.papers import mean_sd
from isospace.system.tables import markdown_table
from isospace.whiten.whiten import whiten_model
from isospace.whiten.whiten_config import WhitenConfig

PAGE = Path(__file__).parent.parent / "docs" / "results" / "relations.md"
CELLS = PAGE.with_name("relations-cells")
TOKENS, SEEDS = 200_000, 3
FITTED_ON = 20_000
"""Passages, by the whitening."""
COLUMNS = ("MRR", "nDCG@10", "R@1", "R@10", "MRR, no shared words")


@dataclass(frozen=True)
class Source:
    """A corpus: how it is read, what judges, and which relations have pairs to train on."""

    place: str
    judge: RelationName
    relations: tuple[RelationName, ...]
    title_column: str | None = None
    group: str | None = None

    def text(self, folder: Path) -> CorpusConfig:
        """The settings of the corpus in a folder of corpora."""
        return CorpusConfig(
            corpus=(self.place.format(folder=folder),),
            judge=self.judge,
            title_column=self.title_column,
            group=self.group,
        )


SOURCES = {
    "docstrings": Source(
        "docstrings:{folder}/docstrings",
        "summary-next",
        ("title-passage", "heading-section", "first-rest", "neighbours", "crops"),
    ),
    "debian-en": Source(
        "{folder}/debian-en",
        "title-passage",
        ("first-rest", "neighbours", "crops"),
        "title",
        "source",
    ),
    "python-docs": Source(
        "{folder}/python-docs",
        "heading-section",
        ("title-passage", "first-rest", "neighbours", "crops", "links"),
    ),
}


def candidates(source: Source, folder: Path) -> dict[str, TrainConfig]:
    """The rows that are trained."""
    dropout = TrainConfig(text=source.text(folder), budget=(TOKENS, "tokens"), seed=0)
    pairs = replace(
        dropout,
        objective=SimCSE(head="none", temperature=0.05),
        views="pairs",
        learning_rate=5e-5,
    )
    rows = {
        "simcse": dropout,
        "whitenedcse": replace(dropout, objective=WhitenedCSE(head="none", temperature=0.15)),
        "iso": replace(dropout, objective=Iso()),
    }
    rows |= {name: replace(pairs, relations=(name,)) for name in source.relations}
    mixture = replace(pairs, relations=source.relations)
    rows["mixture"] = mixture
    rows["mixture and dropout"] = replace(mixture, views="both")
    rows["mixture, no title words"] = replace(mixture, without_title_words=True)
    rows["mixture, iso"] = replace(mixture, objective=Iso(temperature=0.05))
    return rows


def main() -> None:
    """Run what is missing; then draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--output", type=Path, default=Path("runs/relations"))
    options = parser.parse_args()
    if options.folder is None and not options.judge:
        parser.error("give FOLDER, or --judge")
    for name in options.only:
        rows = candidates(SOURCES[name], options.folder or Path("FOLDER"))
        corpus = Path(rows["simcse"].text.corpus[0])
        if options.judge:
            found = archived.judged_again(rows, CELLS / name, corpus, Path(), "MRR")
        else:
            runs = options.output / name
            models = {"soft whitening": _whitened(SOURCES[name], options, name)}
            found = archived.run(
                rows, options.seeds, runs, CELLS / name, options.jobs, models, "pairs"
            )
        _draw(name, found)


def _whitened(source: Source, options: argparse.Namespace, name: str) -> Path:
    """The start, softly whitened by the corpus as far as its choosing pairs find that better."""
    output: Path = options.output / "models" / name
    if not output.exists():
        text = source.text(options.folder)
        config = WhitenConfig(text=text, power="auto", sentences=FITTED_ON, output=output)
        # In a process of its own: one process has one precision, and training has another.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            process.submit(whiten_model, config).result()
    return output


def _draw(name: str, results: ComparisonResults) -> None:
    """The record beside the page; in the page the verdict, gains, scores and BM25's rows."""
    archived.publish(PAGE.with_name(f"relations-{name}.json"), results)
    draw(
        PAGE,
        {
            f"verdict {name}": f"{results.verdict.text}\n\n{results.beside_text}",
            f"gains {name}": archived.tested(results, "pairs that choose"),
            f"scores {name}": _scores(results),
        },
    )


def _scores(results: ComparisonResults) -> str:
    """Every row with BM25's, the measures that a search cares for."""
    rows = results.scores | {name: row.scores for name, row in results.beside.items()}
    return markdown_table(
        [
            {"": name} | {c: mean_sd(columns[c].seeds) for c in COLUMNS if c in columns}
            for name, columns in rows.items()
        ]
    )


if __name__ == "__main__":
    main()
