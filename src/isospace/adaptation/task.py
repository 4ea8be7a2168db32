"""The task of `adapt`: the base model, the text, and the pairs that select and test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from isospace.adaptation.candidates import CandidateEncoders
from isospace.adaptation.cross_validation import Folds
from isospace.config import AdaptConfig, ModelAndText, TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.corpus.passages import coverage
from isospace.encoders.places import resolve
from isospace.errors import TooLittle, UserError
from isospace.evaluation.benchmark import HeldOut, hard_pairs
from isospace.evaluation.pairs import TextPairs
from isospace.objectives import RankCSE, SimCSE
from isospace.recipes import find
from isospace.system.progress import Progress
from isospace.system.signals import launched
from isospace.training.batches import Order
from isospace.training.examples import Examples, rows_of_queries
from isospace.training.lists import gives_cosines
from isospace.training.loop import FEWEST_UPDATES
from isospace.training.prepare import Data, load_data, require_settings, say_corpus

MOST_EPOCHS = 4.0
"""Largest number of epochs of a training, whatever the budget."""
SMALLER_BATCHES = (32, 16)
"""Batch sizes for text that has too few batches of the recipe's size."""
MINED = 4
"""Hard negatives per example, for a teacher that does not score the whole batch."""
QUERY_LEARNING_RATE = 3e-5
"""Learning rate if queries alone are fine-tuned (docs/results/query-side.md)."""
_DROPOUT, _PAIRS = "dropout", "pairs"  # recipes


@dataclass(frozen=True)
class Task:
    """One task; `folds` are the parts of a small folder, for cross-validation."""

    config: AdaptConfig
    training: TrainConfig
    data: Data
    validation: TextPairs
    folds: Folds | None
    notes: tuple[str, ...]

    @property
    def ranked(self) -> tuple[TextPairs, ...]:
        """The pairs that candidates are validated on, with the passages that are ranked."""
        return (self.validation,) if self.folds is None else self.folds.of_part

    def with_share(self, share: float) -> Task:
        """Return the task with a share of its pairs, but with all of own and made-up pairs."""
        held_out, benchmark = self.data.held_out, self.data.benchmark
        if share >= 1 or not held_out.natural:
            return self
        fewer = HeldOut(held_out.sentences, held_out.pairs.with_share(share))
        if self.config.pairs is None:
            benchmark = replace(benchmark, pairs=benchmark.pairs.with_share(share))
        data = replace(self.data, held_out=fewer, benchmark=benchmark)
        return replace(self, data=data, validation=self.validation.with_share(share))


def load_task(config: AdaptConfig, progress: Progress) -> Task:
    """Read the text, and choose the settings of training."""
    for name in config.models:
        resolve(name)
    if launched():
        raise UserError("adapt runs in one process; start it without a launcher, or use train")
    one = replace(config, model=config.models[0], models=()) if config.models else config
    training, data, notes, folds = _recipe(one)
    if config.queries_only:
        training = replace(training, learning_rate=QUERY_LEARNING_RATE)
    say_corpus(data.corpus, config.pairs is not None or folds is not None, progress)
    if folds is not None:
        progress.line("test pairs", folds.described)
        notes.append(folds.note)
    other_text = data.other_text
    limited = ", ".join(other_text.validation_pairs)  # the STS sets have no validation part
    limit = f"a candidate may lose at most {config.max_drop:g} points on {limited}"
    progress.line("other text", f"{other_text.described}; {limit}")
    validation = data.benchmark.pairs
    if data.benchmark.split and folds is None:
        validation = hard_pairs(data.corpus, data.held_out)
    return Task(config, training, data, validation.grouped(), folds, tuple(notes))


def load_base_model(task: Task, model: str, progress: Progress) -> tuple[Task, CandidateEncoders]:
    """Load a base model; return the task with the model's name, and the encoders."""
    corpus, parts = task.data.corpus, task.folds.corpora if task.folds else ()
    training = replace(task.training, model=model)
    config = replace(task.config, model=model, models=())
    encoders = CandidateEncoders.load(training, corpus, parts, config.queries_only)
    if task.config.models and encoders.encoder.is_frozen:
        raise UserError(
            f"`models` {model}: its vectors come from a server, and `models` compares "
            "base models that can be fine-tuned. Adapt it alone, as `model`"
        )
    note = _frozen_note(config, encoders) or _coverage_note(config, encoders, corpus)
    notes = tuple(filter(None, (*task.notes, note, _maps_note(training, encoders))))
    if encoders.encoder.is_frozen:
        ranked = [one for pairs in task.ranked for one in pairs.asked]
        asked = (*encoders.fit_texts, *ranked, *task.data.asked)
        encoders.encoder.expect(asked, progress)
    return replace(task, config=config, training=training, notes=notes), encoders


def _frozen_note(config: AdaptConfig, encoders: CandidateEncoders) -> str:
    """Return why a frozen model is not fine-tuned; empty for other models."""
    if not encoders.encoder.is_frozen:
        return ""
    for name in ("teacher", "queries"):
        if getattr(config, name) is not None:
            raise UserError(
                f"`{name}` is for fine-tuning, and {config.model} cannot be fine-tuned, because "
                "its vectors come from a server. Leave one of the two out"
            )
    return "Only linear maps are tried, because the vectors come from a server."


