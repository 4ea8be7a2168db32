"""The updates of a training in order: their number, learning rate and state."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from isospace.encoders import adapters
from isospace.training.checkpoint import random_state, set_random_state
from isospace.training.step import Diverged, Training, check_terms, update

_TIMED = 4
"""Updates that are timed to estimate how many there is time for; the first warms up."""


@dataclass(frozen=True)
class Step:
    """The outcome of an update.

    Attributes:
        step: 1 for the first update.
        sentences: seen so far, over all processes.
        terms: the objective's named terms; the loss is their sum.
        learning_rate: used in this update.
        gradient_norm: before clipping.
        seconds: wall clock of this update.
    """

    step: int
    sentences: int
    terms: dict[str, float]
    learning_rate: float
    gradient_norm: float
    seconds: float

    @property
    def loss(self) -> float:
        """The sum of the terms."""
        return sum(self.terms.values())


class Loop:
    """A training as an iterator over its updates.

    Args:
        training: what the updates read and change.
        total_steps: how many updates there are.

    Attributes:
        step: updates done.
    """

    def __init__(self, training: Training, total_steps: int = 0) -> None:
        self.training, self.step, self.total_steps = training, 0, total_steps
        self._falls_from = (training.config.learning_rate, 0)
        """A rate, and the step from which it falls to 0 at the end."""
        self._first_terms: dict[str, float] = {}

    def __iter__(self) -> Iterator[Step]:
        """Do the remaining updates.

        Raises:
            Diverged: a term or the gradient is not finite or has exploded; nothing was updated.
        """
        while self.step < self.total_steps:
            started = time.perf_counter()
            rate = self.learning_rate(self.step)
            terms, norm = update(self.training, self.step, rate, self._check)
            self.step += 1
            sentences, seconds = self.step * self.sentences_per_step, time.perf_counter() - started
            yield Step(self.step, sentences, terms, rate, norm, seconds)

    def _check(self, terms: Mapping[str, float]) -> None:
        self._first_terms = check_terms(self.step, terms, self._first_terms)

    def learning_rate(self, step: int) -> float:
        """Linear decay to zero over the run, no warm-up; `step` counts from 0."""
        rate, since = self._falls_from
        return rate * (1.0 - (step - since) / (self.total_steps - since))

    def end_at(self, total_steps: int) -> None:
        """Give a training that has begun another length: its rate falls from where it is."""
        self._falls_from = (self.learning_rate(self.step), self.step)
        self.total_steps = total_steps

    @property
    def sentences_per_step(self) -> int:
        """Sentences, or pairs, of an update."""
        return self.training.config.batch_size * self.training.config.accumulate

    @property
    def updates_per_epoch(self) -> float:
        """Updates that one pass over the examples makes; what fits no batch makes none."""
        return self.training.batches.per_epoch / self.training.config.accumulate

    @property
    def tokens_per_step(self) -> float:
        """Tokens in the texts of an update, on average; each text counts once."""
        return self.training.batches.tokens_per_example * self.sentences_per_step

    def seconds_per_step(self) -> float:
        """Time whole updates, leaving no trace in weights, moments or random states.

        For a run that has done none yet: they are its first ones, at a learning rate of 0.
        """
        state, auxiliary = random_state(), copy.deepcopy(self._auxiliary_state())
        seconds, terms = [], dict[str, float]()

        def check(found: Mapping[str, float]) -> None:
            terms.update(check_terms(0, found, terms))

        for step in range(_TIMED):
            started = time.perf_counter()
            with contextlib.suppress(Diverged):  # the training itself will tell
                update(self.training, step, 0.0, check)
            seconds.append(time.perf_counter() - started)
        self.training.optimizer.state.clear()
        self.training.optimizer.zero_grad(set_to_none=True)
        self._load_auxiliary(auxiliary)
        set_random_state(state)
        return float(np.median(seconds[1:]))

    @property
    def _frozen_names(self) -> tuple[str, ...]:
        return tuple(f"{name}." for name in self.training.frozen.values())

    def _auxiliary_state(self) -> dict[str, Any]:
        """Return the state of head and auxiliaries, without what never changes."""
        state, frozen = self.training.modules.state_dict(), self._frozen_names
        return {name: x for name, x in state.items() if not name.startswith(frozen)}

    def _load_auxiliary(self, state: dict[str, Any]) -> None:
        """Put back what `_auxiliary_state` returned."""
        own, frozen = self.training.modules.state_dict(), self._frozen_names
        kept = {name: x for name, x in own.items() if name.startswith(frozen)}
        self.training.modules.load_state_dict({**kept, **state})

    def state(self) -> dict[str, Any]:
        """Everything that decides the rest of the run, but for the random states."""
        return {
            "step": self.step,
            "total_steps": self.total_steps,
            "falls_from": self._falls_from,
            "encoder": adapters.trained_state(self.training.encoder.model),
            "beside": self._auxiliary_state(),
            "frozen": dict(self.training.digests),
            "optimizer": self.training.optimizer.state_dict(),
            "first_terms": self._first_terms,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Put back what `state` returned."""
        self.step, self.total_steps = state["step"], state["total_steps"]
        self._falls_from = state["falls_from"]
        adapters.load_trained(self.training.encoder.model, state["encoder"])
        self._load_auxiliary(state["beside"])
        self.training.optimizer.load_state_dict(state["optimizer"])
        self._first_terms = dict(state["first_terms"])
