"""Batches: the examples of each, and the padded tokens that the views encode.

A batch depends only on the seed and its number, so resuming needs no state.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray

from isospace.config import TrainConfig
from isospace.corpus.lines import Tokens
from isospace.encoders.encoder import Encoder
from isospace.encoders.settings import side_of
from isospace.encoders.tokenisation import (
    Batch,
    EmbeddingChanges,
    embedding_refusal,
    embedding_width,
)
from isospace.errors import TooLittle, UserError, number_of
from isospace.training.examples import Examples, Rows, crop
from isospace.training.lists import Lists
from isospace.views import Edit, Ids, View


class Batches:
    """This process's share of each micro-batch of a run."""

    def __init__(
        self,
        config: TrainConfig,
        encoder: Encoder,
        tokens: Sequence[Tokens],
        examples: Examples,
        sources: Sources,
        accelerator: Accelerator,
        labels: np.ndarray | None = None,
        lists: Lists | None = None,
    ) -> None:
        self.config, self.encoder, self.tokens = config, encoder, tokens
        self.examples, self.sources = examples, sources
        self.labels, self.lists = labels, lists
        self.order = Order(examples, config.batch_size, config.seed)
        self._share = config.batch_size // accelerator.num_processes
        self._first = accelerator.process_index * self._share
        self._sides = [side_of(text, len(tokens)) for text in range(len(tokens))]
        self._prompts = [
            encoder.tokens.prompt_length(side) if encoder.prompts.for_side(side) else 0
            for side in self._sides
        ]

    def batch(self, number: int) -> Batch:
        """Return this process's share of the micro-batch `number`, counted over the whole run."""
        drawn = self.order.batch(number)
        own = drawn[self._first : self._first + self._share]
        rows = self.examples.rows[own]
        if self.lists is not None:
            rows = np.concatenate([rows, self.lists.candidates(rows, number)], axis=1)
        texts = [tokens.batch(rows[:, text]) for text, tokens in enumerate(self.tokens)]
        if self.examples.cropped is not None:
            texts = self._cropped(texts, self.examples.cropped[own], rows[:, 0], number)
        batch = self.sources.batch(texts, rows[:, 0], number)
        device = self.encoder.device
        if self.lists is not None:
            scores = self.lists.scores(rows, self.examples.rows[drawn, -1], self._first)
            if scores is not None:
                batch = replace(batch, teacher=torch.from_numpy(scores).to(device))
        if self.labels is not None:
            labels = torch.from_numpy(self.labels[rows[:, 0] // len(self.tokens)])
            batch = replace(batch, labels=labels.to(device))
        return batch

    def _cropped(
        self,
        texts: Sequence[Sequence[NDArray[Any]]],
        cropped: NDArray[np.bool_],
        anchors: Rows,
        number: int,
    ) -> list[list[NDArray[Any]]]:
        """Replace some examples by random crops, and cut all texts to the length of training."""
        longest = self.config.max_length
        assert longest is not None  # set by `prepare`
        found = [list(of_text) for of_text in texts]
        for place in np.flatnonzero(cropped).tolist():
            draws = np.random.default_rng([self.config.seed, number, int(anchors[place])])
            for ids, prompt in zip(found, self._prompts, strict=True):
                ids[place] = crop(ids[place], draws, self.encoder.vocabulary, prompt)
        return [
            [self.encoder.tokens.cut(ids, longest, side) for ids in of_text]
            for of_text, side in zip(found, self._sides, strict=True)
        ]

    @property
    def tokens_per_example(self) -> float:
        """Mean number of tokens of an example's texts; each text counts once."""
        own = self.examples.rows.shape[1]
        whole = self.config.objective.tokens_needed > 0
        longest = np.inf if whole else self.config.max_length or np.inf
        tokens = self.examples.mean_tokens(self.tokens[:own], longest)
        if self.lists is not None:
            for mined in self.tokens[own:]:
                tokens += float(np.minimum(mined.lengths[self.lists.pool], longest).mean())
        return tokens


_AT_ONCE = 1 << 16


class Order:
    """The examples of each batch; they depend only on the seed and the epoch.

    `per_epoch` is the number of batches in the first epoch; later epochs have about as many.
    """

    def __init__(self, examples: Examples, size: int, seed: int) -> None:
        self._examples, self._size, self._seed = examples, size, seed
        self._epoch, self._first, self._batches = 0, 0, self._drawn(0)
        self.per_epoch = len(self._batches)
        if not self.per_epoch:
            unit = {1: "texts", 2: "pairs"}.get(examples.rows.shape[1], "examples")
            about = examples.summary or (examples.source.corpus.summary if examples.source else "")
            why = f"fewer than a batch of {size}"
            if len(examples) >= size:
                why = f"no batch of {size} without two {unit} of one document or alike"
            raise TooLittle(
                f"{number_of(len(examples), unit)} to train on ({about}), {why}. Give more text; "
                "`isospace train` also takes a smaller `batch_size`"
            )

    def batch(self, number: int) -> Rows:
        """Return the positions (size,) of the examples of batch `number`, counted over the run."""
        if number < self._first:
            self._epoch, self._first, self._batches = 0, 0, self._drawn(0)
        while number >= self._first + len(self._batches):
            self._first += len(self._batches)
            self._epoch += 1
            self._batches = self._drawn(self._epoch)
        return self._batches[number - self._first]

    def _drawn(self, epoch: int) -> Rows:
        """Return the full batches (batch, size) of an epoch."""
        random, examples = np.random.default_rng([self._seed, epoch]), self._examples
        order = random.permutation(len(examples))
        if examples.origins is None:
            return order[: len(order) // self._size * self._size].reshape(-1, self._size)
        batches = batches_without_shared_origin(order, examples.origins, self._size)
        return batches if len(batches) or not epoch else self._drawn(0)


def batches_without_shared_origin(order: Rows, origins: Rows, size: int) -> Rows:
    """Form full batches (batch, size) of positions in which no two examples share an origin.

    Such an example waits for the next batch. `order` (n,) has the positions, `origins` is
    (example, n).

    >>> batches_without_shared_origin(np.arange(4), np.array([[0, 0], [0, 0], [1, 2], [3, 3]]), 2)
    array([[0, 2],
           [1, 3]])
    """
    waiting: dict[int, deque[tuple[int, list[int]]]] = {}
    coming = _one_by_one(order, origins)
    batches = array("q")
    while True:
        batch: list[int] = []
        met: set[int] = set()
        for origin in list(waiting):  # at most one example of each
            example, own = waiting[origin][0]
            if len(batch) < size and met.isdisjoint(own):
                batch.append(example)
                met.update(own)
                waiting[origin].popleft()
                if not waiting[origin]:
                    del waiting[origin]
        for example, own in coming if len(batch) < size else ():
            if met.isdisjoint(own):
                batch.append(example)
                met.update(own)
                if len(batch) == size:
                    break
            else:
                waiting.setdefault(own[0], deque()).append((example, own))
        if len(batch) < size:
            return np.array(batches, dtype=np.int64).reshape(-1, size)
        batches.extend(batch)


def _one_by_one(order: Rows, origins: Rows) -> Iterator[tuple[int, list[int]]]:
    """Yield each example with its origins, converted to Python numbers in parts to save memory."""
    for start in range(0, len(order), _AT_ONCE):
        part = order[start : start + _AT_ONCE]
        yield from zip(part.tolist(), origins[part].tolist(), strict=True)


@dataclass(frozen=True)
class _Input:
    """The input that a source makes from a text; shapes (token,), `kept` (token, dim) or less."""

    ids: NDArray[Any]
    positions: Ids | None = None
    kept: NDArray[np.bool_] | None = None


class Sources:
    """The distinct inputs of a plan, which has the views of an objective, then its inputs.

    `without_mask` is the objective's. `of_view` (view,) has the number of each view's source.
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
                f"Use a relative of BERT{without_mask and f', or set {without_mask}'}"
            )
        if any(view.edit for view in plan) and encoder.pooling == "mask":
            raise UserError(
                f"{encoder.source}: its tokenizer puts a template around every text, and this "
                "objective would edit the template. Use an encoder without one"
            )
        changes = any(view.changes_embeddings for view in plan)
        if changes and (why := embedding_refusal(encoder.transformer)):
            raise UserError(
                f"{encoder.source}: {why}, which this objective needs. Use a relative of BERT"
            )
        sources = [_source(view, place) for place, view in enumerate(plan)]
        self._distinct = list(dict.fromkeys(sources))
        self.of_view = [self._distinct.index(source) for source in sources]

    def batch(
        self, texts: Sequence[Sequence[NDArray[Any]]], rows: NDArray[np.int64], micro: int
    ) -> Batch:
        """Return the padded ids of every source from the token ids of texts (text, example).

        The seed and the numbers of example (`rows`) and micro-batch determine the draws, so that
        all processes draw alike.
        """
        inputs = [
            [
                self._input(view, ids, [self.seed, micro, int(row), stream])
                for ids, row in zip(texts[view.text], rows, strict=True)
            ]
            for view, stream in self._distinct
        ]
        ids = [one.ids for made in inputs for one in made]
        sides = [side_of(view.text, len(texts)) for view, _ in self._distinct]
        batch = self.encoder.tokens.collate(ids, len(inputs), sides)
        length = batch.input_ids.shape[1]
        changed = {
            place: _changes(inputs[place], length, embedding_width(self.encoder.transformer))
            for place, (view, _) in enumerate(self._distinct)
            if view.changes_embeddings
        }
        return replace(batch, changed=changed).to(self.encoder.device)

    def _input(self, view: View, ids: NDArray[Any], seed: list[int]) -> _Input:
        if view.edit is None and view.perturb is None:
            return _Input(ids)
        random, positions = np.random.default_rng(seed), None
        if view.edit is not None:
            sentence = self._fitting(view.edit, np.asarray(ids, dtype=np.int64))
            ids = view.edit(sentence, random, self.vocabulary)
            if view.edit.moves:
                positions = view.edit.positions(sentence, self.vocabulary)
        if view.perturb is None:
            return _Input(ids, positions)
        places = view.perturb.positions(len(ids), random)
        positions = places if positions is None else positions[places]
        kept = view.perturb.kept(len(ids), embedding_width(self.encoder.transformer), random)
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


def _source(view: View, place: int) -> tuple[View, int]:
    """Return the text of a view with its changes, and the stream of their draws, 0 for none."""
    own = View(text=view.text, edit=view.edit, perturb=view.perturb)
    if view.edit is None and view.perturb is None:
        return own, 0
    name = view.edit.stream if view.edit else ""
    return own, crc32((name or f"{place}").encode())


def _changes(inputs: Sequence[_Input], length: int, dim: int) -> EmbeddingChanges:
    positions = np.tile(np.arange(length), (len(inputs), 1))
    kept = np.ones((len(inputs), length, dim), dtype=bool)
    for i, one in enumerate(inputs):
        if one.positions is not None:
            positions[i, : len(one.ids)] = one.positions
        if one.kept is not None:
            kept[i, : len(one.ids)] = one.kept
    return EmbeddingChanges(torch.from_numpy(positions), torch.from_numpy(kept))
