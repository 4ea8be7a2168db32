"""The sequence of updates: learning rate, state, length by a budget, and when to evaluate."""

from __future__ import annotations

import copy
import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from isospace.encoders import adapters
from isospace.errors import number_of
from isospace.system.lifecycle import restored_random_state
from isospace.training.build import Training
from isospace.training.step import Diverged, update

_TIMED = 4
"""Updates that are timed to plan a budget in minutes; the first warms up."""
FEWEST_UPDATES = 10
"""A budget for fewer updates is too small to fine-tune."""
_RECENT = 20
"""Recent updates whose times are averaged, as texts and the load of the machine vary."""


@dataclass(frozen=True)
class Step:
    """The outcome of an update; the first `step` is 1.

    `sentences` were seen so far by all processes; the norm is that before clipping.
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
    """Iterator over the updates of a training, of which `step` are done.

    `updating` is the time of all updates in this session, in seconds.
    """

    def __init__(self, training: Training, total_steps: int = 0) -> None:
        self.training, self.step, self.total_steps = training, 0, total_steps
        self.updating, self._warm = 0.0, False
        self._recent: deque[float] = deque(maxlen=_RECENT)
        # The learning rate, and the step from which it falls linearly to 0.
        self._falls_from = (training.config.learning_rate, 0)
        self._first_terms: dict[str, float] = {}

    def __iter__(self) -> Iterator[Step]:
        """Do the remaining updates."""
        while self.step < self.total_steps:
            started = time.perf_counter()
            rate = self.learning_rate(self.step)
            terms, norm = update(self.training, self.step, rate, self._first_terms)
            self.step += 1
            sentences, seconds = self.step * self.sentences_per_step, time.perf_counter() - started
            self.note_update(seconds)
            yield Step(self.step, sentences, terms, rate, norm, seconds)

    def note_update(self, seconds: float) -> None:
        """Note the seconds of an update; the first, which warms up, counts until the second."""
        self.updating += seconds
        if self._recent and not self._warm:
            self._recent.clear()
            self._warm = True
        self._recent.append(seconds)

    @property
    def pace(self) -> float:
        """Mean seconds of the recent updates."""
        return fmean(self._recent)

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
        """Time the first updates at a learning rate of 0, and return the median; change nothing."""
        auxiliary = copy.deepcopy(self._auxiliary_state())
        seconds, terms = [], dict[str, float]()
        with restored_random_state():
            for step in range(_TIMED):
                started = time.perf_counter()
                with suppress(Diverged):  # the training itself will report it
                    update(self.training, step, 0.0, terms)
                seconds.append(time.perf_counter() - started)
        self.training.optimizer.state.clear()
        self.training.optimizer.zero_grad(set_to_none=True)
        self._load_auxiliary(auxiliary)
        return float(np.median(seconds[1:]))

    def _auxiliary_state(self) -> dict[str, Any]:
        """Return the state of head and auxiliaries, without the frozen parts."""
        frozen = tuple(f"{name}." for name in self.training.frozen)
        state = self.training.modules.state_dict()
        return {name: x for name, x in state.items() if not name.startswith(frozen)}

    def _load_auxiliary(self, state: dict[str, Any]) -> None:
        modules = self.training.modules
        modules.load_state_dict({**modules.state_dict(), **state})  # frozen weights stay

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint, without the random states."""
        return {
            "step": self.step,
            "total_steps": self.total_steps,
            "falls_from": self._falls_from,
            "encoder": adapters.trained_state(self.training.encoder.model),
            "auxiliaries": self._auxiliary_state(),
            "optimizer": self.training.optimizer.state_dict(),
            "first_terms": self._first_terms,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.step, self.total_steps = state["step"], state["total_steps"]
        self._falls_from = state["falls_from"]
        model = self.training.encoder.model
        model.load_state_dict({**model.state_dict(), **state["encoder"]})  # frozen weights stay
        self._load_auxiliary(state["auxiliaries"])
        self.training.optimizer.load_state_dict(state["optimizer"])
        self._first_terms = dict(state["first_terms"])


def evaluation_steps(
    total: int, evaluations: int, earliest: int | None = None, last: int = 0
) -> list[int]:
    """Return the updates after which a training is evaluated, evenly spaced up to the last update.

    Evaluations are added at half of the first one's update, at a quarter, ..., down to `earliest`.
    One that would follow the `last` done after less than half the usual distance is left out.

    >>> evaluation_steps(300, 2), evaluation_steps(300, 2, earliest=24)
    ([150, 300], [38, 75, 150, 300])
    >>> evaluation_steps(300, 2, earliest=24, last=30)
    [75, 150, 300]
    """
    steps = {round(total * i / evaluations) for i in range(1, evaluations + 1)}
    halves = min(steps) / 2
    while earliest is not None and halves >= earliest:
        steps.add(round(halves))
        halves /= 2
    return [
        step
        for before, step in pairwise([0, *sorted(steps)])
        if step > last and (step == total or step - last >= (step - before) / 2)
    ]


def budgeted_updates(loop: Loop) -> tuple[int, str]:
    """Return the budget in updates, and a message if it is too small to fine-tune.

    It times updates if the budget is in minutes; call it before the first one.
    """
    amount, unit = loop.training.config.budget
    match unit:
        case "minutes":
            each = loop.seconds_per_step() / 60
        case "epochs":
            each = 1 / loop.updates_per_epoch
        case "tokens":
            each = loop.tokens_per_step
        case "sentences":
            each = loop.sentences_per_step
    updates = max(1, int(amount / each))
    if updates >= FEWEST_UPDATES:
        return updates, ""
    enough = math.ceil(FEWEST_UPDATES * each)
    return updates, (
        f"{number_of(amount, unit)} {'is' if amount == 1 else 'are'} too few to fine-tune: "
        f"{number_of(updates, 'updates')}; {FEWEST_UPDATES} updates take about "
        f"{number_of(enough, unit)}"
    )
