"""docs/results/demo.md: the demo with several seeds, package by package.

    python benchmarks/demo_study.py [--seeds 3] [--work FOLDER]

Runs the search of `make demo` with each seed, for as many tokens on every machine. Shows whether a
few packages make the gain: by pairs, by modules (the verdict's groups), by packages, and within
every package. A finished search is read again; a stopped one is resumed.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from common import draw
from contest import machine
from isospace.adaptation.adapt import adapt
from isospace.adaptation.adapt_config import AdaptConfig
from isospace.config import CorpusConfig
from isospace.corpus.docstrings import DISTRIBUTIONS
from isospace.encoders.places import ADAPT_SETTINGS
from isospace.statistics.gains import gain
from isospace.statistics.influence import Scores, mean_scores
from isospace.system.tables import markdown_table
from isospace.training.prepare import load_data
from isospace.training.run import Run

PAGE = Path(__file__).parent.parent / "docs" / "results" / "demo.md"
DEMO = AdaptConfig(text=CorpusConfig(corpus=("docstrings",)), budget=(200_000, "tokens"))
"""The demo has six minutes, which allow for about so many tokens on two cores."""


def main() -> None:
    """Run what is missing; draw the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path("runs") / "demo-study")
    options = parser.parse_args()
    # The demo has no labels; with STS sets their dev parts would bound what is selected.
    os.environ.pop("ISOSPACE_DATA", None)
    seeds = range(DEMO.seed, DEMO.seed + options.seeds)
    runs = [_run(options.work / f"seed-{seed}", seed) for seed in seeds]
    # The names of the groups are not kept in a run: they say whose text it is.
    modules = np.array(load_data(DEMO.training("pairs")).benchmark.pairs.groups)
    firsts = [module.split("/")[0] for module in modules]
    packages = np.array([name if name in DISTRIBUTIONS else "python" for name in firsts])
    tables = {
        "groups": _by_groups(runs, modules, packages),
        "packages": _by(runs, modules, packages),
    }
    seeds_table = [
        {
            "seed": str(run.config.seed),
            "verdict": run.finished.verdict.text.partition(" in MRR")[0],
            "selected": run.finished.kept,
        }
        for run in runs
    ]
    parts = {name: f"{markdown_table(rows)}\n" for name, rows in tables.items()}
    draw(PAGE, {"seeds": f"{markdown_table(seeds_table)}\n", "machine": machine() + ".\n", **parts})


def _run(folder: Path, seed: int) -> Run:
    begun = (folder / ADAPT_SETTINGS).is_file()
    return adapt(
        None if begun else replace(DEMO, seed=seed, output=folder), folder if begun else None
    ).run


def _scores(runs: list[Run], state: str, groups: np.ndarray, places: np.ndarray) -> Scores:
    """Of these pairs; a base model is the same in every run."""
    items = [run.items(state) for run in (runs if state == "after" else runs[:1])]
    _, numbers = np.unique(groups[places], return_inverse=True)
    return mean_scores(
        np.stack([of_run["MRR"][places] for of_run in items]),
        numbers,
        np.stack([of_run["MRR burdens"][:, places] for of_run in items], axis=1),
    )


def _row(runs: list[Run], groups: np.ndarray, places: np.ndarray) -> dict[str, str]:
    start, result = (_scores(runs, state, groups, places) for state in ("before", "after"))
    found = gain(result, start)
    return {
        "pairs": f"{found.items:,}",
        "groups": f"{found.groups:,}",
        "base model": f"{100 * float(start.by_seed.mean()):.2f}",
        "gain": f"{100 * found.mean:+.2f}",
        "95 % interval": found.interval,
    }


def _by_groups(runs: list[Run], modules: np.ndarray, packages: np.ndarray) -> list[dict[str, str]]:
    every = np.arange(len(modules))
    named = {"pairs": every.astype(str), "modules": modules, "packages": packages}
    return [{"independent": name} | _row(runs, groups, every) for name, groups in named.items()]


def _by(runs: list[Run], modules: np.ndarray, packages: np.ndarray) -> list[dict[str, str]]:
    return [
        {"package": name} | _row(runs, modules, np.flatnonzero(packages == name))
        for name, count in zip(*np.unique(packages, return_counts=True), strict=True)
        if count > 1
    ]


if __name__ == "__main__":
    main()
