"""Methods that add to a contrast of two views, over pairs of texts: values, gradients, trainings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loops import CONFIG, SMALL, make_loop, views_of, with_clean_views
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy
from toy import write_toy_model

from isospace.config import objective_name
from isospace.encoders.batch import Batch
from isospace.losses import replace_words
from isospace.objectives import (
    DCLR,
    PCL,
    ArcCSE,
    ConSERT,
    CTInBatch,
    DiffCSE,
    ESimCSE,
    MoCoSE,
    NoiseStudy,
    PromptBERT,
    RankStudy,
)
from isospace.objectives.base import Objective
from isospace.training import checkpoint, sources
from isospace.training.loop import Loop
from isospace.training.step import encode, loss_terms
from isospace.views import TokenIds, View

TAKERS: tuple[type[Objective], ...] = (
    ESimCSE, DCLR, ArcCSE, MoCoSE, ConSERT, CTInBatch, PromptBERT, PCL, DiffCSE, RankStudy,
    NoiseStudy,
)  # fmt: skip
BATCH = CONFIG.batch_size
PHI = 0.98
"""Of the toy's clean vectors some are nearer to each other than that, and some are not."""

takers = pytest.mark.parametrize("kind", TAKERS, ids=lambda kind: objective_name(kind()))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy with a head for masked words."""
    return write_toy_model(tmp_path_factory.mktemp("masked") / "bert", masked_words=True)


@pytest.fixture
def in_float64() -> Iterator[None]:
    """New loops compute in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def loop_of(model: Path, folder: Path, objective: Objective, views: str = "pairs") -> Loop:
    return make_loop(model, folder, replace(CONFIG, objective=objective, views=views))


def without_dropout(loop: Loop) -> Loop:
    loop.training = with_clean_views(loop.training)
    for part in (
        loop.training.encoder,
        *(m for c in loop.training.auxiliaries.values() for m in c.modules()),
    ):
        if hasattr(part, "noise"):
            part.noise.set(0.0)
    return loop


class Seen:
    """Clean vectors of what the first batch of a loop holds, by other means than its plan."""

    def __init__(self, loop: Loop, micro: int = 0) -> None:
        self.loop, self.batch = loop, loop.training.batches.batch(micro)
        rows = loop.training.batches.examples.rows[loop.training.batches.order.batch(micro)]
        self.ids = [
            [ids.tolist() for ids in loop.training.batches.tokens[0].batch(rows[:, t])]
            for t in (0, 1)
        ]
        self.texts = [self.vectors(ids) for ids in self.ids]

    def vectors(self, ids: list[list[int]], by: Any = None) -> Tensor:
        """(batch, dim) of these tokens."""
        with torch.no_grad():
            return (by or self.loop.training.encoder)(
                self.loop.training.encoder.tokens.collate(ids), [View(0.0)]
            )[0]

    def changed(self, text: int, change: Any) -> list[list[int]]:
        """The tokens of one text of each pair as the batch has them, changed."""
        [ids] = self.all_changed(text, change)
        return ids

    def all_changed(self, text: int, change: Any) -> list[list[list[int]]]:
        """The same, as often as it was drawn."""
        found = [self._tokens(source) for source in self._sources(text, change)]
        return [[ids[mask.bool()].tolist() for ids, mask in zip(*x, strict=True)] for x in found]

    def _tokens(self, source: int) -> tuple[Tensor, Tensor]:
        own = self.batch.stack([source])
        return own.input_ids, own.attention_mask

    def _sources(self, text: int, change: Any) -> list[int]:
        return [
            place
            for place, source in enumerate(self.loop.training.sources._distinct)
            if source.text == text and change in (source.edit, source.perturb)
        ]

    def as_planned(self, text: int, change: Any, view: View) -> Tensor:
        """(batch, dim) with changed embeddings or positions."""
        [source] = self._sources(text, change)
        with torch.no_grad():
            return self.loop.training.encoder(self.batch, [view], [source])[0]


def both_ways(seen: Seen, loss: Callable[[Tensor, Tensor, int], Tensor]) -> float:
    """The mean of a loss of anchor, positive and the anchor's number over both directions."""
    a, b = seen.texts
    with torch.no_grad():
        return float(loss(a, b, 0) + loss(b, a, 1)) / 2


