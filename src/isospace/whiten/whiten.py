"""Whiten any encoder after the fact: fit on a corpus, choose how far, judge, fold, save.

Three disjoint sets of text, and no labels: sentences or pairs to fit on, validation pairs
that select the power, and test pairs (`pairs`, or others that were held out). Where there are too
few to split, both are the same, and the verdict's interval is wider for it. The map is fitted on
the pooled vectors, before the encoder's closing L2 normalisation; a new normalisation follows it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from accelerate.utils import gather_object
from numpy.typing import NDArray

from isospace.corpus.corpus import Corpus, load_corpus
from isospace.corpus.relations import FEW_PAIRS
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.modules import require_one_way
from isospace.encoders.parity import PROBES, TOLERANCE
from isospace.encoders.prompts import Side
from isospace.encoders.saving import parity_of_sides, require_classic, save_model
from isospace.errors import TooLittle, UserError
from isospace.evaluation.benchmark import Benchmark, BenchmarkResult
from isospace.evaluation.held_out import validation_text
from isospace.evaluation.isotropy import NEIGHBOURS, describe
from isospace.evaluation.other_text import (
    OtherText,
    OtherTextScores,
    other_text_scores,
    require_other_text,
)
from isospace.evaluation.own_data import load_pairs
from isospace.evaluation.pairs import Encode, PromptedEncoders, TextPairs, remembering, sided
from isospace.evaluation.retrieval import RetrievalScores, evaluate_retrieval
from isospace.evaluation.sts import load_sts_data, sts_data
from isospace.operators.fitted_flow import fit_flow
from isospace.operators.fitted_whitening import Moments
from isospace.operators.flow import Flow
from isospace.operators.pair_whitening import PairMoments
from isospace.recipes import find
from isospace.statistics.choosing import ChosenAmong, choose
from isospace.statistics.verdict import VerdictKind
from isospace.system.cache import cache_folder
from isospace.system.files import atomic_folder, is_occupied, require_writable
from isospace.system.processes import arithmetic, join_processes
from isospace.system.progress import Logged, Progress, Silent
from isospace.training.card import classic_usage
from isospace.training.examples import Examples
from isospace.training.lifecycle import stoppable
from isospace.whiten.fold import FittedMap, drop_normalize, fold
from isospace.whiten.results import (
    StateScores,
    WhiteningResults,
    model_card,
    name_of,
    sentence,
    write_results,
)
from isospace.whiten.whiten_config import By, Power, WhitenConfig

MOST_PAIRS = 6_000
"""More change the map by less than the verdict can show (docs/results/closed-forms.md)."""
_CHUNK = 4096  # sentences whose vectors are held at once
_COMPARED = 100  # held-out sentences for which the folder must give the measured vectors

Maps = Mapping[Power, FittedMap | None]
"""The map of each power; the model as it is has none."""
T = TypeVar("T")


def whiten_model(config: WhitenConfig, progress: Progress | None = None) -> WhiteningResults | None:
    """Whiten a model by a corpus, say whether that helped, and write the better of the two.

    With `power="auto"` the folder holds the whitened model only where the verdict is that it gains;
    else it holds the model unchanged. A power, a width or a removal that was asked for is written
    whatever the verdict says.

    Progress goes to the log where none is given.

    Returns:
        What was measured and written; `None` in every process but the first.

    Raises:
        UserError: bad input, refused before the corpus is encoded where that can be known.
    """
    with stoppable(lambda: "run the same command again"):
        return _Session(config, progress or Logged()).go()


class _Session:
    """One process's part in a whitening: everything loaded, then `go`."""

    def __init__(self, config: WhitenConfig, progress: Progress) -> None:
        self.config, self.folder = config, _usable_folder(config)
        self.accelerator = join_processes()
        self.progress = progress if self.accelerator.is_main_process else Silent()
        if "-" in config.text.corpus and self.accelerator.num_processes > 1:
            raise UserError("`corpus` -: standard input cannot be shared by processes; give a file")
        require_other_text(config.other_text, config.text.corpus)
        with self.accelerator.main_process_first():
            self.encoder = self._load().to(self.accelerator.device)
        require_one_way(self.encoder.prompts, config.model, "whitening")
        require_classic(self.encoder)
        _refusing(lambda: config.whitening.kept(self.encoder.dim))
        if config.whitening.kind == "flow":
            _refusing(lambda: Flow(self.encoder.dim))
        data = sts_data(config.data)
        pairs = load_pairs(config.pairs, config.text.group) if config.pairs else None
        tasks = load_sts_data(data) if data else {}
        own_texts = [*pairs.first, *pairs.second] if pairs else []
        with self.accelerator.main_process_first():
            self.corpus = load_corpus(config.text, cache_folder(), exclude=own_texts)
        self.progress.line("corpus", self.corpus.summary)
        self.benchmark = Benchmark.make(
            self.corpus, pairs, tasks, distractors=config.text.distractors
        )
        with self.accelerator.main_process_first():
            self.other_text = OtherText.make(self.corpus, config.other_text, tasks)
        self.held_out = validation_text(self.corpus)
        self.choosers = self.held_out.pairs if self.benchmark.split else self.benchmark.pairs
        if config.power == "auto" and len(self.choosers) < 2:
            raise UserError(
                "`power` auto: too little text to choose a power by (sentences of 8 words or more "
                "are cut in halves); give more text, or a power such as `power` 0.25"
            )
        drop_normalize(self.encoder)
        self.progress.line("encoder", self.encoder.summary(arithmetic(self.accelerator)))
        if self.encoder.prompts.summary:
            self.progress.line("prompts", self.encoder.prompts.summary)
        self.encode = remembering(PromptedEncoders.of_prompts(self.encoder.prompts, self._embed))

    def _load(self) -> Encoder:
        config = self.config
        return load_encoder(
            config.model,
            config.pooling,
            query_prompt=config.query_prompt,
            document_prompt=config.document_prompt,
        )

    def _embed(self, texts: Sequence[str], side: Side | None) -> NDArray[np.float32]:
        with self.progress.bar("encode", len(texts)) as advance:
            return self.encoder.embed(texts, on_batch=advance, side=side)

    def go(self) -> WhiteningResults | None:
        """Fit in every process; choose, judge and write in the first."""
        config = self.config
        pairs = None if config.by == "texts" or config.why_not_pairs else self._pairs()
        by: By = "texts" if pairs is None else "pairs"
        if pairs is not None:
            count, fit = len(pairs[0]), self._by_pairs(*pairs)
        else:
            rows = fit_rows(self.corpus, max(1, len(config.text.columns)), config.sentences)
            count = len(rows)
            fit = self._flow(rows) if config.whitening.kind == "flow" else self._whitening(rows)
        results = None
        if self.accelerator.is_main_process:
            maps = {p: None if p is None else fit(p) for p in config.powers(by)}
            results = self._decide(maps, by, count)
            with atomic_folder(self.folder) as building:
                gap = self._write(results, maps[results.power], building)
                results = replace(results, gap=gap)
                write_results(building, results)
        self.accelerator.wait_for_everyone()
        return results

    def _documents(
        self, rows: NDArray[np.int64], on_batch: Callable[[int], None]
    ) -> NDArray[np.float32]:
        """Vectors of these rows, without the closing normalisation.

        Of documents, queries among them too: what is fitted is of the texts that are searched.
        """
        texts = [self.corpus[int(row)] for row in rows]
        return self.encoder.embed(texts, on_batch=on_batch, side="document")

    def _whitening(self, rows: NDArray[np.int64]) -> Callable[[Any], FittedMap]:
        """Encode the rows, each process its share; what is returned fits by a power."""
        share = rows[self.accelerator.process_index :: self.accelerator.num_processes]
        moments = Moments.from_vectors(torch.empty(0, self.encoder.dim))
        with self.progress.bar("fit", len(share)) as advance:
            for start in range(0, len(share), _CHUNK):
                vectors = self._documents(share[start : start + _CHUNK], advance)
                moments += Moments.from_vectors(torch.from_numpy(vectors))
        total = reduce(operator.add, gather_object([moments]))
        return lambda power: _refusing(lambda: self.config.whitening.fit(total, power))

    def _pairs(self) -> tuple[list[str], list[str]] | None:
        """Return the two sides of the corpus' pairs; `None` where it has too few, and may.

        Raises:
            UserError: there are too few, and pairs were asked for.
        """
        config = self.config
        recipe = replace(find("pairs").config, batch_size=FEW_PAIRS, text=config.text)
        recipe = replace(recipe, pairs=config.pairs, model=config.model)
        try:
            examples = Examples.from_corpus(recipe, self.corpus)
        except UserError as error:
            if config.by != "pairs":
                return None
            few = isinstance(error, TooLittle)
            what = f"it has fewer than {FEW_PAIRS}" if few else "it is lines of text"
            raise UserError(
                f"`by` pairs: whitening needs {FEW_PAIRS} pairs of texts that belong together, and "
                f"{what}. Give documents, or name the columns of pairs (`columns`)"
            ) from error
        return examples.related_texts(config.sentences or MOST_PAIRS)

    def _by_pairs(self, first: list[str], second: list[str]) -> Callable[[Any], FittedMap]:
        """Encode the pairs, each process its share; what is returned fits by a power."""
        place, step = self.accelerator.process_index, self.accelerator.num_processes
        first, second = first[place::step], second[place::step]
        empty = torch.empty(0, self.encoder.dim)
        moments = PairMoments.from_pairs(empty, empty)
        with self.progress.bar("fit", 2 * len(first)) as advance:
            for start in range(0, len(first), _CHUNK):
                part = slice(start, start + _CHUNK)
                sides: tuple[tuple[list[str], Side], ...]
                sides = (first[part], "query"), (second[part], "document")
                vectors = [
                    self.encoder.embed(texts, on_batch=advance, side=side) for texts, side in sides
                ]
                moments += PairMoments.from_pairs(*map(torch.from_numpy, vectors))
        total = reduce(operator.add, gather_object([moments]))
        whitening = self.config.whitening
        shrinkage = None if whitening.shrinkage == "ledoit-wolf" else whitening.shrinkage
        return lambda power: _refusing(
            lambda: total.fit(power, shrinkage=shrinkage, dim=whitening.dim)
        )

    def _flow(self, rows: NDArray[np.int64]) -> Callable[[Any], FittedMap]:
        """Encode the rows, each process its share; what is returned fits a flow."""
        first, step = self.accelerator.process_index, self.accelerator.num_processes
        share = rows[first::step]
        with self.progress.bar("fit", len(share)) as advance:
            parts = gather_object([self._documents(share, advance)])
        every = np.empty((len(rows), self.encoder.dim), np.float32)
        for number, part in enumerate(parts):
            every[number::step] = part
        vectors = torch.from_numpy(every).to(self.accelerator.device)
        epochs, seed = self.config.whitening.epochs, self.config.whitening.seed

        def fit(_power: Power) -> FittedMap:
            with self.progress.bar("flow", epochs * len(rows)) as advance:
                return _refusing(
                    lambda: fit_flow(vectors, epochs=epochs, seed=seed, on_batch=advance)
                )

        return fit

    def _decide(self, maps: Maps, by: By, sentences: int) -> WhiteningResults:
        """Choose on one set of pairs, judge on another, or on the same where there are few."""
        ranks: dict[Power, RetrievalScores] = {}
        if len(maps) > 1:
            ranks = try_powers(self.encode, {None: None, **maps}, self.choosers)
        tried = {power: found.mrr for power, found in ranks.items() if power in maps}
        power = list(tried)[choose(list(tried.values()))] if tried else next(iter(maps))
        weight = self.benchmark.choose_weight(self.encode, self.held_out)
        before = self._measure(None, weight)
        after, other_text = before, {}
        if power is not None:
            after = self._measure(maps[power], weight)
            other_text = self._other_text(maps[power], before, after)
        kept = "no power was chosen" if power is None else None
        among = None
        if ranks and not self.benchmark.split:
            scores = {name: self.benchmark.pair_scores(found) for name, found in ranks.items()}
            among = ChosenAmong.named(scores, power)
        verdict = self.benchmark.verdict(before, after, kept, among)
        return WhiteningResults(
            isospace=version("isospace"),
            model=self.config.model,
            pooling=self.encoder.pooling,
            by=by,
            whitening=self.config.whitening,
            sentences=sentences,
            corpus=self.corpus.digest,
            candidates={name_of(power): mrr for power, mrr in tried.items()},
            selected_on=f"{len(self.choosers):,} {self.choosers.name}",
            power=power,
            before=_scores(before),
            after=_scores(after),
            verdict=replace(verdict, text=sentence(verdict, power, self.benchmark.pairs.unit)),
            other_text=other_text,
            # What was asked for is written; what was left to choose must earn it.
            whitened=None not in maps or verdict.kind is VerdictKind.ADAPTED,
            gap=0.0,
        )

    def _measure(self, whitening: FittedMap | None, bm25_weight: float) -> BenchmarkResult:
        return self.benchmark.measure(through(self.encode, whitening), bm25_weight)

    def _other_text(
        self, whitening: FittedMap | None, before: BenchmarkResult, after: BenchmarkResult
    ) -> dict[str, OtherTextScores]:
        """What the map does to other text."""
        start = self.other_text.measure(self.encode, measured=before)
        mapped = through(self.encode, whitening)
        return other_text_scores(start, self.other_text.measure(mapped, measured=after))

    def _write(self, results: WhiteningResults, whitening: FittedMap | None, folder: Path) -> float:
        """Write the model; returns how far its vectors are from those that were measured."""
        texts = [*PROBES, *self.benchmark.sample[:_COMPARED]]
        whitening = whitening if results.whitened else None
        expected = through(self.encode, whitening)
        measured = {side: expected.for_side(side)(texts) for side in self.encoder.prompts.sides}
        if whitening is None:
            self.encoder = self._load()
        else:
            fold(self.encoder, whitening)
        card = model_card(results, classic_usage(self.encoder.prompts))
        save_model(self.encoder, folder, card, replace=False)
        return parity_of_sides(measured, folder, texts, self.encoder, TOLERANCE)


