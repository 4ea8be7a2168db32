"""docs/results/placebo.md: what the verdict says where the truth is known.

    python benchmarks/placebo.py STS [--record] [--samples 3000]

Real differences, without training: docstring pairs of the installed packages before and after
whitening, and the reciprocal ranks and cosines of the finished comparison. Weights on the items
(exponential tilting) make the true gain exactly what is wanted and keep ties, tails and skew;
samples drawn with these weights go through the library's own functions. STS is the folder of the
STS sets.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cell_archive import unpack
from common import draw
from isospace.config import CorpusConfig
from isospace.corpus.corpus import load_corpus
from isospace.encoders.loading import load_encoder
from isospace.evaluation.retrieval import RetrievalScores, Targets
from isospace.operators.fitted_whitening import Moments, Whitening
from isospace.operators.nearest import product_blocks, unit_rows
from isospace.statistics.gains import Gain, Scores, gain, mean_scores, standard_error
from isospace.statistics.selection import SelectedAmong, best_other, best_position, gain_of_selected
from isospace.statistics.verdict import VerdictKind, kind_of
from isospace.system.files import cache_folder, write_text
from isospace.system.tables import markdown_table
from isospace.training.run import Run

HERE = Path(__file__).parent.parent
PAGE = HERE / "docs" / "results" / "placebo.md"
CELLS = HERE / "docs" / "results" / "comparison-cells.npz.xz"
RECORD = HERE / "tests" / "statistics" / "differences.npz"

SIZES = (10, 20, 50, 100, 200, 500, 1000, 5000)
FEWER = {1000: 2, 5000: 8}
"""Of large samples a part of the others' number will do."""
LARGE = 50
"""From this size on a row's samples are also pooled."""
TIES = (0.54, 0.93)
CLUSTERS = (5, 10)
SHARED = 0.2
"""Correlation of two items of a cluster."""
CANDIDATES = 20
ADAPTED = VerdictKind.ADAPTED.value
BOUNDS = {"adapted": 0.025, "coverage": 0.93, "bias": 0.1}
ERRORS = 3.0
"""How many simulation errors a share may be beyond its bound before the bound counts as broken."""

Floats = NDArray[np.float64]
Vectors = NDArray[Any]


@dataclass(frozen=True)
class Population:
    """Items to draw from: their differences (item, candidate) and how likely each is, (item,)."""

    values: Floats
    weights: Floats

    @property
    def truth(self) -> Floats:
        """The true gain of each candidate."""
        return np.asarray(self.weights @ self.values)


@dataclass
class Share:
    """How often something happened."""

    count: int
    of: int

    @property
    def value(self) -> float:
        """0 to 1."""
        return self.count / max(1, self.of)

    @property
    def error(self) -> float:
        """Its standard error in the simulation."""
        share = min(max(self.value, 1 / max(1, self.of)), 1 - 1 / max(2, self.of))
        return float(np.sqrt(share * (1 - share) / max(1, self.of)))

    def __str__(self) -> str:
        return f"{100 * self.value:.2f} ± {100 * self.error:.2f}"


@dataclass
class Checks:
    """What was held against the bounds: (bound, where, value, simulation error)."""

    made: list[tuple[str, str, float, float]] = field(default_factory=list)

    def share(self, bound: str, where: str, share: Share) -> None:
        """A share that may be at most its bound, or at least where it is coverage."""
        self.made.append((bound, where, share.value, share.error))

    def verdicts(self, where: str, cell: Mapping[str, Share]) -> None:
        """Of samples in which nothing changed."""
        self.share("adapted", where, cell[VerdictKind.ADAPTED.value])
        self.share("coverage", where, cell["coverage"])

    def table(self) -> str:
        """Each bound with its worst cell, and every cell that is beyond it for certain."""
        lines, broken = [], []
        for bound, limit in BOUNDS.items():
            sign = -1 if bound == "coverage" else 1
            of_bound = [check for check in self.made if check[0] == bound]
            _, where, value, error = max(of_bound, key=lambda check: sign * check[2])
            beyond = [c for c in of_bound if sign * (c[2] - limit) > ERRORS * c[3]]
            broken += [f"{name}, {_as_bound(bound, v, e)}" for _, name, v, e in beyond]
            worst = f"{_as_bound(bound, value, error)} ({where})"
            lines.append([_NAMES[bound], _as_bound(bound, limit), len(of_bound), worst])
        header = ["", "bound", "cells", "worst cell"]
        return rows(header, lines) + "".join(f"\nBeyond: {where}.\n" for where in broken)


