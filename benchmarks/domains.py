"""docs/results/domains.md and closed-forms.md: what `adapt` gains on eight corpora.

    python benchmarks/domains.py FOLDER [--only CORPUS ...] [--rows ROW ...] [--seeds 3] [--jobs 2]
                                        [--sts FOLDER] [--base all-mpnet-base-v2]
    python benchmarks/domains.py --draw

FOLDER holds the corpora as benchmarks/corpora.py makes them, STS the seven sets in SentEval's
layout. A base model other than minilm is a folder, such as benchmarks/mpnet.py makes. Every row is
measured in a process of its own, whose scores of all pairs go to `--output`, as do the runs of
`adapt`; the command goes on where it was stopped. What the pages need of them is in
docs/results/domains.json, from which --draw draws the pages again.

All rows of a corpus that are trained see as many tokens, if their name does not say another number.
Test pairs are of a relation of the documents that trains none of them. All rows are in float32.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import closed_forms
from closed_forms import HARD, TEST, VALIDATION
from common import points
from documents import PRECISION, SOURCES, TOKENS, on_one_text, pairs, published
from domains_page import ADAPT, MNRL, MNRL_WHITENED, draw_page
from isospace.adaptation.adapt import adapt
from isospace.adaptation.candidates import (
    PAIR_MAPS,
    SHARES,
    TEXT_MAPS,
    THROUGH,
    CandidateEncoders,
    candidates,
)
from isospace.adaptation.fitting import FITTED_ON, drop_normalize, through
from isospace.adaptation.results import read_candidates
from isospace.config import AdaptConfig, TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.evaluation.benchmark import hard_pairs
from isospace.evaluation.hybrid import rank_pairs
from isospace.evaluation.other_text import OtherText
from isospace.evaluation.pairs import PromptedEncoders, TextPairs, cached
from isospace.evaluation.retrieval import DISPLACEMENT, RetrievalScores, evaluate_retrieval
from isospace.evaluation.sts import load_sts_data
from isospace.operators.fitted_whitening import PairMoments
from isospace.statistics.gains import Scores, gain, mean_scores
from isospace.system.files import cache_folder, write_text
from isospace.training.examples import Examples
from isospace.training.prepare import base_encoder, load_data
from isospace.training.results import RunResults
from isospace.training.run import Run, begun
from isospace.training.train import train
from peer_recipes import train_peer

RECORD = Path(__file__).parent.parent / "docs" / "results" / "domains.json"
RUNS = Path("runs/domains")
BASE, BM25, HYBRID_BASE = "base model", "BM25", "base model + BM25"
ADAPT_TOKENS = {
    "adapt, no training": 1,
    ADAPT: TOKENS,
    "adapt, 2,000,000 tokens": 2_000_000,
}
"""Row -> tokens to fine-tune on: 200,000 in six minutes of two slow cores, 2,000,000 in thirty."""
PAPERS = ("simcse", "whitenedcse", "scd-published", "simcse++-published")
"""The objectives of the three papers."""
FEWEST_SEEDS = 3
"""Two seeds give almost no interval, so the first alone is shown."""
ROUNDED = 0.01
"""Share of ranks below which two models are the same model on two machines."""
CLOSED = "closed forms"
"""The unit of work that measures all rows that train nothing."""


@dataclass(frozen=True)
class Unit:
    """What one process measures.

    Attributes:
        corpus: a name in `SOURCES`.
        row: of the tables, or `CLOSED`.
        seed: of the training.
    """

    corpus: str
    row: str
    seed: int = 0


def main() -> None:
    """Measure what is missing; then draw the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--rows", nargs="+", default=[CLOSED, *ADAPT_TOKENS, MNRL, *PAPERS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--sts", type=Path)
    parser.add_argument("--base", default="minilm")
    parser.add_argument("--tokens", type=int, help="fewer, to try the command")
    parser.add_argument("--output", type=Path, default=RUNS)
    options = parser.parse_args()
    if options.folder is None and not options.draw:
        parser.error("give FOLDER, or --draw")
    # STS is measured, and selects nothing.
    os.environ.pop("ISOSPACE_DATA", None)
    if not options.draw:
        _measure_missing(options)
        summarise(options.output, Path(options.base).name)
    draw_page(json.loads(RECORD.read_text()))


