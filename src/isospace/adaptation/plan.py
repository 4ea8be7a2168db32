"""How many updates a training has time for: planned before it, and anew while it goes on.

A laptop that was busy while speeds were taken is free a minute later, or the other way round.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from isospace.training.schedule import evaluation_steps

EARLIEST = 24
"""Updates that come before any evaluation. A long training is evaluated down to here, as on some
text pairs teach most in so many, and less than nothing in three times as many."""
BETWEEN_EVALUATIONS = 5
"""Before the end a training is evaluated only where it has gone on since the last time for so many
times as long as that takes: the evaluation in the middle is then a tenth of the whole at most."""
MOST_READING = 0.5
"""Share of a budget in minutes that reading the text can use up, however long it takes."""
TRIED = 2
"""Weights that there is always time to try: the trained ones, and some of the way back."""
SPARE = 1.1
"""Over what was timed: processors slow down as they warm, and ranking, maps and files take time."""


@dataclass(frozen=True)
class Plan:
    """What the next training of a search, and those after it, take of the time that is left.

    Attributes:
        until: when everything is to be over, in seconds by some clock.
        update: seconds of one.
        evaluation: seconds of one.
        choosing: tokens that are encoded to try weights.
        judging: tokens that are encoded to judge those that are taken.
        token: seconds of one.
        trainings: the next one and those after it, which are to have as many updates.
        evaluations: of a training that is not long.
        most: updates that a training may have.
    """

    until: float
    update: float
    evaluation: float
    choosing: int
    judging: int
    token: float
    trainings: int
    evaluations: int
    most: int

    def takes(self, updates: int, done: int = 0, evaluated: int = 0) -> float:
        """Seconds of everything that is to come, without any to spare.

        Args:
            updates: of each training.
            done: those of them that the first has behind it.
            evaluated: the last of them after which it was evaluated.
        """
        usual = len(self.due(updates))
        own = sum(step > done for step in self.due(updates, evaluated))
        own += not done  # of the base model, which the trainings that follow do not encode again
        training = (self.trainings * updates - done) * self.update
        evaluating = (own + (self.trainings - 1) * usual) * self.evaluation
        measuring = TRIED * self.choosing + self.judging
        return training + evaluating + measuring * self.token

    def updates(self, now: float, done: int = 0, evaluated: int = 0) -> int:
        """How many each training may have.

        Args:
            now: by the same clock.
            done: as in `takes`.
            evaluated: as in `takes`.

        >>> plan = Plan(122, update=1, evaluation=5, choosing=15, judging=10, token=0.5,
        ...     trainings=1, evaluations=2, most=400)
        >>> plan.updates(0), plan.updates(45, done=40, evaluated=38)
        (75, 85)
        """
        left = (self.until - now) / SPARE
        numbers = range(self.most + 1)
        fits = bisect_right(numbers, left, key=lambda number: self.takes(number, done, evaluated))
        return max(fits - 1, 0)

    def seen(self, update: float, evaluation: float | None, token: float) -> Plan:
        """With what things really take by now; `None` is of what has not happened yet."""
        if evaluation is None:
            evaluation = self.evaluation
        return replace(self, update=update, evaluation=evaluation, token=token)

    def allows_another(self, now: float) -> bool:
        """Whether there is time to try further weights, before those that are taken are judged."""
        return now + SPARE * (self.choosing + self.judging) * self.token <= self.until

    def for_the_next(self) -> Plan:
        """Of the trainings that follow the first."""
        return replace(self, trainings=self.trainings - 1)

    def due(self, updates: int, last: int = 0) -> list[int]:
        """The updates after which a training of so many is evaluated, after the `last` time.

        >>> plan = Plan(360, update=2.5, evaluation=14, choosing=15, judging=10, token=0.5,
        ...     trainings=1, evaluations=2, most=400)
        >>> plan.due(50), plan.due(60), plan.due(60, last=20)
        ([50], [30, 60], [60])
        """
        if not updates:
            return []
        found = []
        for step in evaluation_steps(updates, self.evaluations, EARLIEST, last):
            between = (step - last) * self.update
            if step == updates or between >= BETWEEN_EVALUATIONS * self.evaluation:
                found.append(step)
                last = step
        return found


def counted_from(started: float, read: float, budget: float) -> float:
    """When a budget begins: with the command, but reading uses up `MOST_READING` of it at most.

    Args:
        started: when the command began, in seconds.
        read: when it had read the text.
        budget: seconds.

    >>> counted_from(0, 40, 360), counted_from(0, 600, 360)
    (0, 420.0)
    """
    return max(started, read - MOST_READING * budget)