def _scores(measured: BenchmarkResult) -> StateScores:
    """The scores, and the geometry of the held-out sentences where there are enough."""
    vectors = measured.vectors
    enough = len(vectors) > NEIGHBOURS and vectors.shape[1] > 1
    return StateScores(measured.scores, describe(vectors) if enough else {})


def fit_rows(corpus: Corpus, texts: int, count: int | None) -> NDArray[np.int64]:
    """Positions of the sentences to fit on, (n,), n <= `count`: all texts of training examples.

    `texts` is how many an example has, which follow each other; `count` of all are evenly spread,
    `None` takes them all.
    """
    rows = (corpus.train_rows[:, None] + np.arange(texts)).ravel()
    if count is None or count >= len(rows):
        return rows
    return rows[np.linspace(0, len(rows) - 1, count).astype(np.int64)]


def through(encode: Encode, whitening: FittedMap | None) -> PromptedEncoders:
    """The encoder with a map behind it, in float64; `None` is the encoder itself."""
    if whitening is None:
        return sided(encode)

    def mapped(own: Encode) -> Encode:
        return lambda texts: whitening(torch.from_numpy(own(texts)).double()).float().numpy()

    return sided(encode).each(mapped)


def through_queries(encode: Encode, whitening: FittedMap) -> PromptedEncoders:
    """Return the encoder with a map behind its queries alone, in float64."""
    own = sided(encode)
    return PromptedEncoders(through(own, whitening).queries, own.documents, own.plain)


def try_powers(encode: Encode, maps: Maps, pairs: TextPairs) -> dict[Power, RetrievalScores]:
    """The ranks of the pairs by power; `auto` takes the highest MRR.

    The pairs are not fitted on; `encode` is `remembering`, so that all powers share its work.
    """
    return {
        power: evaluate_retrieval(through(encode, fitted), pairs) for power, fitted in maps.items()
    }


def _usable_folder(config: WhitenConfig) -> Path:
    """The output folder; refused before the work is done where it cannot be written."""
    output = config.output
    if output is None:
        raise UserError("`output` is missing: the folder of the model that is written")
    if is_occupied(output):
        raise UserError(f"`output` {output}: exists already; give another folder")
    require_writable(output)
    return output


def _refusing(work: Callable[[], T]) -> T:
    """What operators refuse is the user's input here."""
    try:
        return work()
    except ValueError as error:
        raise UserError(str(error)) from error
