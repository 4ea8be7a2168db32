"""Prepare a run: check its settings, then read texts, corpus and encoder, the cheap parts first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec

import numpy as np
from accelerate import Accelerator

from isospace.config import TrainConfig, objective_name
from isospace.corpus.corpus import Corpus, load_corpus
from isospace.corpus.groups import evenly
from isospace.corpus.lines import Tokens, tokenise
from isospace.corpus.passages import coverage
from isospace.corpus.sources import listed
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.modules import require_one_way
from isospace.encoders.places import resolve
from isospace.encoders.saving import require_classic, require_read_alike
from isospace.encoders.settings import Side, side_of
from isospace.errors import TooLittle, UserError, number_of
from isospace.evaluation.benchmark import Benchmark, HeldOut, validation_text
from isospace.evaluation.other_text import OtherText, require_other_text
from isospace.evaluation.own_data import load_pairs
from isospace.evaluation.pairs import Asked, cached
from isospace.evaluation.sts import load_labels, load_sts_data
from isospace.objectives import OBJECTIVES
from isospace.system.devices import STDIN_IS_OF_ONE, arithmetic, has_bf16, join_processes
from isospace.system.files import cache_folder
from isospace.system.imports import require_extra
from isospace.system.progress import Progress
from isospace.training.batches import Order
from isospace.training.build import PassPlan, build_parts, build_training
from isospace.training.examples import Examples, rows_of_queries
from isospace.training.lists import make_lists, needs_lists
from isospace.training.loop import Loop
from isospace.training.run import Run


def require_settings(config: TrainConfig) -> None:
    """Refuse settings that do not fit together, and files and packages that are missing."""
    require_of_objective(config)
    _require_texts(config)
    require_other_text(config.other_text, config.text.corpus)
    if config.queries is not None:
        rows_of_queries(config.queries)  # which are read again once it is known what is held out
    if config.lora is not None:
        require_extra(f"`lora` {config.lora}", "lora", "peft")
    missing = [name for name in config.trackers if find_spec(name) is None]
    if missing:
        raise UserError(f"`trackers` {missing[0]}: not installed. Run pip install {missing[0]}")


def require_of_objective(config: TrainConfig) -> None:
    """Refuse settings that the objective does not use, and settings that it lacks."""
    objective, label_column = config.objective, config.text.label_column
    name = f"{objective_name(objective)} with these settings"
    for setting, value, trait in (
        ("views", config.views if config.views != "dropout" else None, "takes_pairs"),
        ("label_column", label_column, "reads_labels"),
        ("teacher", config.teacher, "reads_teacher"),
        ("mined", config.mined, "takes_candidates"),
    ):
        if value and not getattr(objective, trait):
            users = ", ".join(other for other, kind in OBJECTIVES.items() if getattr(kind(), trait))
            raise UserError(
                f"`{setting}` {value}: {name} does not use it. Leave the setting out, or name an "
                f"objective that does ({users})"
            )
    if objective.reads_labels and label_column is None:
        raise UserError(f"`label_column` is missing: {name} learns from labels. Name their column")
    if objective.reads_teacher and config.teacher is None:
        raise UserError(
            f"`teacher` is missing: {name} learns from a teacher's ranking. Set `teacher`, such as "
            "base+bm25, or `distillation_weight` 0"
        )
    for setting in ("relations", "queries"):
        if config.views == "dropout" and getattr(config, setting):
            raise UserError(f"`{setting}` is for pairs of texts: set `views` pairs or both")
    plain = not objective.inputs and all(
        view.read == "pooled" and not view.changes_embeddings and view.by == "encoder"
        for view in objective.views
    )
    if config.pass_tokens and not plain:
        raise UserError(
            f"`pass_tokens` {config.pass_tokens}: {name} trains an auxiliary network, or reads "
            "tokens, and needs the whole batch. Leave `pass_tokens` out"
        )


def _require_texts(config: TrainConfig) -> None:
    texts, columns = config.objective.texts, config.text.columns
    if config.views != "dropout":
        texts = 2 if columns else 1
    if len(columns) == (texts if texts > 1 else 0):
        return
    wanted = " ".join(("ANCHOR", "POSITIVE", "HARD_NEGATIVE")[:texts])
    raise UserError(
        f"`columns` {' '.join(columns)}: {objective_name(config.objective)} with these settings "
        f"reads {number_of(texts, 'texts')} of each example, but `columns` names {len(columns)}. "
        + (f"Give `columns` {wanted}" if texts > 1 else "Name one `column`, or set `views` pairs")
    )


LENGTH_OF_LINES = 32
"""Default number of tokens to which lines of text are cut (SimCSE, appendix A)."""


@dataclass(frozen=True)
class Data:
    """The texts of a run."""

    benchmark: Benchmark
    held_out: HeldOut
    corpus: Corpus
    other_text: OtherText

    @property
    def asked(self) -> tuple[Asked, ...]:
        """The texts that are encoded where an encoder is tested."""
        return (*self.held_out.pairs.asked, *self.benchmark.asked, *self.other_text.asked)


def make_accelerator(config: TrainConfig) -> Accelerator:
    """Return the accelerator of a run, which joins its processes and sets its precision."""
    bf16 = config.precision == "bf16" or (config.precision == "auto" and has_bf16())
    precision = "bf16" if bf16 else "no"
    try:
        accelerator = join_processes(
            precision,
            log_with=list(config.trackers) or None,
            # Trackers want a folder now; the run's own is set before they begin.
            project_dir="." if config.trackers else None,
        )
    except ValueError as error:  # the device lacks this precision
        raise UserError(f"`precision` {config.precision}: {error}") from error
    if config.batch_size % accelerator.num_processes:
        raise UserError(
            f"`batch_size` {config.batch_size}: {accelerator.num_processes} processes cannot "
            f"share it evenly. Give a multiple of {accelerator.num_processes}"
        )
    return accelerator


def prepare(
    config: TrainConfig, accelerator: Accelerator, progress: Progress, data: Data | None = None
) -> tuple[Data, Loop]:
    """Load the texts, unless `data` has them, and build the training of checked settings."""
    if "-" in config.text.corpus and accelerator.num_processes > 1:
        raise UserError(STDIN_IS_OF_ONE)
    if data is None:
        with accelerator.main_process_first():
            data = load_data(config)
        say_corpus(data.corpus, config.pairs is not None, progress)
    corpus = data.corpus
    examples = Examples.from_corpus(config, corpus)
    if examples.summary:
        progress.line("relations", examples.summary)
    if corpus.classes:
        progress.line("labels", listed(corpus.classes))
    with accelerator.main_process_first():
        encoder = _load_encoder(config, str(accelerator.device))
    plan = PassPlan.from_config(config)
    progress.line("encoder", encoder.summary(arithmetic(accelerator), plan.views))
    if encoder.prompts.summary:
        progress.line("prompts", encoder.prompts.summary)
    config = _with_length(config, corpus, encoder, progress)
    sides = [side_of(text, plan.texts) for text in range(plan.texts)]
    tokens = {}
    for side in dict.fromkeys(sides):
        with accelerator.main_process_first():
            tokens[side] = _tokens(config, examples, encoder, side, progress)
    lists = None
    if needs_lists(config, examples):
        build_parts(config, encoder, len(corpus.classes))  # refuses before texts are encoded
        with accelerator.main_process_first():
            weight = partial(_bm25_weight, data)
            lists = make_lists(config, corpus, examples, encoder, weight, progress)
        if examples.unanswered is not None:
            examples = examples.answered(lists.best)
    own = [tokens[side] for side in sides]
    training = build_training(config, encoder, own, examples, accelerator, corpus.labels, lists)
    return data, Loop(training)


def _tokens(
    config: TrainConfig, examples: Examples, encoder: Encoder, side: Side, progress: Progress
) -> Tokens:
    """Tokenise all texts with the prompt of a side, or read the tokens from the cache."""
    texts, whole = examples.texts, config.objective.tokens_needed > 0
    # With crops, texts are only cut to the encoder's limit; `Batches` cuts them after cropping.
    longest = config.max_length if examples.cropped is None else None
    with progress.bar("tokenise", len(texts.corpus)) as advance:
        return tokenise(
            texts,
            texts.digest,
            partial(encoder.tokens.ids, max_length=longest, whole=whole, side=side),
            encoder.tokens.fingerprint(longest, whole, side),
            cache_folder(),
            progress=advance,
        )


def _bm25_weight(data: Data, teacher: Encoder) -> float:
    """Return the weight of BM25 in hybrid search that the validation pairs select."""
    return data.benchmark.select_weight(cached(teacher, cache_folder()), data.held_out)


def _with_length(
    config: TrainConfig, corpus: Corpus, encoder: Encoder, progress: Progress
) -> TrainConfig:
    """Return the settings with the number of tokens to which texts are cut; show it."""
    found, longest = coverage(encoder, corpus.sample()), config.max_length
    if found.warning:
        progress.line("warning", found.warning)
    half, most = found.lengths[0.5], found.lengths[0.95]
    if longest is None:
        lines = corpus.related is None and not config.text.columns
        longest = LENGTH_OF_LINES if lines else max(most, LENGTH_OF_LINES)
    if encoder.max_length is not None:
        longest = min(longest, encoder.max_length)
    if not config.objective.tokens_needed and not longest == LENGTH_OF_LINES >= half:
        progress.line(
            "length",
            f"half of the texts have {half} tokens or more, 95 % up to {most}; training cuts "
            f"all to {longest} (`max_length`)",
        )
    return replace(config, max_length=longest)


def require_usable(configs: Sequence[TrainConfig]) -> Data:
    """Check several runs with one corpus and one benchmark, as `prepare` would check each later."""
    for config in configs:
        require_settings(config)
    data = load_data(configs[0])
    for config in configs[1:]:
        _require_a_batch(config, data.corpus)
    names = ("model", "pooling", "query_prompt", "document_prompt", "dropout", "lora")
    by_encoder: dict[object, list[TrainConfig]] = {}
    for config in configs:
        by_encoder.setdefault(tuple(getattr(config, name) for name in names), []).append(config)
    for alike in by_encoder.values():
        encoder = _load_encoder(alike[0], "cpu")
        for config in alike:
            build_parts(config, encoder, len(data.corpus.classes))
    return data


def say_corpus(corpus: Corpus, judged_by_others: bool, progress: Progress) -> None:
    """Show what was read; if there are no test pairs, say why."""
    progress.line("corpus", corpus.summary)
    if not (judged_by_others or corpus.pairs.test):
        progress.line("test pairs", corpus.described_pairs)


def load_data(config: TrainConfig, trains: bool = True) -> Data:
    """Read the user's own files, then the corpus, and split its held-out pairs.

    `trains`: refuse text that is too little to train on, or that has a single label.
    """
    resolve(config.model)  # a name that leads nowhere is refused before a long text is read
    pairs = load_pairs(config.pairs, config.text.group) if config.pairs else None
    tasks = load_sts_data(config.data) if config.data else {}
    labels = load_labels(config.labels, tasks) if config.select == "labels" else None
    own_texts = [*pairs.first, *pairs.second] if pairs else []
    corpus = load_corpus(config.text, cache_folder(), exclude=own_texts)
    held_out = require_enough(config, corpus) if trains else validation_text(corpus)
    if trains and len(corpus.classes) == 1:
        raise UserError(
            f"`label_column` {config.text.label_column}: all have the label {corpus.classes[0]}. "
            "Give two or more different labels"
        )
    benchmark = Benchmark.make(corpus, pairs, tasks, labels, config.text.distractors)
    other_text = OtherText.make(corpus, config.other_text, tasks, labels)
    return Data(benchmark, held_out, corpus, other_text)


def data_of(run: Run) -> tuple[Data, bool]:
    """Read the texts of a finished run again, with its test pairs, and without STS and other text.

    If the texts have changed or the run was cross-validated, return false and all held-out pairs.
    """
    config = replace(run.config, data=None, other_text=(), select="last")  # no labels are read
    data, tested = load_data(config, trains=False), run.finished
    pairs = data.benchmark.pairs
    fewer = pairs.take(evenly(len(pairs), tested.base.pairs.queries))  # of a short budget
    benchmark = replace(data.benchmark, pairs=fewer)
    same = benchmark.pairs_digest() == tested.pairs
    return (replace(data, benchmark=benchmark) if same else data), same


def require_enough(config: TrainConfig, corpus: Corpus) -> HeldOut:
    """Return the held-out text that selects checkpoints; refuse too little text."""
    _require_a_batch(config, corpus)
    held_out = validation_text(corpus)
    if min(len(held_out.sentences), len(held_out.pairs)) < 2:
        raise TooLittle(
            f"`corpus` {' '.join(config.text.corpus)}: too little text to select a checkpoint: "
            f"{number_of(len(held_out.sentences), 'held-out sentences')} and "
            f"{number_of(len(held_out.pairs), 'pairs')} of halves of them (8 words or more), where "
            "2 are needed. Give more text, a larger `held_out`, or a `group` with fewer rows"
        )
    return held_out


def _require_a_batch(config: TrainConfig, corpus: Corpus) -> None:
    examples = Examples.from_corpus(config, corpus)
    most_tokens = np.diff(corpus.offsets) - 1  # a token has a byte or more
    Order(examples.long_enough(config, most_tokens), config.batch_size, config.seed)


def base_encoder(config: TrainConfig, device: str | None = None) -> Encoder:
    """Load the base model unchanged."""
    return load_encoder(config.model, config, device)


def require_trainable(config: TrainConfig, encoder: Encoder) -> None:
    """Refuse a base model without trainable layers, or with modules that cannot be saved."""
    if encoder.is_frozen:
        raise UserError(
            f"`model` {config.model}: it cannot be fine-tuned, because its vectors come from a "
            "server. Use `isospace adapt` or `isospace whiten`, which add a linear map"
        )
    if not encoder.is_transformer:
        raise UserError(
            f"`model` {config.model}: an average of word vectors has no layers to train and no "
            "dropout to make two views. Train a transformer, or whiten or evaluate this model"
        )
    require_one_way(encoder.prompts, config.model, "training")
    require_classic(encoder)
    require_read_alike(encoder)


def _load_encoder(config: TrainConfig, device: str) -> Encoder:
    encoder = base_encoder(config, device)
    require_trainable(config, encoder)
    if config.dropout is not None:
        encoder.noise.set(config.dropout)
    if config.lora is not None:
        encoder.add_adapters(config.lora, config.seed)
    return encoder
