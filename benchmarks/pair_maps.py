"""Variants of whitening by pairs, in docs/results/closed-forms.md: centred, and weighted.

    python benchmarks/pair_maps.py FOLDER [--only CORPUS ...] [--jobs 2]

FOLDER holds the corpora as benchmarks/corpora.py makes them. Each variant is fitted on 3,000
training pairs, behind all-MiniLM-L6-v2 in float32. Validation pairs give the scores.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch

from closed_forms import PAGE, VALIDATION
from common import draw, mean_gain, points
from documents import SOURCES
from fine_tuning import on_corpus, pair_scores
from isospace.adaptation.fitting import drop_normalize, through
from isospace.evaluation.pairs import cached
from isospace.operators.fitted_whitening import PairMoments, WhiteningMap
from isospace.statistics.gains import gain
from isospace.system.files import cache_folder
from isospace.system.tables import markdown_table
from isospace.training.prepare import base_encoder

POWER = 0.75
WEIGHT = 1 / 8
"""Power of the weights."""


def plain(moments: PairMoments) -> WhiteningMap:
    """Return the map of `adapt`."""
    return moments.fit(POWER)


def centred(moments: PairMoments) -> WhiteningMap:
    """Return the map of `adapt`, after the mean of all texts is removed."""
    return WhiteningMap(moments.texts.mean, moments.fit(POWER).kernel)


def weighted(moments: PairMoments, mean: bool = False) -> WhiteningMap:
    """Return the map of `adapt` with weights of linear discriminant analysis.

    Directions are those of the largest share of variance between pairs, in the space that is fully
    whitened by pairs. b is the variance between pairs there, where that within pairs is 1; the
    weight is (b / (1 + b)) ** `WEIGHT`.
    """
    kernel = moments.fit(1.0).kernel
    total = kernel.T @ moments.texts.covariance(ddof=0) @ kernel
    within = kernel.T @ moments.within.covariance(ddof=0) @ kernel
    values, axes = torch.linalg.eigh(total - within)
    between = values.clamp(min=0)
    weights = (between / (1 + between)) ** WEIGHT
    whole = moments.fit(POWER).kernel
    back = torch.linalg.pinv(kernel)
    weighting = kernel @ (axes * weights) @ axes.T @ back
    return WhiteningMap(moments.texts.mean if mean else moments.texts.mean * 0, weighting @ whole)


VARIANTS: Mapping[str, Callable[[PairMoments], WhiteningMap]] = {
    "by pairs, as in `adapt`": plain,
    "centred": centred,
    "with weights": weighted,
    "centred, with weights": partial(weighted, mean=True),
}


def main() -> None:
    """Measure every variant on every corpus, and draw the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    os.environ.pop("ISOSPACE_DATA", None)
    measure = partial(gains, folder=options.folder)
    with ProcessPoolExecutor(
        options.jobs, get_context("spawn"), torch.set_num_threads, (1,)
    ) as workers:
        found = dict(zip(options.only, workers.map(measure, options.only), strict=True))
    table = []
    for name in VARIANTS:
        own = [gains_of[name] for gains_of in found.values()]
        row = {"": name, "mean": mean_gain([one[VALIDATION] for one in own])}
        row |= {corpus: f"{one[name][VALIDATION][0]:+.2f}" for corpus, one in found.items()}
        definitions = [one["definitions"][0] for one in own]
        row["definitions"] = f"{sum(definitions) / len(definitions):+.2f}"
        table.append(row)
    if options.only == list(SOURCES):
        draw(PAGE, {"variants": markdown_table(table)})
    print(markdown_table(table))


def gains(corpus: str, folder: Path) -> dict[str, dict[str, Sequence[float]]]:
    """Return variant -> set of pairs -> gain with its interval, in points."""
    shared = on_corpus(corpus, folder)
    encoder = base_encoder(shared.config)
    drop_normalize(encoder)
    encode = cached(encoder, cache_folder())
    cut = cached(encoder, cache_folder(), max_length=shared.config.max_length)
    first, second = shared.fit
    moments = PairMoments.from_pairs(
        torch.from_numpy(cut.queries(first)), torch.from_numpy(cut.documents(second))
    )
    found: dict[str, dict[str, Sequence[float]]] = {}
    for name, fit in VARIANTS.items():
        mapped = through(encode, fit(moments))
        found[name] = {
            one: points(gain(pair_scores(mapped, shared.sets[one]), shared.base[one]))
            for one in (VALIDATION, "definitions")
        }
    return found


if __name__ == "__main__":
    main()
