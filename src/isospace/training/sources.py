"""The inputs of a plan's views: the texts of an example, unchanged or edited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray

from isospace.encoders.batch import Batch, EmbeddingChanges, embedding_refusal, embedding_width
from isospace.encoders.encoder import Encoder
from isospace.encoders.prompts import side_of
from isospace.errors import UserError
from isospace.views import Edit, Ids, Perturbation, View


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