def info_nce(
    anchors: Tensor, positives: Tensor, tau: float, further: Tensor | None = None
) -> float:
    total = 0.0
    for i, anchor in enumerate(anchors):
        columns = positives if further is None else torch.cat([positives, further])
        row = [math.exp(float(cosine_similarity(anchor, x, dim=0)) / tau) for x in columns]
        total -= math.log(row[i] / sum(row))
    return total / len(anchors)


def terms_of(loop: Loop, micro: int = 0) -> dict[str, float]:
    terms = loss_terms(loop.training, views_of(loop, micro))
    return {name: float(x.detach()) for name, x in terms.items()}


def close(value: float, relative: float = 1e-9) -> Any:
    return pytest.approx(value, rel=relative)


# Of the same text twice


ALIKE = [
    ESimCSE(), ESimCSE(clean_negatives=True, dimension_weight=0.1, group_whitening=True),
    DCLR(noise_times=0.0, threshold=PHI), DCLR(noise_times=0.0, threshold=PHI, variant="released"),
    ArcCSE(), ArcCSE(clean_negatives=True, dimension_weight=0.1), ArcCSE(negatives="same-view"),
    MoCoSE(head_dropout=0.0), MoCoSE(head_dropout=0.0, variant="released"),
    ConSERT(), ConSERT(first="token-cutoff", second="element-cutoff", variant="released"),
    CTInBatch(), PromptBERT(), PromptBERT(denoise=False), PCL(), PCL(peer="frozen", copies=1),
    DiffCSE(), DiffCSE(variant="masked", clean_negatives=True, dimension_weight=0.1),
    RankStudy(rows=13), NoiseStudy(passes=2), NoiseStudy(passes=2, part="positives"),
]  # fmt: skip


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("objective", ALIKE, ids=objective_name)
def test_a_text_paired_with_itself_is_its_two_views(model, tmp_path, monkeypatch, objective):
    """Without dropout, and where edits draw alike for all views: the plan adds nothing of its own."""
    draw = sources._source
    monkeypatch.setattr(sources, "_source", lambda view, place: draw(view, 1))
    if getattr(objective, "group_whitening", False):  # of groups that no draw makes
        monkeypatch.setattr(
            "isospace.objectives.heads.torch.randperm", lambda n, **_: torch.arange(n)
        )
    own = without_dropout(loop_of(model, tmp_path, objective, "dropout"))
    paired = without_dropout(loop_of(model, tmp_path, objective))
    lines = own.training.batches.examples.rows[:, 0]
    paired.training.batches.examples = replace(
        paired.training.batches.examples, rows=np.stack([lines, lines], 1)
    )
    expected = terms_of(own)
    assert sum(abs(x) for x in expected.values()) > 1e-3
    assert terms_of(paired) == {name: close(x) for name, x in expected.items()}
    other = replace(paired.training.batches.examples, rows=np.stack([lines, np.roll(lines, 1)], 1))
    paired.training.batches.examples = other
    assert terms_of(paired) != {name: close(x, 1e-6) for name, x in expected.items()}


# Written out


