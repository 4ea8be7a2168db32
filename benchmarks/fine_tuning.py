"""docs/results/fine-tuning.md: which ways of fine-tuning pay, with whitening by pairs behind them.

    python benchmarks/fine_tuning.py FOLDER [--only CORPUS ...] [--jobs N] [--seeds N]
    python benchmarks/fine_tuning.py --draw

FOLDER holds the corpora as benchmarks/corpora.py makes them. Every score is of validation pairs;
no test pair is read. docs/results/fine-tuning.json has one record a line, in the order in which
they were measured; a way that is in it already is not measured again. --draw draws the tables of
the page from that file. Several jobs share the one GPU, or the cores, of a machine.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from scipy import special

from common import draw, gain_cell, mean_gain, points
from documents import SOURCES, TOKENS, pairs
from isospace.adaptation.candidates import Weights, merge
from isospace.adaptation.fitting import drop_normalize, fold, through
from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.evaluation.benchmark import hard_pairs
from isospace.evaluation.pairs import PromptedEncoders, TextPairs, cached, remembering
from isospace.evaluation.retrieval import evaluate_retrieval, mrr_scores
from isospace.objectives import RankCSE, SimCSE
from isospace.operators.fitted_whitening import PairMoments, WhiteningMap
from isospace.statistics.gains import Scores, gain
from isospace.system.devices import device_name
from isospace.system.files import cache_folder
from isospace.system.progress import Silent
from isospace.system.tables import markdown_table
from isospace.training.examples import Examples
from isospace.training.loop import Loop
from isospace.training.prepare import Data, base_encoder, load_data, make_accelerator, prepare

PAGE = Path(__file__).parent.parent / "docs" / "results" / "fine-tuning.md"
RECORDS = PAGE.with_suffix(".json")
POWER, FITTED_ON = 0.75, 3_000
SHARES = (0.5, 0.75)
"""Of the way from the base model's weights to the fine-tuned ones."""
HIDDEN = f"{SHARES[0]:g} of the way"
"""How rows begin that the page does not show."""
VALIDATION, OVER_WHITENED = "validation", "over the whitened base model"
BATCH_TOKENS = 1 << 15
"""Tokens that a GPU encodes at once."""
MINED = RankCSE(head="none", temperature=0.05, consistency_weight=0, distillation_weight=0)
"""SimCSE with the texts that were mined for an example among its negatives."""
FOLLOWING = RankCSE(head="none", temperature=0.05, consistency_weight=0)
"""SimCSE that also follows a teacher's ranking."""
UNTRAINED, USUAL = "no fine-tuning", "usual fine-tuning"
ALONE, BEHIND, FITTED_AGAIN = "alone", "then whitened", "matrix fitted again"


