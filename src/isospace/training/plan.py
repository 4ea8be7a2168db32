"""The passes of an update, for single texts or for pairs, and the inputs that they encode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray

from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.settings import side_of
from isospace.encoders.tokenisation import (
    Batch,
    EmbeddingChanges,
    embedding_refusal,
    embedding_width,
)
from isospace.errors import UserError
from isospace.objectives.base import Objective
from isospace.views import Edit, Ids, Perturbation, View


@dataclass(frozen=True)
class PassPlan:
    """The passes through the encoder in an update, and the views that the objective gets.

    Attributes:
        views: the passes.
        ways: the directions in which the objective is computed (two for pairs), each with the
            position in `views` of each view of the objective. The loss is the mean over them.
        texts: number of texts of an example, mined ones included.
        candidates: positions in `views` of the mined texts. The objective gets them in the first
            direction only.
        inputs: views whose tokens the objective reads, of the first direction and then the second.
    """

    views: tuple[View, ...]
    ways: tuple[tuple[int, ...], ...]
    texts: int
    candidates: tuple[int, ...] = ()
    inputs: tuple[View, ...] = ()

    @classmethod
    def from_config(cls, config: TrainConfig) -> PassPlan:
        """Return the plan of a training.

        With pairs, the first view and views `of_anchor` encode one text, and all others the other
        text. The second direction exchanges the texts; both share passes where they can. Each mined
        text is passed once.

        Args:
            config: the settings; with pairs, the objective must have `takes_pairs`.
        """
        plan, mined = cls.of_objective(config.objective, config.views != "dropout"), config.mined
        passes = tuple(View(text=plan.texts + number) for number in range(mined))
        places = tuple(range(len(plan.views), len(plan.views) + mined))
        views, texts = plan.views + passes, plan.texts + mined
        return replace(plan, views=views, texts=texts, candidates=places)

    @classmethod
    def of_objective(cls, objective: Objective, pairs: bool) -> PassPlan:
        """Return the plan of an objective without mined texts; with pairs, for both directions."""
        own = objective.views
        if not pairs:
            every = tuple(range(len(own)))
            return cls(own, (every,), objective.texts, inputs=objective.inputs)
        sided = (replace(own[0], of_anchor=True), *own[1:])
        ways = [_over_pair(sided, anchor) for anchor in (0, 1)]
        # Directions share passes but no inputs, because each draws its own edits.
        inputs = [view for anchor in (0, 1) for view in _over_pair(objective.inputs, anchor)]
        counts = Counter(ways[0]) | Counter(ways[1])
        views = tuple(counts.elements())
        places = tuple(_places(way, views) for way in ways)
        return cls(views, places, 2, inputs=tuple(inputs))


def _over_pair(views: Sequence[View], anchor: int) -> list[View]:
    """Return the views for a pair whose anchor is text number `anchor`."""
    return [
        replace(view, text=anchor if view.of_anchor else 1 - anchor, of_anchor=False)
        for view in views
    ]


def _places(way: Sequence[View], views: Sequence[View]) -> tuple[int, ...]:
    """Return the position of each view of a direction; equal views get different positions."""
    places = []
    for number, view in enumerate(way):
        earlier = list(way[:number]).count(view)
        places.append([i for i, one in enumerate(views) if one == view][earlier])
    return tuple(places)


def has_equal_views(views: Sequence[View], inputs: Sequence[int], rates: Sequence[float]) -> bool:
    """Return true if two views are equal because the encoder has no dropout.

    `inputs` (view,) is the number of the input of each view, and `rates` are the encoder's dropout
    rates. Two views may both be clean by their own rate of 0.
    """
    noisy = [
        (number, view.read)
        for view, number in zip(views, inputs, strict=False)
        if view.by == "encoder" and view.dropout is None
    ]
    return len(noisy) > len(set(noisy)) and not any(rates)


@dataclass(frozen=True)
class _Source:
    text: int
    edit: Edit | None
    perturb: Perturbation | None
    stream: int
    """Edits with equal streams make equal draws."""
    changes_embeddings: bool


@dataclass(frozen=True)
class _Input:
    """The input that a source makes from a text; shapes (token,), `kept` (token, dim) or less."""

    ids: NDArray[Any]
    positions: Ids | None = None
    kept: NDArray[np.bool_] | None = None


class Sources:
    """The distinct inputs of a plan's views.

    Args:
        plan: the views of the objective, then its inputs.
        encoder: the encoder, whose tokenizer the edits need.
        without_mask: `Objective.without_mask`, which a refusal advises.

    Attributes:
        of_view: (view,) number of the source that each view encodes.
    """

    def __init__(
        self, plan: Sequence[View], encoder: Encoder, seed: int, without_mask: str = ""
    ) -> None:
        self.encoder, self.seed = encoder, seed
        self.vocabulary = encoder.vocabulary
        needed = any(view.read == "mask" or (view.edit and view.edit.needs_mask) for view in plan)
        if needed and self.vocabulary.mask is None:
            raise UserError(
                f"{encoder.source}: its tokenizer has no mask token, which this objective needs. "
                "Use an encoder that was pre-trained by masking, such as BERT's relatives"
                f"{without_mask and f', or set {without_mask}'}"
            )
        if any(view.edit for view in plan) and encoder.pooling == "mask":
            raise UserError(
                f"{encoder.source}: its tokenizer puts a template around every text, and this "
                "objective would edit the template. Use an encoder without one"
            )
        if any(view.changes_embeddings for view in plan) and (
            why := embedding_refusal(encoder.transformer)
        ):
            raise UserError(
                f"{encoder.source}: {why}, which this objective needs. Use an encoder such as "
                "BERT's relatives"
            )
        sources = [_source(view, place) for place, view in enumerate(plan)]
        self._distinct = list(dict.fromkeys(sources))
        self.of_view = [self._distinct.index(source) for source in sources]

    def batch(
        self, texts: Sequence[Sequence[NDArray[Any]]], rows: NDArray[np.int64], micro: int
    ) -> Batch:
        """Return the padded ids of every source.

        Args:
            texts: (text, example) token ids of each text of the examples.
            rows: (example,) numbers of the examples. With `micro` and the seed they determine the
                draws, so that all processes draw alike.
            micro: number of the micro-batch in the run.
        """
        inputs = [
            [
                self._input(source, ids, [self.seed, micro, int(row), source.stream])
                for ids, row in zip(texts[source.text], rows, strict=True)
            ]
            for source in self._distinct
        ]
        ids = [one.ids for made in inputs for one in made]
        sides = [side_of(source.text, len(texts)) for source in self._distinct]
        batch = self.encoder.tokens.collate(ids, len(inputs), sides)
        length = batch.input_ids.shape[1]
        changed = {
            place: _changes(made, length, embedding_width(self.encoder.transformer))
            for place, (source, made) in enumerate(zip(self._distinct, inputs, strict=True))
            if source.changes_embeddings
        }
        return replace(batch, changed=changed).to(self.encoder.device)

    def _input(self, source: _Source, ids: NDArray[Any], seed: list[int]) -> _Input:
        if not source.stream:
            return _Input(ids)
        random, positions = np.random.default_rng(seed), None
        if source.edit is not None:
            sentence = self._fitting(source.edit, np.asarray(ids, dtype=np.int64))
            ids = source.edit(sentence, random, self.vocabulary)
            if source.edit.moves:
                positions = source.edit.positions(sentence, self.vocabulary)
        if source.perturb is None:
            return _Input(ids, positions)
        places = source.perturb.positions(len(ids), random)
        positions = places if positions is None else positions[places]
        kept = source.perturb.kept(len(ids), embedding_width(self.encoder.transformer), random)
        return _Input(ids, positions, kept)

    def _fitting(self, edit: Edit, ids: Ids) -> Ids:
        """Return a text cut so that its edited version fits the encoder's limit."""
        limit = self.encoder.max_length
        if limit is None or edit.needs:
            return ids
        words = self.vocabulary.inner(ids)
        # One word at a time, because the number of added tokens depends on the length.
        for last in reversed(range(words.start, words.stop)):
            if len(ids) + edit.adds(ids, self.vocabulary) <= limit:
                break
            ids = np.delete(ids, last)
        return ids


def _source(view: View, place: int) -> _Source:
    drawn = view.edit is not None or view.perturb is not None
    name = view.edit.stream if view.edit else ""
    stream = crc32((name or f"{place}").encode()) if drawn else 0
    return _Source(view.text, view.edit, view.perturb, stream, view.changes_embeddings)


def _changes(inputs: Sequence[_Input], length: int, dim: int) -> EmbeddingChanges:
    positions = np.tile(np.arange(length), (len(inputs), 1))
    kept = np.ones((len(inputs), length, dim), dtype=bool)
    for i, one in enumerate(inputs):
        if one.positions is not None:
            positions[i, : len(one.ids)] = one.positions
        if one.kept is not None:
            kept[i, : len(one.ids)] = one.kept
    return EmbeddingChanges(torch.from_numpy(positions), torch.from_numpy(kept))