_NAMES = {
    "adapted": 'false "adapted", at most',
    "coverage": "coverage of the 95 % interval, at least",
    "bias": "bias after selection in standard errors, at most",
}


def _as_bound(bound: str, value: float, error: float | None = None) -> str:
    unit, scale = ("", 1) if bound == "bias" else (" %", 100)
    digits = 3 if bound == "bias" else 2
    spread = "" if error is None else f" ± {scale * error:.{digits}f}"
    return f"{scale * value:.{digits}f}{spread}{unit}"


@dataclass(frozen=True)
class Docstrings:
    """Vectors of the pairs, (pair, dim), and the number of each pair's module."""

    first: Vectors
    second: Vectors
    modules: NDArray[np.int64]

    def whitened(self, power: float) -> tuple[Vectors, Vectors]:
        """Both sides through a map fitted on them."""
        both = torch.from_numpy(np.concatenate([self.first, self.second]))
        fitted = Whitening().fit(Moments.from_vectors(both), power)
        found = fitted(both.double()).numpy()
        return found[: len(self.first)], found[len(self.first) :]


def main() -> None:
    """Make the differences, then one table after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sts", type=Path)
    parser.add_argument("--record", action="store_true", help="write what the short test needs")
    parser.add_argument("--samples", type=int, default=3000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    docstrings = embed_docstrings()
    start, runs = archive(options.sts)
    print(f"items after {time.perf_counter() - began:.0f} s", flush=True)
    samples = options.samples
    powers = [docstrings.whitened(power) for power in np.linspace(0.05, 1.0, CANDIDATES)]
    before = rank(docstrings.first, docstrings.second).reciprocal_ranks
    differences = np.stack([rank(*pair).reciprocal_ranks - before for pair in powers], axis=1)
    whitened = differences[:, CANDIDATES // 2 - 1]
    trained = {name: seeds["MRR"] - start["MRR"] for name, seeds in runs.items()}
    if options.record:
        np.savez_compressed(
            RECORD,
            docstrings=whitened.astype(np.float32),
            modules=docstrings.modules.astype(np.int16),
            simcse=trained["simcse++"][0].astype(np.float32),
        )

    found: dict[str, Any] = {}
    parts: dict[str, str] = {"bounds": ""}
    checks = Checks()

    def section(name: str, work: Callable[[], tuple[str, Any]]) -> None:
        parts[name], found[name] = work()
        print(f"{name}: {time.perf_counter() - began:.0f} s\n{parts[name]}", flush=True)

    real = {
        "docstrings": whitened,
        "docstrings, signs turned": -whitened,
        "iso": trained["iso"][0],
        "simcse++": trained["simcse++"][0],
        "simcse++, signs turned": -trained["simcse++"][0],
    }
    section("nothing", lambda: nothing(real, docstrings.modules, trained, samples, checks))
    section("skewed", lambda: skewed(real, samples))
    found["seeds"] = seeds(trained, samples // 2, checks)
    found["choosing"] = choosing(differences, trained, samples, checks)
    section("gains", lambda: true_gains(whitened, samples, checks))
    found["shares"] = shares(docstrings, start, runs)
    parts["bounds"] = checks.table()
    print(parts["bounds"])
    minutes = (time.perf_counter() - began) / 60
    parts["machine"] = (
        f"{len(docstrings.first):,} docstring pairs of {docstrings.modules.max() + 1:,} modules; "
        f"{samples:,} samples a cell; {minutes:.0f} minutes of one core of {_processor()}.\n"
    )
    draw(PAGE, parts)
    write_text(PAGE.with_suffix(".json"), json.dumps(found, indent=1) + "\n")


def _processor() -> str:
    names = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return names[0] if names else platform.processor()


# ---- real differences ----


def embed_docstrings() -> Docstrings:
    """Summaries and next paragraphs of the installed packages, by all-MiniLM-L6-v2."""
    pairs = load_corpus(CorpusConfig(corpus=("docstrings",)), cache_folder()).pairs
    encoder = load_encoder("minilm")
    first, second = zip(*(*pairs.dev, *pairs.test), strict=True)
    groups = np.unique([*pairs.dev_groups, *pairs.test_groups], return_inverse=True)[1]
    return Docstrings(
        np.asarray(encoder.embed(list(first))), np.asarray(encoder.embed(list(second))), groups
    )


def archive(sts: Path) -> tuple[dict[str, Floats], dict[str, dict[str, Floats]]]:
    """Items of the base model (item,), and of each objective (seed, item), of the comparison."""
    items: dict[str, list[dict[str, Floats]]] = {}
    with TemporaryDirectory() as folder:
        unpack(CELLS, Path(folder), Path(), sts)
        runs = [Run(path) for path in sorted(Path(folder).glob("*/seed-*"))]
        for run in runs:
            items.setdefault(run.folder.parent.name, []).append(run.items("after"))
        start = runs[0].items("before")
    stacked = {
        objective: {column: np.stack([seed[column] for seed in seeds]) for column in seeds[0]}
        for objective, seeds in items.items()
    }
    return start, stacked


def rank(
    first: Vectors, second: Vectors, groups: NDArray[np.int64] | None = None
) -> RetrievalScores:
    """Each first vector ranks all second ones."""
    places = np.arange(len(first))
    halves = (places if groups is None else groups) % 2 == 1
    names, nowhere = tuple(map(str, places)), np.full(len(places), -1)
    targets = Targets(names, places, None, nowhere, halves, bearers=places, described="")
    return targets.rank(product_blocks(unit_rows(first), unit_rows(second)))


# ---- truth that is known ----


def tilted(values: Floats, target: float | Sequence[float] = 0.0) -> Population:
    """Weights closest to equal ones (in entropy) under which the true gains are `target`."""
    values = values.reshape(len(values), -1)
    off = values - np.asarray(target)
    slope = np.zeros(off.shape[1])

    def state(slope: Floats) -> tuple[float, Floats]:
        power = off @ slope
        weights = np.exp(power - power.max())
        return float(power.max() + np.log(weights.sum())), weights / weights.sum()

    height, weights = state(slope)
    for _ in range(300):
        gradient = weights @ off
        if np.abs(gradient).max() < 1e-9:
            return Population(values, weights)
        curvature = (off * weights[:, None]).T @ off - np.outer(gradient, gradient)
        step = np.linalg.lstsq(curvature, gradient, rcond=1e-12)[0]
        size = 1.0
        while size > 1e-9 and state(slope - size * step)[0] > height:
            size /= 2
        slope = slope - size * step
        height, weights = state(slope)
    raise SystemExit("no weights give these gains")


def with_ties(population: Population, share: float) -> Population:
    """The same with a share of items that do not change; where the true gain is zero."""
    equal = population.values[:, 0] == 0
    weights = np.where(equal, 0.0, population.weights)
    ties = equal / equal.sum()
    return Population(population.values, (1 - share) * weights / weights.sum() + share * ties)


def drawn(
    random: np.random.Generator, population: Population, size: int, cluster: int, samples: int
) -> Iterator[tuple[Floats, NDArray[np.int64]]]:
    """Samples: values (candidate, item) and groups; in a cluster two items correlate at SHARED."""
    groups = np.arange(size) // cluster
    count = len(population.values)
    step = max(1, 1_000_000 // size)
    for begin in range(0, samples, step):
        many = min(step, samples - begin)
        own = random.choice(count, (many, size), p=population.weights)
        if cluster > 1:
            common = random.choice(count, (many, groups[-1] + 1), p=population.weights)
            takes = random.random((many, size)) < np.sqrt(SHARED)
            own = np.where(takes, common[:, groups], own)
        for places in own:
            yield population.values[places].T, groups


def judged(values: Floats, groups: NDArray[np.int64]) -> Gain:
    """The gain of differences (seed, item) over a start of zeros."""
    return gain(mean_scores(values, groups), mean_scores(np.zeros_like(values[:1]), groups))


def tally(samples: Iterator[Gain], truth: float = 0.0) -> dict[str, Share]:
    """How often each verdict is given, and how often the interval holds the truth."""
    counts: Counter[str] = Counter()
    for found in samples:
        counts["n"] += 1
        counts[kind_of(found).value] += 1
        counts["coverage"] += found.low <= truth <= found.high
        counts["shown above"] += found.low > truth
    names = [*(kind.value for kind in VerdictKind), "coverage", "shown above"]
    return {name: Share(counts[name], counts["n"]) for name in names}


def pooled(cells: Sequence[Mapping[str, Share]]) -> dict[str, Share]:
    """Of several cells together."""
    return {
        name: Share(sum(cell[name].count for cell in cells), sum(cell[name].of for cell in cells))
        for name in cells[0]
    }


def as_json(cells: Mapping[Any, Any]) -> dict[str, Any]:
    """Shares as numbers."""
    return {
        str(key): round(value.value, 5) if isinstance(value, Share) else as_json(value)
        for key, value in cells.items()
    }


def rows(header: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    return markdown_table([dict(zip(header, map(str, line), strict=True)) for line in lines])


# ---- the tables ----


def nothing(
    real: Mapping[str, Floats],
    modules: NDArray[np.int64],
    trained: Mapping[str, Floats],
    samples: int,
    checks: Checks,
) -> tuple[str, Any]:
    """False "adapted" and coverage where nothing changed."""
    random = np.random.default_rng(1)
    cells: dict[str, dict[int, dict[str, Share]]] = {
        "sign flips by module, docstrings": {
            size: tally(
                _flipped(random, real["docstrings"], modules, size, samples // FEWER.get(size, 1))
            )
            for size in SIZES
            if size <= len(modules)
        },
        "A/A, two seeds against two others": {
            size: tally(_same_objective(random, trained, size, samples))
            for size in SIZES
            if size <= 200
        },
    }
    tilts = {name: tilted(values) for name, values in real.items()}
    for name, population in tilts.items():
        cells[f"tilted, {name}"] = _by_size(random, [population], 1, samples)
    for share in TIES:
        populations = [with_ties(population, share) for population in tilts.values()]
        cells[f"tilted, {100 * share:.0f} % ties"] = _by_size(random, populations, 1, samples)
    for cluster in CLUSTERS:
        populations = list(tilts.values())
        cells[f"tilted, clusters of {cluster}"] = _by_size(random, populations, cluster, samples)
    for share in TIES:
        populations = [with_ties(population, share) for population in tilts.values()]
        cells[f"tilted, {100 * share:.0f} % ties, clusters of 5"] = _by_size(
            random, populations, 5, samples
        )
    lines = []
    for name, by_size in cells.items():
        large = pooled([cell for size, cell in by_size.items() if size >= LARGE])
        lines.append([name, large[ADAPTED], large["coverage"]])
    table = rows(["", 'false "adapted", %', "coverage, %"], lines)
    for name, by_size in cells.items():
        for size, cell in by_size.items():
            checks.verdicts(f"{name}, n = {size:,}", cell)
    return table, as_json(cells)


def _percent(by_size: Mapping[int, Mapping[str, Share]], sizes: Sequence[int]) -> list[str]:
    """Return the shares of false "adapted" of some sizes."""
    return [f"{100 * by_size[n][ADAPTED].value:.1f}" for n in sizes]


def _by_size(
    random: np.random.Generator, populations: Sequence[Population], cluster: int, samples: int
) -> dict[int, dict[str, Share]]:
    return {
        size: pooled(
            [
                tally(
                    judged(*sample)
                    for sample in drawn(
                        random,
                        population,
                        size,
                        cluster,
                        samples // len(populations) // FEWER.get(size, 1),
                    )
                )
                for population in populations
            ]
        )
        for size in SIZES
        if size // cluster >= 2
    }


def _flipped(
    random: np.random.Generator,
    values: Floats,
    modules: NDArray[np.int64],
    size: int,
    samples: int,
) -> Iterator[Gain]:
    """Whole modules until there are `size` pairs, the sign of each module by chance."""
    of_module = np.split(np.argsort(modules, kind="stable"), np.cumsum(np.bincount(modules))[:-1])
    for _ in range(samples):
        taken: list[NDArray[np.int64]] = []
        left = size
        for module in random.permutation(len(of_module)):
            taken.append(of_module[module][:left])
            left -= len(taken[-1])
            if not left:
                break
        groups = np.repeat(np.arange(len(taken)), [len(part) for part in taken])
        signs = random.choice([-1.0, 1.0], len(taken))[groups]
        yield judged((signs * values[np.concatenate(taken)])[None], groups)


def _same_objective(
    random: np.random.Generator, trained: Mapping[str, Floats], size: int, samples: int
) -> Iterator[Gain]:
    """Two seeds of one objective against two others, on items drawn by chance."""
    objectives = list(trained.values())
    for _ in range(samples):
        values = objectives[random.integers(len(objectives))]
        order = random.permutation(len(values))
        items = random.choice(values.shape[1], size, replace=False)
        groups = np.arange(size)
        yield gain(
            mean_scores(values[order[:2]][:, items], groups),
            mean_scores(values[order[2:4]][:, items], groups),
        )


def skewed(real: Mapping[str, Floats], samples: int) -> tuple[str, Any]:
    """A case made to break it: small changes are gains, large ones losses."""
    random = np.random.default_rng(2)
    shown = (20, 50, 200, 1000, 5000)
    lines, cells = [], {}
    for name in ("docstrings", "iso"):
        sizes = np.abs(real[name])
        cuts = np.unique(sizes[sizes > 0])
        cut = min(cuts, key=lambda cut: abs(np.where(sizes < cut, sizes, -sizes).sum()))
        population = tilted(np.where(sizes < cut, sizes, -sizes))
        cells[name] = _by_size(random, [population], 1, samples // 2)
        lines.append([name, *_percent(cells[name], shown)])
    return rows(["", *(f"{size:,}" for size in shown)], lines), as_json(cells)


def seeds(trained: Mapping[str, Floats], samples: int, checks: Checks) -> Any:
    """Encoders of two to five seeds; the seeds' and the items' chances are those of `simcse`."""
    random = np.random.default_rng(3)
    values = trained["simcse"]
    population = tilted(values.mean(0))
    residual = values - values.mean(0) - (values.mean(1) - values.mean())[:, None]
    sd = float(values.mean(1).std(ddof=1))
    cells = {}
    for count in range(2, 6):
        for size in (50, 100, 400):

            def worlds(count: int = count, size: int = size) -> Iterator[Gain]:
                for _ in range(samples):
                    items = random.choice(len(population.weights), size, p=population.weights)
                    rows_of = random.integers(len(values), size=(count, 1))
                    signs = random.choice([-1.0, 1.0], (count, size))
                    after = population.values[items, 0] + signs * residual[rows_of, items]
                    yield judged(after + random.normal(0, sd, (count, 1)), np.arange(size))

            cell = cells[f"{count} seeds, {size} items"] = tally(worlds())
            checks.verdicts(f"{count} seeds, {size} items", cell)
    return as_json(cells)


def choosing(powers: Floats, trained: Mapping[str, Floats], samples: int, checks: Checks) -> Any:
    """The best of 20 candidates: none gains, or they gain what they really do."""
    random = np.random.default_rng(4)
    runs = np.concatenate(list(trained.values()))[:CANDIDATES].T
    populations = {
        "20 powers, none gains": tilted(powers),
        "20 powers as they are": Population(powers, np.full(len(powers), 1 / len(powers))),
        "20 runs, all alike": tilted(runs),
    }
    found: dict[str, Any] = {}
    for name, population in populations.items():
        for how, size, count in (
            ("split", 600, samples // 2),
            ("split", 1500, samples // 2),
            ("all items", 100, samples // 2),
            ("all items", 300, samples // 2),
        ):
            cell = _chosen(random, population, size, how == "split", count)
            found[f"{name}, {how}, {size}"] = {
                "adapted": cell[0].value,
                "coverage": cell[1].value,
                "bias": cell[2],
                "bias error": cell[3],
            }
            where = f"{name}, {how}, n = {size:,}"
            checks.share("coverage", where, cell[1])
            checks.made.append(("bias", where, abs(cell[2]), cell[3]))
            if np.allclose(population.truth, 0, atol=1e-6):
                checks.share("adapted", where, cell[0])
    return found


def _chosen(
    random: np.random.Generator, population: Population, size: int, split: bool, samples: int
) -> tuple[Share, Share, float, float]:
    """False adapted, coverage, and (reported - true) in standard errors, with its error."""
    adapted, covered = Share(0, samples), Share(0, samples)
    off, errors = [], []
    truth = np.concatenate([[0.0], population.truth])
    third = size // 3
    for values, groups in drawn(random, population, size, 1, samples):
        everything = np.concatenate([np.zeros((1, size)), values])
        if split:
            place = told = best_position([float(mean) for mean in everything[:, :third].mean(1)])
            reported = judged(everything[[place], third:], groups[third:])
        else:
            scores = [mean_scores(row[None], groups) for row in everything]
            place, told = best_position(scores), best_other(scores)
            reported = gain_of_selected(SelectedAmong(scores, told))
        adapted.count += bool(place) and kind_of(reported) is VerdictKind.ADAPTED
        covered.count += reported.low <= truth[told] <= reported.high
        off.append(reported.mean - truth[told])
        if told:
            judges = everything[told, third:] if split else everything[told]
            errors.append(judges.std(ddof=1) / np.sqrt(len(judges)))
    bias, spread = float(np.mean(off)), float(np.std(off, ddof=1)) / np.sqrt(samples)
    return adapted, covered, bias / np.mean(errors), spread / np.mean(errors)


def true_gains(values: Floats, samples: int, checks: Checks) -> tuple[str, Any]:
    """The verdicts on gains that are there."""
    random = np.random.default_rng(6)
    kinds = [kind.value for kind in VerdictKind if kind is not VerdictKind.KEEP_BASE]
    lines, found = [], {}
    populations = [tilted(values, truth) for truth in (0.008, 0.01, 0.0281)]
    # With most of the items unchanged: so few changes that a sample may have none of the large.
    populations.append(with_ties(tilted(values, 0.03), TIES[1]))
    for population in populations:
        truth = float(population.truth[0])
        for size in (20, 50, 100, 200, 500, 2000):
            gains = [judged(*sample) for sample in drawn(random, population, size, 1, samples)]
            cell = tally(iter(gains), truth)
            read = [found.mean for found in gains if kind_of(found) is VerdictKind.ADAPTED]
            reads = f"{100 * np.mean(read):.2f}" if len(read) >= 20 else "-"
            ties = population.weights[population.values[:, 0] == 0].sum()
            line = [f"{100 * truth:.2f}", f"{size:,}"]
            checks.share(
                "coverage",
                f"true gain {line[0]}, {100 * ties:.0f} % ties, n = {size}",
                cell["coverage"],
            )
            if round(truth, 4) in (0.008, 0.0281) and size in (50, 200, 2000):
                lines.append([*line, *(f"{100 * cell[kind].value:.1f}" for kind in kinds), reads])
            found[f"{truth:.4f}, {size}"] = as_json(cell) | {"reads": reads}
    return rows(["true gain", "n", *kinds, "reported gain"], lines), found


def shares(
    docstrings: Docstrings, start: Mapping[str, Floats], runs: Mapping[str, Mapping[str, Floats]]
) -> dict[str, float]:
    """Return a gain's standard error over that of the base model's own score."""
    found: dict[str, Any] = {}
    groups = docstrings.modules
    base = _scores(rank(docstrings.first, docstrings.second, groups), groups)
    for power in (0.0, 0.1, 0.25, 0.5, 1.0):
        after = _scores(rank(*docstrings.whitened(power), groups), groups)
        found[f"docstrings, power {power:g}"] = standard_error(after, base) / standard_error(base)
    items = np.arange(len(start["MRR"]))
    before = mean_scores(start["MRR"][None], items)
    for name, seeds_of in runs.items():
        share = standard_error(mean_scores(seeds_of["MRR"][:1], items), before) / standard_error(
            before
        )
        found[name] = share
    return found


def _scores(ranks: RetrievalScores, groups: NDArray[np.int64]) -> Scores:
    return mean_scores(ranks.reciprocal_ranks[None], groups, ranks.displacement[:, None])


if __name__ == "__main__":
    main()