@dataclass(frozen=True)
class Way:
    """One way of fine-tuning.

    Attributes:
        changes: settings other than those of the recipe `pairs`.
        tokens: how many times `TOKENS`.
        rate: how many times the recipe's learning rate.
        map: whether the whitening of the base model is put behind it before the training, and
            whether that layer is trained too.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    tokens: float = 1.0
    rate: float = 1.0
    map: Literal["none", "fixed", "trained"] = "none"

    def config(self, base: TrainConfig, tokens: int, seed: int) -> TrainConfig:
        """Return the settings of the training."""
        rate, budget = self.rate * base.learning_rate, (self.tokens * tokens, "tokens")
        return replace(base, learning_rate=rate, budget=budget, seed=seed, **self.changes)


_LARGE = {"pass_tokens": 16_384}
WAYS = {
    UNTRAINED: Way(tokens=0.0),
    USUAL: Way(),
    "through the fixed matrix": Way(map="fixed"),
    "through the matrix, trained too": Way(map="trained"),
    "mined negatives": Way({"objective": MINED, "mined": 1}),
    "batches of 128": Way({"batch_size": 128, **_LARGE}, rate=2**0.5),
    "batches of 256": Way({"batch_size": 256, **_LARGE}, rate=2.0),
    "half the learning rate": Way(rate=0.5),
    "double the learning rate": Way(rate=2.0),
    "twice the tokens, half the learning rate": Way(tokens=2.0, rate=0.5),
    "through the fixed matrix, temperature 0.03": Way(
        {"objective": SimCSE(head="none", temperature=0.03)}, map="fixed"
    ),
    "through the fixed matrix, texts of 32 tokens": Way({"max_length": 32}, map="fixed"),
    "through the fixed matrix, a teacher": Way(
        {"objective": FOLLOWING, "teacher": "base+bm25"}, map="fixed"
    ),
    "through the fixed matrix, a teacher, mined negatives": Way(
        {"objective": FOLLOWING, "teacher": "base+bm25", "mined": 2}, map="fixed"
    ),
    "five times the tokens": Way(tokens=5.0),
    "five times the tokens, batches of 256": Way(
        {"batch_size": 256, **_LARGE}, tokens=5.0, rate=2.0
    ),
    "five times the tokens, through the fixed matrix": Way(tokens=5.0, map="fixed"),
}
"""Name -> way; the first ones are measured first, each on all corpora."""
ON_EACH_CORPUS = (UNTRAINED, USUAL, "through the fixed matrix", *list(WAYS)[-3:])
"""The ways whose gains on each corpus the page shows."""


class Task(NamedTuple):
    """A training, and the rows that it gives; `tokens` are those of a way that changes none."""

    way: str
    corpus: str
    seed: int
    tokens: int
    folder: Path


@dataclass(frozen=True)
class OnCorpus:
    """What all ways share on a corpus: texts, and scores of the base model.

    Attributes:
        fit: the two sides of the pairs on which maps are fitted.
        sets: name -> pairs.
        base: name -> scores of the base model.
        map: whitening by pairs, fitted on the base model.
        whitened: scores of the validation pairs with that map behind the base model.
    """

    config: TrainConfig
    data: Data
    fit: tuple[list[str], list[str]]
    sets: Mapping[str, TextPairs]
    base: Mapping[str, Scores]
    map: WhiteningMap
    whitened: Scores


def main() -> None:
    """Measure what is missing, or draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RECORDS)
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if options.draw:
        _draw(_records(options.output))
        return
    if options.folder is None:
        parser.error("give FOLDER, or --draw")
    os.environ.pop("ISOSPACE_DATA", None)
    # Each job has one core; workers read these when they start.
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = "1"
    known = [(one["way"], one["corpus"], one["seed"]) for one in _records(options.output)]
    tasks = [
        Task(way, corpus, seed, options.tokens, options.folder)
        for seed in range(options.seeds)
        for way in options.ways
        for corpus in options.only
        if (way, corpus, seed) not in known and (way != UNTRAINED or not seed)
    ]
    _measure_all(tasks, options.jobs, options.output)


def _measure_all(tasks: Sequence[Task], jobs: int, output: Path) -> None:
    """Measure in processes of their own; write what each found when it ends."""
    began, failed = time.monotonic(), []
    with ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (1,)) as workers:
        waiting = {workers.submit(_measure, task): task for task in tasks}
        for done in as_completed(waiting):
            task = waiting[done]
            if (error := done.exception()) is not None:
                failed.append(task)
                print(f"{task.way}, {task.corpus}, seed {task.seed}: {error!r}", flush=True)
                continue
            with output.open("a", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(record)}\n" for record in done.result())
            for record in done.result():
                mean, low, high = record[VALIDATION]
                about = f"{record['way']}, {record['row']}, {record['corpus']}"
                took = time.monotonic() - began
                print(f"{took:4.0f} s  {about}: {mean:+.2f} ({low:+.2f} to {high:+.2f})")
            seconds = done.result()[0]["seconds"]
            print(f"{took:4.0f} s  {task.way}, {task.corpus}: {seconds}", flush=True)
    if failed:
        raise SystemExit(f"{len(failed)} of {len(tasks)} failed")


