"""docs/results/domains.md: what `adapt` gains on several domains, beside single objectives.

    python benchmarks/domains.py FOLDER [--only CORPUS ...] [--rows ROW ...] [--seeds 1] [--jobs 2]
                                        [--start all-mpnet-base-v2]
    python benchmarks/domains.py --judge

FOLDER holds the corpora as benchmarks/corpora.py makes them. Goes on where it was stopped, and with
the runs whose records are in docs/results/documents-cells, where benchmarks/relations.py puts its
own. With --judge the finished runs are judged again: no text, no training. Another start than
minilm, such as the folder that benchmarks/mpnet.py makes, has tables of its own.

All rows of a corpus are trained on as many tokens, and are judged by a relation that trains none of
them. Rows that sentence-transformers trains have one seed.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import archived
from cell_archive import pack, unpack
from common import draw
from documents import CELLS, RUNS, SOURCES, TOKENS, objectives, pairs
from isospace.adaptation.adapt import adapt
from isospace.adaptation.adapt_config import AdaptConfig
from isospace.adaptation.results import Ladder, read_ladder
from isospace.comparison.results import ComparisonResults
from isospace.config import TrainConfig
from isospace.report.papers import mean_sd
from isospace.system.files import write_text
from isospace.system.tables import markdown_table
from isospace.system.typed_json import to_json
from isospace.training.run import Run
from peer_recipes import PEERS, train_peer

PAGE = Path(__file__).parent.parent / "docs" / "results" / "domains.md"
RECORD = PAGE.with_name("domains.json")
"""What the tables have and no cell: the rungs of `adapt`, and minutes of others' trainings."""
ADAPT = "adapt"
MEASURES = ("MRR", "nDCG@10", "R@1", "R@10")
Value = TypeVar("Value")


def main() -> None:
    """Run what is missing; then draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--rows", nargs="+", help="those that are run; the others wait")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--start", default="minilm")
    parser.add_argument("--output", type=Path, default=RUNS)
    options = parser.parse_args()
    if options.folder is None and not options.judge:
        parser.error("give FOLDER, or --judge")
    for corpus in options.only:
        rows = objectives(SOURCES[corpus], options.folder or Path("FOLDER"), options.start)
        name = corpus
        if options.start != "minilm":
            name += f"-{Path(options.start).name}"
        if not options.judge:
            _run(name, corpus, rows, options)
        _judge(name, rows)


def _run(
    name: str, corpus: str, rows: Mapping[str, TrainConfig], options: argparse.Namespace
) -> None:
    """Train what is missing of a corpus, and put it into the archive."""
    runs: Path = options.output / name
    wanted = options.rows or [ADAPT, *rows, *PEERS]
    text = rows["dropout"].text
    unpack(CELLS / name, runs, Path(text.corpus[0]), Path())
    if ADAPT in wanted:
        for seed in range(options.seeds):
            if (CELLS / name / f"{ADAPT}-seed-{seed}.tar.xz").exists():
                continue
            folder = runs / ADAPT / f"seed-{seed}"
            config = AdaptConfig(
                text=text,
                model=options.start,
                budget=(TOKENS, "tokens"),
                seed=seed,
                output=folder,
            )
            ladder = _apart(_climb, config)
            _note(
                name,
                f"{ADAPT} seed {seed}",
                {"rungs": json.loads(to_json(ladder))["rungs"]},
                ladder.seconds,
            )
        pack(runs, CELLS / name)
    models = {}
    for peer in (peer for peer in PEERS if peer in wanted):
        models[peer] = options.output / "models" / name / peer
        if not (models[peer].exists() or (CELLS / name / f"baseline-{peer}.tar.xz").exists()):
            on_pairs = pairs(SOURCES[corpus], options.folder, options.start)
            _note(name, peer, {}, _apart(train_peer, peer, on_pairs, models[peer]))
    candidates = {row: config for row, config in rows.items() if row in wanted}
    if candidates or models:
        candidates = candidates or {"dropout": rows["dropout"]}
        archived.run(candidates, options.seeds, runs, CELLS / name, options.jobs, models, "pairs")


def _climb(config: AdaptConfig) -> Ladder:
    """The ladder of a folder, which is climbed first where it is not there, or not to its end."""
    assert config.output is not None
    if config.output.exists():
        adapt(resume=config.output)
    else:
        adapt(config)
    ladder = read_ladder(config.output)
    assert ladder is not None
    return ladder


def _apart(work: Callable[..., Value], *arguments: Any) -> Value:
    """Do it in a process of its own: one process has one precision."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def _record() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def _note(name: str, row: str, more: Mapping[str, Any], seconds: float) -> None:
    """Keep what no cell has."""
    found = _record()
    found.setdefault(name, {})[row] = {"seconds": seconds, **more}
    write_text(RECORD, json.dumps(found, indent=1) + "\n")


def _judge(name: str, rows: Mapping[str, TrainConfig]) -> None:
    """Judge all that the archive has of a corpus, and draw it."""
    if not (CELLS / name).exists():
        return
    corpus = Path(rows["dropout"].text.corpus[0])
    results = archived.judged_again((ADAPT, *rows, *PEERS), CELLS / name, corpus, Path(), "MRR")
    archived.publish(PAGE.with_name(f"domains-{name}.json"), results)
    draw(
        PAGE,
        {
            f"gains {name}": archived.tested(results, "pairs that choose"),
            f"scores {name}": _scores(results),
            f"costs {name}": _costs(name, corpus),
            f"ladder {name}": _ladder(_record().get(name, {})),
        },
    )


def _scores(results: ComparisonResults) -> str:
    """Every row with BM25's, and what became of other text."""
    rows = results.scores | {name: row.scores for name, row in results.beside.items()}
    return markdown_table(
        [
            {"": name}
            | {c: mean_sd(columns[c].seeds) for c in MEASURES if c in columns}
            | {
                f"elsewhere: {other}": found.points
                for other, found in results.elsewhere.get(name, {}).items()
            }
            for name, columns in rows.items()
        ]
    )


def _costs(name: str, corpus: Path) -> str:
    """Minutes of each row, all measuring included but for the rows of sentence-transformers."""
    seconds = {row: [found["seconds"]] for row, found in _record().get(name, {}).items()}
    seconds = {row: times for row, times in seconds.items() if row in PEERS}
    with TemporaryDirectory() as folder:
        unpack(CELLS / name, Path(folder), corpus, Path())
        for run in map(Run, sorted(Path(folder).glob("*/seed-*"))):
            seconds.setdefault(run.folder.parent.name, []).append(run.finished.seconds)
    return markdown_table(
        [
            {"": row, "minutes": f"{sum(times) / len(times) / 60:.1f}"}
            for row, times in seconds.items()
        ]
    )


def _ladder(record: Mapping[str, Mapping[str, Any]]) -> str:
    """What stood on each rung, by the pairs that choose; mean of the seeds."""
    rungs: dict[str, list[Mapping[str, Any]]] = {}
    for found in record.values():
        for rung in found.get("rungs", ()):
            rungs.setdefault(rung["name"], []).append(rung)
    return markdown_table(
        [
            {
                "": name,
                "MRR": f"{100 * sum(rung['mrr'] for rung in seeds) / len(seeds):.2f}",
                "minutes": f"{sum(rung['seconds'] for rung in seeds) / len(seeds) / 60:.1f}",
                "taken": str(sum(rung["chosen"] for rung in seeds)),
                "of": str(len(seeds)),
            }
            for name, seeds in rungs.items()
        ]
    )


if __name__ == "__main__":
    main()