@pytest.mark.usefixtures("in_float64")
def test_esimcse_repeats_in_the_positive_and_remembers_both_texts(model, tmp_path):
    objective = ESimCSE(head="none", queue_size=2 * BATCH)
    loop = without_dropout(loop_of(model, tmp_path, objective))
    repeat, tau, before = objective.views[1].edit, objective.temperature, Seen(loop)

    def loss(seen: Seen, further: Tensor | None = None) -> float:
        def of(anchor: Tensor, _: Tensor, text: int) -> Tensor:
            positive = seen.vectors(seen.changed(1 - text, repeat))
            return torch.tensor(info_nce(anchor, positive, tau, further))

        return both_ways(seen, of)

    for text in (0, 1):  # the words of that text, some of them twice
        for own, repeated in zip(before.ids[text], before.changed(1 - text, repeat), strict=True):
            assert set(repeated) != set(own)
        for own, repeated in zip(before.ids[text], before.changed(text, repeat), strict=True):
            assert set(repeated) == set(own)
    assert terms_of(loop)["info_nce"] == close(loss(before))
    next(iter(loop))
    queue = loop.training.auxiliaries["queue"].rows.double()
    kept = torch.stack([before.texts[1], before.texts[0]], dim=1).flatten(0, 1)  # in turn
    assert torch.allclose(queue, kept, rtol=1e-6)
    assert len(torch.unique(queue, dim=0)) == 2 * BATCH
    assert terms_of(loop, 1)["info_nce"] == close(loss(Seen(loop, 1), queue))


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("variant", ["released", "masked"])
def test_diffcse_detects_the_anchor_s_words_by_the_anchor_s_vector(model, tmp_path, variant):
    objective = DiffCSE(detection_weight=1.0, variant=variant)
    loop = without_dropout(loop_of(model, tmp_path, objective))
    detector: Any = loop.training.auxiliaries["detector"]
    seen, edit, losses = Seen(loop), objective.inputs[1].edit, []
    with torch.no_grad():
        projected = loop.training.head(torch.stack(seen.texts))
    for text in (0, 1):
        original = tokens(loop.training.encoder.tokens.collate(seen.ids[text]))
        drawn = seen.all_changed(text, edit)
        assert len(drawn) == 2
        for masked in (tokens(loop.training.encoder.tokens.collate(ids)) for ids in drawn):
            guesses = detector.language_model(masked.ids, masked.mask).argmax(-1)
            everywhere = variant == "released"
            shown = replace_words(
                original.ids, masked.ids, guesses, original.mask, everywhere=everywhere
            )
            logits = detector(projected[text], shown, original.mask).detach()
            each = cross_entropy(logits.mT, (shown != original.ids).long(), reduction="none")
            losses.append(float((each * original.mask).sum() / original.mask.sum() / 4))
    lengths = [sum(map(len, ids)) for ids in seen.ids]
    assert lengths[0] != lengths[1]  # a text's own mean in its own direction
    found = terms_of(loop)
    assert found["detection"] == close(sum(losses), 1e-6)
    expected = [info_nce(projected[t], projected[1 - t], 0.05) / 2 for t in (0, 1)]
    assert found["info_nce"] == close(sum(expected))


def tokens(batch: Batch) -> TokenIds:
    return TokenIds(batch.input_ids, batch.attention_mask)


# Rows and gradients


@pytest.mark.usefixtures("in_float64")
@takers
def test_gradient_reaches_both_texts_and_no_two_passes_are_the_same(model, tmp_path, kind):
    whole = {DCLR: {"threshold": 1.0}, ArcCSE: {"triplet_margin": 1.0}}  # no row at rest
    objective = replace(small(kind), **whole.get(kind, {}))
    loop = loop_of(model, tmp_path, objective)
    batch = loop.training.batches.batch(0)
    passes = torch.cat(encode(loop.training, batch))
    assert len(passes) == BATCH * len(loop.training.plan.views)
    assert len(torch.unique(passes, dim=0)) == len(passes)

    ways = views_of(loop, batch)
    total = torch.stack([sum(loss_terms(loop.training, [views]).values()) for views in ways]).sum()
    gradients = torch.autograd.grad(total, [views.encoded for views in ways])
    reached: dict[int, int] = {0: 0, 1: 0}
    for way, gradient in zip(loop.training.plan.ways, gradients, strict=True):
        for place, of_view in zip(way, gradient, strict=True):
            view = loop.training.plan.views[place]
            if view.by == "encoder" or loop.training.auxiliaries[view.by].trained:
                assert of_view.abs().sum(1).gt(0).all()
                reached[view.text] += 1
    assert min(reached.values()) > 0
    assert reached[0] == reached[1]


# Trainings


def small(kind: type[Objective]) -> Objective:
    of_toy = {f.name: SMALL[f.name] for f in fields(kind) if f.name in SMALL}
    return kind(**{**of_toy, **({"passes": 2} if kind is NoiseStudy else {})})


@pytest.mark.exhaustive
@takers
def test_it_resumes_bit_for_bit(toy_model, tmp_path, kind):
    """Queues, momentum and draws of both directions are in the checkpoint."""
    config = replace(CONFIG, objective=small(kind), views="pairs", learning_rate=1e-3)
    whole = make_loop(toy_model, tmp_path, config)
    terms = [step.terms for step in whole]
    first = make_loop(toy_model, tmp_path, config)
    iterator = iter(first)
    next(iterator), next(iterator)
    checkpoint.save(tmp_path / "c.pt", {**first.state(), "random": checkpoint.random_state()})
    second = make_loop(toy_model, tmp_path, config)
    state = checkpoint.load(tmp_path / "c.pt")
    second.load_state(state)
    checkpoint.set_random_state(state["random"])
    assert [step.terms for step in second] == terms[2:]