def _records(path: Path) -> list[dict[str, Any]]:
    """Read the records; a line that a kill has torn is left out."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


@functools.cache
def on_corpus(corpus: str, folder: Path) -> OnCorpus:
    """Read a corpus and score the base model; texts and vectors come from the cache."""
    config = pairs(SOURCES[corpus], folder)
    data = load_data(config)
    encoder = base_encoder(config)
    drop_normalize(encoder)
    encode = cached(encoder, cache_folder())
    sets = {VALIDATION: hard_pairs(data.corpus, data.held_out), **data.other_text.validation_pairs}
    fit = Examples.from_corpus(config, data.corpus).related_texts(FITTED_ON)
    own_map = fit_map(cached(encoder, cache_folder(), max_length=config.max_length), fit)
    base = {name: pair_scores(encode, own) for name, own in sets.items()}
    whitened = pair_scores(through(encode, own_map), sets[VALIDATION])
    return OnCorpus(config, data, fit, sets, base, own_map, whitened)


def pair_scores(encode: PromptedEncoders, own: TextPairs) -> Scores:
    """Return the MRR of an encoder on pairs."""
    return mrr_scores(own, evaluate_retrieval(encode, own))


def fit_map(encode: PromptedEncoders, fit: tuple[list[str], list[str]]) -> WhiteningMap:
    """Fit whitening by pairs on an encoder's vectors."""
    first, second = encode.queries(fit[0]), encode.documents(fit[1])
    return PairMoments.from_pairs(torch.from_numpy(first), torch.from_numpy(second)).fit(POWER)


def _encodes(encoder: Encoder, max_length: int | None = None) -> PromptedEncoders:
    """Encode with the weights that the encoder has now, each text once."""
    many = {"batch_tokens": BATCH_TOKENS} if encoder.device.type == "cuda" else {}
    embed = partial(encoder.embed, max_length=max_length, **many)
    return remembering(PromptedEncoders.of_prompts(encoder.prompts, embed))


def _measure(task: Task) -> list[dict[str, Any]]:
    """Train in one way on one corpus, and score the rows that this gives."""
    began = time.monotonic()
    on, way = on_corpus(task.corpus, task.folder), WAYS[task.way]
    seconds = {"corpus": time.monotonic() - began}
    updates, found = 0, []
    if task.way == UNTRAINED:
        encoder = base_encoder(on.config)
        drop_normalize(encoder)
        encode = cached(encoder, cache_folder())
        found.append(_record(on, BEHIND, through(encode, on.map)))
    else:
        loop = _train(on, way, task, seconds)
        updates, began = loop.step, time.monotonic()
        found += [_record(on, row, encode) for row, encode in _rows(on, way, task.way, loop)]
        seconds["measuring"] = time.monotonic() - began
    about = {
        "corpus": task.corpus,
        "way": task.way,
        "seed": task.seed,
        "tokens": int(way.tokens * task.tokens),
        "updates": updates,
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "machine": device_name(),
    }
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return [{**about, **row} for row in found]


def _train(on: OnCorpus, way: Way, task: Task, seconds: dict[str, float]) -> Loop:
    """Train, and note how long it took; the last weights are kept."""
    began = time.monotonic()
    config = way.config(on.config, task.tokens, task.seed)
    with TemporaryDirectory() as folder:
        if way.map != "none":
            encoder = base_encoder(config)
            fold(encoder, on.map)
            encoder.model.save(folder)
            config = replace(config, model=folder)
        _, loop = prepare(config, make_accelerator(config), Silent(), on.data)
    if way.map == "fixed":
        for parameter in loop.training.encoder.model[-2].parameters():
            parameter.requires_grad_(False)  # without a gradient the optimizer leaves it alone
    loop.total_steps = max(1, int(way.tokens * task.tokens / loop.tokens_per_step))
    seconds["preparing"] = time.monotonic() - began
    began = time.monotonic()
    for _ in loop:
        pass
    seconds["training"] = time.monotonic() - began
    return loop


