"""The sequence of updates: number, learning rate and state."""

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
"""Updates that are timed to plan a budget in minutes; the first warms up."""


@dataclass(frozen=True)
class Step:
    """The outcome of an update.

    Attributes:
        step: number of the update; 1 for the first.
        sentences: sentences seen so far by all processes.
        terms: name -> term of the loss.
        gradient_norm: norm of the gradient before clipping.
        seconds: wall-clock seconds of this update.
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
    """Iterator over the updates of a training.

    Attributes:
        step: number of updates done.
    """

    def __init__(self, training: Training, total_steps: int = 0) -> None:
        self.training, self.step, self.total_steps = training, 0, total_steps
        self._falls_from = (training.config.learning_rate, 0)
        """The learning rate, and the step from which it falls linearly to 0."""
        self._first_terms: dict[str, float] = {}

    def __iter__(self) -> Iterator[Step]:
        """Do the remaining updates."""
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
        """Return the learning rate of a step from 0 on: linear decay to 0 without warm-up."""
        rate, since = self._falls_from
        return rate * (1.0 - (step - since) / (self.total_steps - since))

    def end_at(self, total_steps: int) -> None:
        """Change the number of updates; the learning rate falls to 0 from its current value."""
        self._falls_from = (self.learning_rate(self.step), self.step)
        self.total_steps = total_steps

    @property
    def sentences_per_step(self) -> int:
        """Sentences, or pairs, in an update."""
        return self.training.config.batch_size * self.training.config.accumulate

    @property
    def updates_per_epoch(self) -> float:
        """Updates in one pass over the examples; incomplete batches are left out."""
        return self.training.batches.order.per_epoch / self.training.config.accumulate

    @property
    def tokens_per_step(self) -> float:
        """Mean number of tokens in the texts of an update; each text counts once."""
        return self.training.batches.tokens_per_example * self.sentences_per_step

    def seconds_per_step(self) -> float:
        """Time the first updates at a learning rate of 0, and return the median seconds.

        Call it before the first update. It changes no weight, optimiser state or random state.
        """
        state, auxiliary = random_state(), copy.deepcopy(self._auxiliary_state())
        seconds, terms = [], dict[str, float]()

        def check(found: Mapping[str, float]) -> None:
            terms.update(check_terms(0, found, terms))

        for step in range(_TIMED):
            started = time.perf_counter()
            with contextlib.suppress(Diverged):  # the training itself will report it
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
        """Return the state of head and auxiliaries, without the frozen parts."""
        state, frozen = self.training.modules.state_dict(), self._frozen_names
        return {name: x for name, x in state.items() if not name.startswith(frozen)}

    def _load_auxiliary(self, state: dict[str, Any]) -> None:
        """Restore what `_auxiliary_state` returned."""
        own, frozen = self.training.modules.state_dict(), self._frozen_names
        kept = {name: x for name, x in own.items() if name.startswith(frozen)}
        self.training.modules.load_state_dict({**kept, **state})

    def state(self) -> dict[str, Any]:
        """Return the state of the run for a checkpoint, without the random states."""
        return {
            "step": self.step,
            "total_steps": self.total_steps,
            "falls_from": self._falls_from,
            "encoder": adapters.trained_state(self.training.encoder.model),
            "beside": self._auxiliary_state(),
            "optimizer": self.training.optimizer.state_dict(),
            "first_terms": self._first_terms,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.step, self.total_steps = state["step"], state["total_steps"]
        self._falls_from = state["falls_from"]
        adapters.load_trained(self.training.encoder.model, state["encoder"])
        self._load_auxiliary(state["beside"])
        self.training.optimizer.load_state_dict(state["optimizer"])
        self._first_terms = dict(state["first_terms"])
