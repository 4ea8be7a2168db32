"""How long the updates and evaluations of a training take, while it goes on."""

from __future__ import annotations

from collections import deque
from statistics import fmean

_RECENT = 20
"""Updates by which it is seen how long one takes: texts differ, and what else a machine does."""


class Paces:
    """Seconds, of this session.

    Attributes:
        updating: of all updates.
        evaluation: of the last one that was not of the base model, of which much is known before;
            `None` before the first.
    """

    def __init__(self) -> None:
        self.updating = 0.0
        self.evaluation: float | None = None
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._warm = False

    def note_update(self, seconds: float) -> None:
        """Note what an update took; the first, which warms up, counts until there is another."""
        self.updating += seconds
        if self._recent and not self._warm:
            self._recent.clear()
            self._warm = True
        self._recent.append(seconds)

    @property
    def update(self) -> float:
        """Seconds of an update, by the recent ones, of which there is at least one."""
        return fmean(self._recent)
