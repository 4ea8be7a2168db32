"""Time of an evaluation compared with the time of training between two evaluations.

    OMP_NUM_THREADS=1 python benchmarks/evaluation_cost.py [--corpus FILE] [--precision float32]

Trains by the recipe `dropout` up to its second evaluation, and prints both times as processor
seconds, which other processes hardly change.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from isospace.commands.console import Console
from isospace.config import CorpusConfig
from isospace.recipes import RECIPES
from isospace.training.evaluations import run_evaluation
from isospace.training.prepare import make_accelerator, prepare


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", nargs="+", default=["docstrings"])
    parser.add_argument("--precision", default="float32", choices=["auto", "bf16", "float32"])
    options = parser.parse_args()
    config = replace(
        RECIPES["dropout"].config,
        text=CorpusConfig(corpus=tuple(options.corpus)),
        precision=options.precision,
    )
    accelerator = make_accelerator(config)
    data, loop = prepare(config, accelerator, Console())
    loop.total_steps = int(config.budget[0]) // loop.sentences_per_step
    updates = loop.total_steps // config.evaluations

    steps = iter(loop)
    for _ in range(3):  # the first ones allocate
        next(steps)
    started = time.process_time()
    for _ in range(updates):
        next(steps)
    training = time.process_time() - started

    started = time.process_time()
    run_evaluation(
        loop.training.config,
        loop.training.encoder,
        data.held_out,
        data.benchmark,
        accelerator.mixed_precision,
    )
    evaluation = time.process_time() - started
    print(
        f"{updates} updates of {loop.sentences_per_step} sentences: {training:.1f} s; an "
        f"evaluation ({len(data.held_out.pairs)} pairs, {len(data.held_out.sentences)} sentences): "
        f"{evaluation:.1f} s, {evaluation / training:.1%}"
    )


if __name__ == "__main__":
    main()
