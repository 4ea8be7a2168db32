"""The length of a training: updates that the budget allows, their time, and when to evaluate."""

from __future__ import annotations

import math
from collections import deque
from functools import cached_property
from itertools import pairwise
from statistics import fmean

from isospace.statistics.counts import number_of
from isospace.training.loop import Loop

FEWEST_UPDATES = 10
"""A budget for fewer updates is too small to fine-tune."""
_RECENT = 20
"""Recent updates whose times are averaged, as texts and the load of the machine vary."""


def evaluation_steps(
    total: int, evaluations: int, earliest: int | None = None, last: int = 0
) -> list[int]:
    """Return the updates after which a training is evaluated, evenly spaced up to the last update.

    Args:
        total: number of updates.
        evaluations: number of evaluations.
        earliest: if given, add evaluations at half of the first one's update, at a quarter, and so
            on, but none before this update.
        last: the last update that was evaluated. An evaluation that would follow it after less than
            half of the usual distance is left out.

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


class Budget:
    """The budget of the settings, converted to updates.

    A loop whose budget is in minutes must not have done any update.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._amount, self._unit = loop.training.config.budget

    @cached_property
    def _per_update(self) -> float:
        """Cost of an update in the unit of the budget."""
        if self._unit == "minutes":
            return self._loop.seconds_per_step() / 60
        if self._unit == "epochs":
            return 1 / self._loop.updates_per_epoch
        tokens = self._unit == "tokens"
        return self._loop.tokens_per_step if tokens else self._loop.sentences_per_step

    @property
    def updates(self) -> int:
        """The budget in updates, one or more."""
        return max(1, int(self._amount / self._per_update))

    @property
    def shortfall(self) -> str:
        """A message if the budget is too small to fine-tune; else empty."""
        if self.updates >= FEWEST_UPDATES:
            return ""
        enough = math.ceil(FEWEST_UPDATES * self._per_update)
        return (
            f"{number_of(self._amount, self._unit)} {'is' if self._amount == 1 else 'are'} too few "
            f"to fine-tune: {number_of(self.updates, 'updates')}; {FEWEST_UPDATES} updates take "
            f"about {number_of(enough, self._unit)}"
        )

    def updates_by_now(self, paces: Paces) -> int:
        """Return the total number of updates that a budget in minutes allows at this pace."""
        left = 60 * self._amount - paces.updating
        return self._loop.step + int(left / paces.update)


class Paces:
    """Seconds that updates and evaluations take in this session.

    The evaluation of the base model does not count, because most of its vectors are in the cache.
    """

    def __init__(self) -> None:
        self.updating = 0.0
        self.evaluation: float | None = None
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._warm = False

    def note_update(self, seconds: float) -> None:
        """Note the seconds of an update; the first, which warms up, counts until the second."""
        self.updating += seconds
        if self._recent and not self._warm:
            self._recent.clear()
            self._warm = True
        self._recent.append(seconds)

    @property
    def update(self) -> float:
        """Mean seconds of the recent updates."""
        return fmean(self._recent)
