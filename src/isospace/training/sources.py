"""What the views of a plan encode: each text of an example as it is, or as changes draw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray

from isospace.encoders.changes import Changes
from isospace.encoders.encoder import Batch, Encoder
from isospace.errors import UserError
from isospace.objectives.base import View
from isospace.objectives.edits import Edit
from isospace.objectives.perturbations import Perturbation


@dataclass(frozen=True)
class _Source:
    text: int
    edit: Edit | None
    perturb: Perturbation | None
    stream: int
    """Edits of one stream draw alike."""
    changes_embeddings: bool


class Sources:
    """The distinct inputs of a plan's views.

    Args:
        plan: of the objective.
        encoder: whose tokenizer the edits need.
        seed: of the draws.

    Attributes:
        of_view: (view,) which source each view encodes.

    Raises:
        UserError: a view needs a mask token that the tokenizer does not have, or changes embeddings
            that cannot be changed.
    """

    def __init__(self, plan: Sequence[View], encoder: Encoder, seed: int) -> None:
        self.encoder, self.seed = encoder, seed
        self.vocabulary = encoder.vocabulary
        needed = any(view.read == "mask" or (view.edit and view.edit.needs_mask) for view in plan)
        if needed and self.vocabulary.mask is None:
            raise UserError(
                f"{encoder.source}: its tokenizer has no mask token, which this objective needs; "
                "take an encoder that was pre-trained by masking, such as BERT's relatives"
            )
        if any(view.changes_embeddings for view in plan) and (why := encoder.refusal_of_changes()):
            raise UserError(
                f"{encoder.source}: {why}, which this objective needs; take an encoder such as "
                "BERT's relatives"
            )
        sources = [_source(view, place) for place, view in enumerate(plan)]
        self._distinct = list(dict.fromkeys(sources))
        self.of_view = [self._distinct.index(source) for source in sources]

    def batch(
        self, texts: Sequence[Sequence[NDArray[Any]]], rows: NDArray[np.int64], micro: int
    ) -> Batch:
        """The padded ids of every source.

        Args:
            texts: token ids of each text of the examples, (text, example).
            rows: (example,) numbers in the corpus; with `micro` and the seed they decide the draws,
                whichever process makes them.
            micro: number of the micro-batch in the run.
        """
        ids: list[NDArray[Any]] = []
        draws: dict[int, list[np.random.Generator]] = {}
        unedited: dict[int, list[NDArray[Any]]] = {}
        for place, source in enumerate(self._distinct):
            sentences = [self._fitting(source.edit, sentence) for sentence in texts[source.text]]
            if source.stream:
                seeds = [[self.seed, micro, int(row), source.stream] for row in rows]
                draws[place] = [np.random.default_rng(seed) for seed in seeds]
            if source.edit is not None:
                unedited[place] = sentences
                sentences = [
                    source.edit(sentence, random, self.vocabulary)
                    for sentence, random in zip(sentences, draws[place], strict=True)
                ]
            ids += sentences
        batch = self.encoder.collate(ids, len(self._distinct))
        changed = {
            place: self._changes(source, batch.stack([place]), unedited.get(place), draws[place])
            for place, source in enumerate(self._distinct)
            if source.changes_embeddings
        }
        return replace(batch, changed=changed).to(self.encoder.device)

    def _fitting(self, edit: Edit | None, ids: NDArray[Any]) -> NDArray[Any]:
        """A sentence, so short that the encoder can read what the edit makes of it."""
        limit = self.encoder.max_length
        if edit is None:
            return ids
        ids = np.asarray(ids, dtype=np.int64)
        added = edit.adds(self.vocabulary)
        excess = len(ids) + added - limit if added and limit is not None else 0
        end = self.vocabulary.inner(ids).stop
        return np.delete(ids, slice(max(1, end - excess), end)) if excess > 0 else ids

    def _changes(
        self,
        source: _Source,
        batch: Batch,
        unedited: Sequence[NDArray[Any]] | None,
        draws: Sequence[np.random.Generator],
    ) -> Changes:
        """What is changed in the embeddings of the padded sentences of one source."""
        (count, length), dim = batch.input_ids.shape, self.encoder.token_dim
        positions = np.tile(np.arange(length), (count, 1))
        kept = np.ones((count, length, dim), dtype=bool)
        lengths = batch.attention_mask.sum(1).tolist()
        for i, (n, random) in enumerate(zip(lengths, draws, strict=True)):
            if unedited is not None and source.edit is not None and source.edit.moves:
                positions[i, :n] = source.edit.positions(unedited[i], self.vocabulary)
            if source.perturb is not None:
                positions[i, :n] = positions[i, source.perturb.positions(n, random)]
                kept[i, :n] = source.perturb.kept(n, dim, random)
        return Changes(torch.from_numpy(positions), torch.from_numpy(kept))


def _source(view: View, place: int) -> _Source:
    drawn = view.edit is not None or view.perturb is not None
    name = view.edit.stream if view.edit is not None else ""
    stream = crc32((name or f"{place}").encode()) if drawn else 0
    return _Source(view.text, view.edit, view.perturb, stream, view.changes_embeddings)