def _maps_note(training: TrainConfig, encoders: CandidateEncoders) -> str:
    """Return why pairs that are trained on fit no maps; empty if they do."""
    if training.views == "dropout" or not encoders.too_few_pairs:
        return ""
    return f"Whitening is fitted on single texts: on pairs it {encoders.too_few_pairs}."


def _coverage_note(config: AdaptConfig, encoders: CandidateEncoders, corpus: Corpus) -> str:
    """Return a warning about text that the tokenizer hardly knows; empty if it knows enough."""
    read = coverage(encoders.encoder, corpus.sample())
    if read.same:
        raise TooLittle(
            f"{config.model}: its tokenizer cannot tell these texts apart: "
            f"{read.warning or 'give texts that differ'}"
        )
    cause = (read.warning or "").partition(". ")[0]  # without the advice
    return f"{cause[:1].upper()}{cause[1:]}." if cause else ""


def _recipe(config: AdaptConfig) -> tuple[TrainConfig, Data, list[str], Folds | None]:
    """Choose the settings of training: pairs of the text if it has enough, else dropout views.

    If the text itself has no pairs, training mixes the pairs of queries from a file with dropout
    views of the text. Also return notes for the user, and the parts of a small folder.
    """
    cosines = config.teacher is not None and gives_cosines(config.teacher)
    dropout, pairs = (_training(config, name, cosines) for name in (_DROPOUT, _PAIRS))
    smallest = replace(pairs if config.text.columns else dropout, batch_size=SMALLER_BATCHES[-1])
    require_settings(smallest)
    if config.queries is not None and smallest.queries is None:
        rows_of_queries(config.queries)
    data = load_data(smallest)
    folds = None
    if config.pairs is None:
        folds = Folds.divide(data.corpus, data.benchmark, config.text.test_relation)
    corpora = [data.corpus]
    if folds is not None:
        dropout, pairs = (replace(one, select="last") for one in (dropout, pairs))
        corpora += folds.corpora
        nothing = np.zeros(len(data.corpus.groups), dtype=bool)
        whole = data.corpus.holding_out(nothing, folds.relation)
        data = replace(data, corpus=whole, benchmark=folds.benchmark(data.benchmark))
    notes: list[str] = []
    found, instead = None, "" if config.queries is None else " and the pairs of `queries`"
    if data.corpus.related is not None or config.text.columns:
        try:
            found = _in_batches(replace(pairs, queries=None), corpora)
        except TooLittle as error:
            notes = [
                f"Training uses two dropout views of each text{instead}, and no pairs of the text: "
                f"{str(error).partition('. ')[0]}."
            ]
    if config.queries is not None:
        found = _in_batches(pairs if found else replace(pairs, views="both"), corpora)
    found = found or _in_batches(dropout, corpora)
    return found, data, notes, folds


def training_by(config: AdaptConfig, recipe: str) -> TrainConfig:
    """Return the settings of a training by a recipe."""
    base = find(recipe).config
    shared = {one.name: getattr(config, one.name) for one in fields(ModelAndText)}
    return replace(
        base,
        **shared,
        max_length=config.max_length or base.max_length,
        precision=config.precision,
        seed=config.seed,
        queries=config.queries if base.views == "pairs" else None,
    )


def _training(config: AdaptConfig, recipe: str, cosines: bool) -> TrainConfig:
    """Return the settings of a recipe, with the teacher's ranking in the objective, if any.

    Of scores that are not cosines, training uses only the order (ListMLE).
    """
    settings = training_by(config, recipe)
    if config.teacher is None:
        return settings
    contrast = settings.objective
    assert isinstance(contrast, SimCSE)
    objective = RankCSE(
        head=contrast.head,
        temperature=contrast.temperature,
        variant="listnet" if cosines else "listmle",
        own_text="in" if settings.views == "pairs" else "out",
    )
    mined = 0 if cosines else MINED
    return replace(settings, objective=objective, teacher=config.teacher, mined=mined)


def _in_batches(pairs: TrainConfig, corpora: Sequence[Corpus]) -> TrainConfig:
    """Return the settings with the largest batch size that all corpora have enough text for.

    A size fits if `MOST_EPOCHS` epochs have `FEWEST_UPDATES` updates. If the smallest size does not
    fill a batch, it raises `TooLittle`.
    """
    sizes = dict.fromkeys([pairs.batch_size, *SMALLER_BATCHES])
    for size in sizes:
        settings = replace(pairs, batch_size=size)
        try:
            per_epoch = min(
                Order(Examples.from_corpus(settings, corpus), size, settings.seed).per_epoch
                for corpus in corpora
            )
        except TooLittle:
            if size == SMALLER_BATCHES[-1]:
                raise
            continue
        if MOST_EPOCHS * per_epoch >= FEWEST_UPDATES:
            break
    return settings
