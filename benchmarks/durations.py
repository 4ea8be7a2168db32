"""The durations in docs/results/domains.md: how long each way to adapt takes on one corpus.

    python benchmarks/durations.py FOLDER [--corpus docstrings] [--row ROW]

FOLDER holds the corpora as benchmarks/corpora.py makes them. Each row runs once, in a process of
its own with an empty cache, on all cores and in the precision that a user gets. Do it on an idle
machine. A row covers everything from the loaded packages to the written model: reading the corpus,
training on 200,000 tokens, validation and test. Fine-tuning by sentence-transformers measures
nothing. `--row fit` prints the seconds that whitening by pairs needs to encode and fit 3,000 pairs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from common import draw
from contest import machine
from documents import SOURCES, TOKENS, on_one_text, pairs, published
from isospace.system.tables import markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "results" / "domains.md"
FIT = "fit"


def main() -> None:
    """Measure every row, or one row in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--corpus", choices=SOURCES, default="docstrings")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="fewer, to try the command")
    parser.add_argument("--row", help="measure only this row, in this process")
    options = parser.parse_args()
    os.environ.pop("ISOSPACE_DATA", None)
    if options.row:
        print(_rows(options)[options.row]())
        return
    seconds = {name: _in_process(name) for name in _rows(options) if name != FIT}
    from domains_page import SHOWN  # loads torch, whose time counts in no row

    table = [
        {
            "": SHOWN[name],
            "seconds": f"{found:.0f}",
            "share of `adapt`": f"{found / seconds['adapt']:.2f}",
        }
        for name, found in seconds.items()
    ]
    if options.tokens == TOKENS:
        draw(PAGE, {"durations": f"{markdown_table(table)}\n\n{machine()}"})
    print(markdown_table(table), machine(), sep="\n")


def _in_process(name: str) -> float:
    with TemporaryDirectory() as cache:
        command = [sys.executable, *sys.argv, "--row", name]
        environment = os.environ | {"ISOSPACE_CACHE": cache}
        found = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    print(name, found.stdout.split()[-1], flush=True)
    return float(found.stdout.split()[-1])


def _rows(options: argparse.Namespace) -> dict[str, Callable[[], float]]:
    """Return a function for each row, which does its work and returns the seconds."""
    source, folder = SOURCES[options.corpus], options.folder
    budget = (options.tokens, "tokens")

    def whiten(output: Path) -> None:
        from isospace.adaptation.whiten import whiten_model
        from isospace.config import WhitenConfig

        whiten_model(WhitenConfig(text=source.text(folder), output=output))

    def fit() -> float:
        from fine_tuning import fit_map
        from isospace.adaptation.fitting import FITTED_ON
        from isospace.encoders.loading import load_encoder
        from isospace.evaluation.pairs import PromptedEncoders
        from isospace.training.examples import Examples
        from isospace.training.prepare import load_data

        config = pairs(source, folder)
        texts = Examples.from_corpus(config, load_data(config).corpus).related_texts(FITTED_ON)
        encoder = load_encoder(config.model)
        embed = partial(encoder.embed, max_length=config.max_length)
        started = time.monotonic()
        fit_map(PromptedEncoders.of_prompts(encoder.prompts, embed), texts)
        return time.monotonic() - started

    def peer(output: Path) -> None:
        from peer_recipes import train_peer

        train_peer(
            "st-mnrl", replace(pairs(source, folder), precision="auto", budget=budget), output
        )

    def paper(name: str, output: Path) -> None:
        from isospace.training.train import train

        config = (on_one_text(source, folder) | published(source, folder))[name]
        train(replace(config, precision="auto", budget=budget, output=output))

    def adapt(output: Path) -> None:
        from isospace.adaptation.adapt import AdaptConfig, adapt

        adapt(AdaptConfig(text=source.text(folder), budget=budget, output=output))

    def timed(run: Callable[[Path], None]) -> Callable[[], float]:
        def measure() -> float:
            with TemporaryDirectory() as scratch:
                started = time.monotonic()
                run(Path(scratch, "output"))
                return time.monotonic() - started

        return measure

    papers = ("simcse", "whitenedcse", "scd-published", "simcse++-published")
    return {
        FIT: fit,
        "by pairs, power 0.75": timed(whiten),
        "st-mnrl": timed(peer),
        **{name: timed(lambda output, name=name: paper(name, output)) for name in papers},
        "adapt": timed(adapt),
    }


if __name__ == "__main__":
    main()