def _rows(on: OnCorpus, way: Way, name: str, loop: Loop) -> Iterator[tuple[str, PromptedEncoders]]:
    """Give the fine-tuned encoder without a map and with one, or with others in its place."""
    encoder, longest = loop.training.encoder, on.config.max_length
    drop_normalize(encoder)
    encode = _encodes(encoder)
    yield ALONE, encode
    yield BEHIND, through(encode, fit_map(_encodes(encoder, longest), on.fit))
    if way.map != "none":
        encoder.model.pop(-1)
        encode = _encodes(encoder)
        yield FITTED_AGAIN, through(encode, fit_map(_encodes(encoder, longest), on.fit))
    if name == USUAL:
        tuned: Weights = {n: x.detach().cpu() for n, x in encoder.model.state_dict().items()}
        start = base_encoder(on.config).model.state_dict()
        for share in SHARES:
            encoder.model.load_state_dict(merge(start, tuned, share))
            encode = _encodes(encoder)
            yield f"{share:g} of the way", encode
            mapped = through(encode, fit_map(_encodes(encoder, longest), on.fit))
            yield f"{share:g} of the way, {BEHIND}", mapped


def _record(on: OnCorpus, row: str, encode: PromptedEncoders) -> dict[str, Any]:
    """Return the gains of a row over the base model, and over the whitened base model."""
    scores = {name: pair_scores(encode, own) for name, own in on.sets.items()}
    gains = {name: points(gain(own, on.base[name])) for name, own in scores.items()}
    over = points(gain(scores[VALIDATION], on.whitened))
    return {"row": row, **gains, OVER_WHITENED: over}


def _draw(records: Sequence[Mapping[str, Any]]) -> None:
    """Draw the tables: means over the corpora, and every corpus."""
    rows: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for record in records:
        of_row = rows.setdefault((record["way"], record["row"]), {})
        of_row.setdefault(record["corpus"], []).append(record)
    ordered = {
        key: rows[key]
        for way in WAYS
        for key in rows
        if key[0] == way and not key[1].startswith(HIDDEN)
    }
    now = {c: _mean(own, VALIDATION)[0] for c, own in rows.get((USUAL, BEHIND), {}).items()}
    means: dict[str, dict[str, str]] = {}
    corpora: list[dict[str, str]] = []
    for (way, measured), found in ordered.items():
        if measured in (ALONE, BEHIND) and (way, FITTED_AGAIN) in rows:
            continue
        share = measured.partition(",")[0] if measured.startswith("0") else ""
        name = f"{way}, {share}" if share else way
        whitened = measured.endswith((BEHIND, FITTED_AGAIN))
        line = means.setdefault(name, {"way": name, ALONE: ""})
        if whitened:
            line |= _over_corpora(found, now)
        else:
            line[ALONE] = mean_gain([_mean(own, VALIDATION) for own in found.values()]).split()[0]
        if whitened and way in ON_EACH_CORPUS:
            gains = {c: f"{_mean(own, VALIDATION)[0]:+.2f}" for c, own in found.items()}
            corpora.append({"way": name, **{c: gains.get(c, "") for c in SOURCES}})
    draw(PAGE, {"means": markdown_table(list(means.values())), "corpora": markdown_table(corpora)})


def _mean(records: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """Return the mean over the seeds of a gain and of its ends."""
    mean: list[float] = np.mean([record[name] for record in records], axis=0).tolist()
    return mean


def _over_corpora(
    found: Mapping[str, Sequence[Mapping[str, Any]]], now: Mapping[str, float]
) -> dict[str, str]:
    """Return a row of means over the corpora.

    The difference to usual fine-tuning, then whitened, is of the same pairs of each corpus. Its
    interval is that of Student's t over the corpora.
    """
    cells = {}
    for name in (VALIDATION, "definitions"):
        values = [_mean(own, name) for own in found.values() if name in own[0]]
        if values:
            mean = mean_gain(values)
            cells[name if name != VALIDATION else BEHIND] = (
                mean if name == VALIDATION else mean.split()[0]
            )
    changes = [_mean(own, VALIDATION)[0] - now[c] for c, own in found.items() if c in now]
    cells["minus usual fine-tuning"] = ""
    if len(changes) > 1 and any(changes):
        n, mean = len(changes), float(np.mean(changes))
        half = float(special.stdtrit(n - 1, 0.975) * np.std(changes, ddof=1) / n**0.5)
        cells["minus usual fine-tuning"] = gain_cell((mean, mean - half, mean + half))
    return cells


if __name__ == "__main__":
    main()