def _measure_missing(options: argparse.Namespace) -> None:
    """Measure every unit whose scores are not there, several at a time."""
    units = [
        Unit(corpus, row, seed)
        for row in options.rows
        for seed in range(1 if row in (CLOSED, "adapt, no training") else options.seeds)
        for corpus in options.only
    ]
    folder = options.output / Path(options.base).name
    missing = [unit for unit in units if not _path(folder, unit).exists()]
    failed = []
    with ProcessPoolExecutor(options.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        work = {pool.submit(_unit, unit, folder, options): unit for unit in missing}
        for done, future in enumerate(as_completed(work), 1):
            unit = work[future]
            try:
                words = f"{future.result():.0f} s"
            except Exception:
                failed.append(unit)
                words = traceback.format_exc()
            print(time.strftime("%H:%M:%S"), f"{done}/{len(missing)}", unit, words, flush=True)
    if failed:
        sys.exit(f"{len(failed)} of {len(missing)} failed: {failed}")


def _path(folder: Path, unit: Unit) -> Path:
    name = f"{unit.row} {unit.seed}".replace(",", "").replace(" ", "-")
    return folder / unit.corpus / f"{name}.json"


def _unit(unit: Unit, folder: Path, options: argparse.Namespace) -> float:
    """Measure one unit, and write what it found; return its seconds."""
    started = time.monotonic()
    torch.set_num_threads(1)
    path = _path(folder, unit)
    path.parent.mkdir(parents=True, exist_ok=True)
    study = _Study(unit, options, path.with_suffix(""))
    arrays: dict[str, np.ndarray] = {}
    about: dict[str, Any] = {}
    for row, encode, more in study.rows():
        found, own = study.measure(encode)
        arrays |= {f"{row}|{name}": values for name, values in found.items()}
        about[row] = own | more
    np.savez_compressed(path.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
    write_text(path, json.dumps(about, indent=1) + "\n")  # last: it says that all is there
    return time.monotonic() - started


class _Study:
    """One corpus and one base model, as a process reads them."""

    def __init__(self, unit: Unit, options: argparse.Namespace, output: Path) -> None:
        self.unit, self.base, self.output = unit, options.base, output
        self.source, self.folder = SOURCES[unit.corpus], options.folder
        self.tokens = options.tokens
        self.config = self._set(pairs(self.source, self.folder, self.base))
        self.data = load_data(self.config)
        self.sets: dict[str, TextPairs] = {
            TEST: self.data.benchmark.pairs,
            VALIDATION: self.data.held_out.pairs,
            HARD: hard_pairs(self.data.corpus, self.data.held_out),
            **self.data.other_text.test_pairs,
        }
        tasks = load_sts_data(str(options.sts)) if options.sts else {}
        own = OtherText.make(self.data.corpus, (), tasks)
        self.sts = OtherText({}, {}, own.sts, own.known, "")
        self.encoder = base_encoder(self.config)
        drop_normalize(self.encoder)
        self.encode = cached(self.encoder, cache_folder())
        self.weight = self.data.benchmark.select_weight(self.encode, self.data.held_out)

    def _set(self, config: TrainConfig) -> TrainConfig:
        tokens = self.tokens or config.budget[0]
        return replace(config, seed=self.unit.seed, precision=PRECISION, budget=(tokens, "tokens"))

    def measure(self, encode: PromptedEncoders) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Score an encoder on every set, alone and fused with BM25, and on STS."""
        arrays: dict[str, np.ndarray] = {}
        for name, own in self.sets.items():
            found = evaluate_retrieval(encode, own)
            arrays |= _arrays(name, found)
        _, with_bm25 = rank_pairs(encode, self.sets[TEST], self.weight)
        arrays |= _arrays(closed_forms.HYBRID, with_bm25.hybrid) | _arrays(BM25, with_bm25.bm25)
        sts = {name: own.mean for name, own in self.sts.measure(encode).items()}
        return arrays, {"sts": next(iter(sts.values()), None)}

    def rows(self) -> Iterator[tuple[str, PromptedEncoders, dict[str, Any]]]:
        """Give the rows of the unit: their encoders, and what else is known of them."""
        row, started = self.unit.row, time.monotonic()

        def seconds() -> dict[str, Any]:
            return {"seconds": time.monotonic() - started}

        if row == CLOSED:
            groups = {name: own.group_numbers().tolist() for name, own in self.sets.items()}
            yield BASE, self.encode, {"groups": groups, "weight": self.weight}
            for name, encode in closed_forms.rows(
                self.encoder, self.encode, self.data, self.config
            ):
                yield name, encode, {}
        elif row in ADAPT_TOKENS:
            model, more = self._adapted(row, self.output)
            with TemporaryDirectory() as folder:
                yield row, cached(model, Path(folder)), more
        elif row == MNRL:
            with TemporaryDirectory() as folder:
                trained = train_peer(row, self.config, Path(folder, "model"))
                yield (
                    row,
                    cached(load_encoder(str(Path(folder, "model"))), Path(folder)),
                    {"seconds": trained},
                )
                encode, own = self._whitened(Path(folder, "model"), Path(folder))
                yield MNRL_WHITENED, encode, {"seconds": trained + own}
        else:
            config = self._papers()[row]
            with TemporaryDirectory() as folder:
                output = Path(folder, "run")
                run = train(self._set(replace(config, output=output))).run
                own = run.finished.training
                more = seconds() | {
                    "updates": own.steps,
                    "selected by": self._validation(run, Path(folder)),
                }
                yield row, cached(load_encoder(str(run.model_folder)), Path(folder)), more

    def _papers(self) -> Mapping[str, TrainConfig]:
        return on_one_text(self.source, self.folder, self.base) | published(
            self.source, self.folder, self.base
        )

    def _validation(self, run: Run, folder: Path) -> float:
        """Return the validation MRR of the model that a training kept."""
        encode = cached(load_encoder(str(run.model_folder)), folder)
        return evaluate_retrieval(encode, self.data.held_out.pairs).mrr

    def _whitened(self, model: Path, folder: Path) -> tuple[PromptedEncoders, float]:
        """Return a tuned model whitened by pairs, and the seconds of fitting."""
        started = time.monotonic()
        encoder = load_encoder(str(model))
        drop_normalize(encoder)
        corpus = self.data.corpus
        sides = Examples.from_corpus(self.config, corpus).related_texts(FITTED_ON)
        embed = partial(encoder.embed, max_length=self.config.max_length)
        first, second = (
            torch.from_numpy(embed(texts, side=side))
            for texts, side in zip(sides, ("query", "document"), strict=True)
        )
        fitted = PairMoments.from_pairs(first, second).fit(THROUGH.power)
        return through(cached(encoder, folder), fitted), time.monotonic() - started

    def _adapted(self, row: str, output: Path) -> tuple[Encoder, dict[str, Any]]:
        """Run `adapt`, or resume it; return the model, and the facts about its candidates."""
        tokens = ADAPT_TOKENS[row] if self.tokens is None else min(ADAPT_TOKENS[row], self.tokens)
        config = AdaptConfig(
            text=self.source.text(self.folder),
            model=self.base,
            precision=PRECISION,
            seed=self.unit.seed,
            output=output,
            budget=(tokens, "tokens"),
        )
        run = (adapt(resume=output) if begun(output) else adapt(config)).run
        found = read_candidates(output)
        assert found is not None
        about: dict[str, Any] = {
            "seconds": found.seconds,
            "selected": found.selected.name,
            "verdict": run.finished.verdict.text,
            "ships base model": run.finished.ships_base,
            "seed": self.unit.seed,
            "gain": _gain(run.finished),
        }
        if row == ADAPT:
            about["candidates"] = self._candidates(run)
        return load_encoder(str(run.model_folder)), about

    def _candidates(self, run: Run) -> list[dict[str, Any]]:
        """Score every candidate of a search on test pairs, and on validation pairs alone."""
        found = read_candidates(run.folder)
        assert found is not None
        encoders = CandidateEncoders.load(run.config, self.data.corpus)
        if any("fine-tuned" in one.name for one in found.candidates):
            encoders = replace(encoders, trained=encoders.read_trained(run.kept_weights))
        maps = (None, *PAIR_MAPS.tried, *TEXT_MAPS.tried)
        by_name = {one.name: one for one in candidates((0.0, *SHARES), maps)}
        rows = []
        with TemporaryDirectory() as folder:
            encoders = replace(encoders, folder=Path(folder))
            for one in found.candidates:
                encode = encoders.encode(by_name[one.name])
                plain, test = (
                    evaluate_retrieval(encode, self.sets[name]).mrr for name in (VALIDATION, TEST)
                )
                rows.append(
                    {
                        "name": one.name,
                        HARD: one.mrr,
                        VALIDATION: plain,
                        TEST: test,
                        "allowed": one.allowed,
                        "selected": one.name == found.selected.name,
                    }
                )
        return rows


def _gain(results: RunResults) -> list[float]:
    """Return the gain that a run ships, with its interval, in points."""
    found = results.verdict.gain
    return [0.0] * 3 if results.ships_base or found is None else points(found)


def _arrays(name: str, found: RetrievalScores) -> dict[str, np.ndarray]:
    return {name: found.ranks, f"{name}{DISPLACEMENT}": found.displacement}


# What follows needs no encoder: scores to the gains that the pages show.


def summarise(output: Path, base: str) -> None:
    """Put the gains of all measured rows of a base model into the record."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    own = record.setdefault(base, {})
    for folder in sorted(path for path in (output / base).iterdir() if path.is_dir()):
        corpus = folder.name
        if _path(output / base, Unit(corpus, CLOSED)).exists():
            own[corpus] = _merged(own.get(corpus, {}), _Summary(folder).record())
        paths = sorted(folder.glob("adapt-?.json"))
        found = [json.loads(path.read_text())[ADAPT] for path in paths]
        if found:
            seeds = {str(one["seed"]): one["gain"] for one in found}
            own[corpus]["seeds"] = own[corpus].get("seeds", {}) | seeds
            own[corpus]["candidates"] = [one["candidates"] for one in found]
    write_text(RECORD, json.dumps(record, indent=1) + "\n")


def _merged(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Put a corpus' new record into the old one, which keeps rows that were not measured again."""
    found = {key: value for key, value in now.items() if value}  # `adapt` may be missing
    return {**before, **found, "rows": before.get("rows", {}) | now["rows"]}


class _Summary:
    """All rows of a corpus, compared with each other."""

    def __init__(self, folder: Path) -> None:
        self.about: dict[str, list[dict[str, Any]]] = {}
        self._arrays: dict[str, list[Mapping[str, np.ndarray]]] = {}
        for path in sorted(folder.glob("*.json")):
            with np.load(path.with_suffix(".npz")) as file:
                arrays = dict(file)
            for row, about in json.loads(path.read_text()).items():
                self.about.setdefault(row, []).append(about)
                prefix = f"{row}|"
                own = {
                    name.removeprefix(prefix): values
                    for name, values in arrays.items()
                    if name.startswith(prefix)
                }
                self._arrays.setdefault(row, []).append(own)
        for of_row in (self.about, self._arrays):
            for found in of_row.values():
                if len(found) < FEWEST_SEEDS:
                    del found[1:]
        self.groups = self.about[BASE][0]["groups"]
        self.sets = list(self.groups)

    def _scores(self, row: str, name: str) -> Scores:
        """Return the MRR of all seeds of a row on a set."""
        groups = self.groups[TEST if name in (closed_forms.HYBRID, BM25) else name]
        ranks = np.stack([own[name] for own in self._arrays[row]])
        displacement = np.stack([own[f"{name}{DISPLACEMENT}"] for own in self._arrays[row]], axis=1)
        return mean_scores(1 / ranks, np.array(groups), displacement)

    def record(self) -> dict[str, Any]:
        """Return what the pages show."""
        base = {name: self._scores(BASE, name) for name in self.sets}
        hybrid = self._scores(BASE, closed_forms.HYBRID)
        rows: dict[str, Any] = {
            BM25: {TEST: points(gain(self._scores(BASE, BM25), base[TEST]))},
            HYBRID_BASE: {TEST: points(gain(hybrid, base[TEST]))},
        }
        for row in self._arrays:
            if row == BASE:
                continue
            own: dict[str, Any] = {
                name: self._points(row, self._scores(row, name), BASE, base[name])
                for name in self.sets
            }
            fused = self._scores(row, closed_forms.HYBRID)
            own[closed_forms.HYBRID_GAIN] = self._points(row, fused, BASE, hybrid)
            own["hybrid over base"] = points(gain(fused, base[TEST]))
            rows[row] = own | self._known(row)
        return {
            "base": {name: round(100 * own.mean, 3) for name, own in base.items()},
            "pairs": {name: len(own) for name, own in self.groups.items()},
            "groups": len(set(self.groups[TEST])),
            "rows": rows,
            "adapt over": self._over(ADAPT),
            "best paper": self._best_paper(),
        }

    def _points(self, row: str, after: Scores, other: str, before: Scores) -> list[float]:
        """Return a row's gain over another, in points.

        Two rows that both kept the base model are one model, so that no other items can show a
        difference: the gain is 0 without an interval.
        """
        if self._is_base(row) and self._is_base(other):
            return [0.0, 0.0, 0.0]
        return points(gain(after, before))

    def _is_base(self, row: str) -> bool:
        """Return whether all models of a row rank as the base model does.

        Another machine's rounding changes a rank or two where passages tie; training changes many.
        """
        [base] = self._arrays[BASE]
        return all(
            np.mean(own[name] != base[name]) < ROUNDED
            for own in self._arrays[row]
            for name in self.sets
        )

    def _known(self, row: str) -> dict[str, Any]:
        """Return the facts about a row, without its gains."""
        about = self.about[row]
        known: dict[str, Any] = {"seeds": len(about)}
        sts, before = [one["sts"] for one in about], self.about[BASE][0]["sts"]
        if before is not None and None not in sts:
            known["STS"] = round(100 * (float(np.mean(sts)) - before), 3)
        if "seconds" in about[0]:
            known["seconds"] = round(float(np.mean([one["seconds"] for one in about])), 1)
        for name in ("selected", "verdict"):
            if name in about[0]:
                known[name] = [one[name] for one in about]
        return known

    def _over(self, row: str) -> dict[str, list[float]]:
        """Return the gain of a row over every other one."""
        if row not in self._arrays:
            return {}
        mine = self._scores(row, TEST)
        return {
            other: self._points(row, mine, other, self._scores(other, TEST))
            for other in self._arrays
            if other != row
        }

    def _best_paper(self) -> str | None:
        """Return the objective of the papers that the validation pairs select."""
        there = {
            row: np.mean([one["selected by"] for one in self.about[row]])
            for row in PAPERS
            if row in self.about
        }
        return max(there, key=there.__getitem__, default=None)


if __name__ == "__main__":
    main()
