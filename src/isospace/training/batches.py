"""Batches: the examples of each, and their padded tokens.

A batch depends only on the seed and its number, so resuming needs no state.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray

from isospace.config import TrainConfig
from isospace.corpus.lines import Tokens
from isospace.encoders.encoder import Encoder
from isospace.encoders.settings import side_of
from isospace.encoders.tokenisation import Batch
from isospace.errors import TooLittle, number_of
from isospace.training.examples import Examples, Rows, crop
from isospace.training.lists import Lists
from isospace.training.plan import PassPlan, Sources


class Batches:
    """This process's share of each micro-batch of a run."""

    def __init__(
        self,
        config: TrainConfig,
        encoder: Encoder,
        tokens: Sequence[Tokens],
        examples: Examples,
        plan: PassPlan,
        sources: Sources,
        accelerator: Accelerator,
        labels: np.ndarray | None = None,
        lists: Lists | None = None,
    ) -> None:
        self.config, self.encoder, self.tokens = config, encoder, tokens
        self.examples, self.texts, self.sources = examples, plan.texts, sources
        self.labels, self.lists = labels, lists
        self.order = Order(examples, config.batch_size, config.seed)
        self._share = config.batch_size // accelerator.num_processes
        self._first = accelerator.process_index * self._share
        self._sides = [side_of(text, plan.texts) for text in range(len(tokens))]
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
            labels = torch.from_numpy(self.labels[rows[:, 0] // self.texts])
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

    Attributes:
        per_epoch: number of batches in the first epoch; later epochs have about as many.
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
                why = (
                    f"no batch of {size} without two {unit} of one document or with nearly the "
                    "same text"
                )
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
        found: Rows = self._batches[number - self._first]
        return found

    def _drawn(self, epoch: int) -> Rows:
        """Return the full batches (batch, size) of an epoch."""
        random, examples = np.random.default_rng([self._seed, epoch]), self._examples
        order = random.permutation(len(examples))
        if examples.origins is None:
            return order[: len(order) // self._size * self._size].reshape(-1, self._size)
        batches = batches_without_shared_origin(order, examples.origins, self._size)
        return batches if len(batches) or not epoch else self._drawn(0)


def batches_without_shared_origin(order: Rows, origins: Rows, size: int) -> Rows:
    """Form batches in which no two examples share an origin.

    An example that shares an origin with the current batch waits for the next one. `order` is (n,)
    positions of the examples in the order to use them, `origins` (example, n).

    Returns:
        (batch, size) positions of examples in full batches.

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
