"""How many updates a training has time for: planned before it, and anew while it goes on.

A laptop that was busy while speeds were taken is free a minute later, or the other way round.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from isospace.training.fit import evaluation_steps

EARLIEST = 24
"""Updates that come before any evaluation. A long training is evaluated down to here, as on some
text pairs teach most in so many, and less than nothing in three times as many
(docs/results/domains.md)."""
MOST_READING = 0.5
"""Share of a budget in minutes that reading the text can use up, however long it takes."""
SPARE = 1.1
"""Over what was timed: processors slow down as they warm, and ranking, maps and files take time."""


@dataclass(frozen=True)
class Plan:
    """What the next training of a ladder, and those after it, take of the time that is left.

    Attributes:
        until: when everything is to be over, in seconds by some clock.
        update: seconds of one.
        evaluation: seconds of one.
        measuring: seconds of what comes when all are trained.
        trainings: the next one and those after it, which are to have as many updates.
        evaluations: of a training that is not long.
        most: updates that a training may have.
    """

    until: float
    update: float
    evaluation: float
    measuring: float
    trainings: int
    evaluations: int
    most: int

    def takes(self, updates: int, done: int = 0, due: int | None = None) -> float:
        """Seconds of everything that is to come, without any to spare.

        Args:
            updates: of each training.
            done: those of them that the first has behind it.
            due: evaluations that it has before it; default: all, that of the start included (of
                which the trainings that follow keep what was encoded).
        """
        usual = len(evaluation_steps(updates, self.evaluations, EARLIEST)) if updates else 0
        evaluations = (1 + usual if due is None else due) + (self.trainings - 1) * usual
        training = (self.trainings * updates - done) * self.update
        return training + evaluations * self.evaluation + self.measuring

    def updates(self, now: float) -> int:
        """How many each training may have."""
        return self._fitting((self.until - now) / SPARE)

    def anew(self, now: float, began: float, done: int, evaluated: int, due: int) -> int:
        """How many each training may have, by how long things really take.

        Args:
            now: when an evaluation of the first training has ended.
            began: when its first update did.
            done: updates in between.
            evaluated: evaluations in between.
            due: evaluations that it has before it.

        >>> plan = Plan(122, update=1, evaluation=5, measuring=20, trainings=1, evaluations=2,
        ...     most=400)
        >>> plan.updates(now=0)
        75
        >>> plan.anew(45, 2, 38, evaluated=1, due=1), plan.anew(45, 23.5, 38, evaluated=1, due=1)
        (83, 153)
        """
        pace = (now - began) / (done * self.update + evaluated * self.evaluation)
        return max(done, self._fitting((self.until - now) / SPARE / pace, done, due))

    def _fitting(self, seconds: float, *passed: int) -> int:
        """Updates that so many seconds allow for, at the pace of what was timed."""
        numbers = range(self.most + 1)
        return bisect_right(numbers, seconds, key=lambda number: self.takes(number, *passed)) - 1


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
