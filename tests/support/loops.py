"""Training loops over a few sentences, and what they make of every objective."""

from copy import deepcopy
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from toy import sentences

from isospace.config import TrainConfig
from isospace.corpus.lines import tokenise
from isospace.encoders.loading import load_encoder
from isospace.objectives import OBJECTIVES, ESimCSE, RankCSE, SimCSE, WhitenedCSE
from isospace.system.progress import Silent
from isospace.training.build import build_training
from isospace.training.examples import Examples
from isospace.training.lists import Lists
from isospace.training.loop import Loop
from isospace.training.step import backward, encode, make_views
from isospace.training.teachers import Cosines, LinesBySide

CONFIG = TrainConfig(objective=SimCSE(), batch_size=8, seed=3, learning_rate=3e-5)
SMALL = {
    "projector": (16, 16),
    "anchors": 1,
    "min_span": 2,
    "max_span": 4,
    "generator": "words",  # the toy has no head for masked words
}
"""Sizes that the papers have larger than a toy needs, by the name of the setting."""
VARIANTS = {
    "triples": SimCSE(supervision="triples"),
    "more noise": OBJECTIVES["noise-study"](noise="more"),
    "rank rows": OBJECTIVES["rank-study"](rows=13),
}
SETTINGS = {
    # More parts in one process than in the other.
    "in passes": {"pass_tokens": 50},
    "pairs": {"views": "pairs"},
    "pairs with a queue": {"views": "pairs", "objective": ESimCSE(queue_size=32)},
    "adapters": {"lora": 4},
    "mined": {"views": "pairs", "mined": 2, "objective": RankCSE()},
    "mined in passes": {"mined": 2, "objective": RankCSE(variant="listmle"), "pass_tokens": 50},
}
"""Settings of a run, beside the objective, that `NAMES` are tried with too."""


NAMES = (*OBJECTIVES, *VARIANTS, *SETTINGS)
OF_EACH_KIND = (
    "whitenedcse", "mocose", "pcl", "vascl", "diffcse", "declutr", "is-bert", "tsdae", "triples",
    "pairs with a queue", "in passes", "adapters", "mined in passes",
)  # fmt: skip
"""Objectives that together have every kind of head, queue, network, detector, span and list."""


def of_each_kind():
    """Return `NAMES` as parameters of a test; `make test` runs only those of `OF_EACH_KIND`."""
    long = pytest.mark.exhaustive
    return [pytest.param(name, marks=() if name in OF_EACH_KIND else long) for name in NAMES]


def small(name):
    """An objective of the table of a toy's size, or a variant of one."""
    if name in VARIANTS:
        return VARIANTS[name]
    if name in SETTINGS:
        return SETTINGS[name].get("objective", WhitenedCSE())
    kind = OBJECTIVES[name]
    return kind(**{f.name: SMALL[f.name] for f in fields(kind) if f.name in SMALL})


def make_loop(model, folder, config, steps=4, texts=40, precision="no"):
    encoder = deepcopy(_loaded(model)).to(torch.get_default_dtype())
    if config.lora is not None:
        encoder.add_adapters(config.lora, config.seed)
    of_example = 2 if config.views == "pairs" else config.objective.texts
    lines = texts * of_example
    tokens = tokenise(
        sentences(lines), f"{lines}", encoder.tokens.ids, encoder.tokens.fingerprint(None), folder
    )
    examples = Examples.from_lines(np.arange(0, lines, of_example), of_example)
    labels = np.arange(texts) % 3 if config.objective.reads_labels else None
    lists = None
    if config.objective.reads_teacher or config.mined:
        lists = make_lists(encoder, examples, sentences(lines), folder, config)
    accelerator = Accelerator(cpu=True, mixed_precision=precision)
    own = [tokens] * (of_example + config.mined)
    return Loop(build_training(config, encoder, own, examples, accelerator, labels, lists), steps)


@cache
def _loaded(model):
    return load_encoder(str(model), device="cpu")


def make_lists(encoder, examples, texts, folder, config):
    """The base model as teacher, of texts each of which is a document of its own."""
    every = np.arange(len(texts))
    sided = LinesBySide(every, every, "document", texts.__getitem__, f"{len(texts)}")
    teacher = Cosines.made(encoder, sided, folder, Silent())
    pool, pairs = examples.rows[:, -1], examples.rows[:, [0, -1]]
    return Lists(teacher, teacher, config.mined, pool, every, pairs, config.seed)


def clean_terms(model, folder, name):
    """Terms and gradient of the first batch with every view clean: nothing random but the head."""
    settings = SETTINGS.get(name, {})
    loop = make_loop(model, folder, replace(CONFIG, **{"objective": small(name), **settings}))
    loop.training.encoder.noise.set(0.0)
    training = with_clean_views(loop.training)
    terms, _ = backward(training, 0)
    parts = [*training.encoder.named_parameters(), *training.modules.named_parameters()]
    return terms, {n: p.grad for n, p in parts if p.grad is not None}


def with_clean_views(training):
    """The same with every view of the plan clean."""
    clean = tuple(replace(view, dropout=0.0) for view in training.plan.views)
    return replace(training, plan=replace(training.plan, views=clean))


def views_of(loop, batch):
    """The views of a batch, or of the one with a number."""
    training = loop.training
    if isinstance(batch, int):
        batch = training.batches.batch(batch)
    return make_views(training, batch, encode(training, batch))


def save_clean_terms(model, folder, dtype, names):
    """Save the terms and gradients of objectives in a file with the rank of this process."""
    torch.set_default_dtype(dtype)
    found = {name: clean_terms(model, folder, name) for name in names}
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    torch.save(found, folder / f"{rank}.pt")
