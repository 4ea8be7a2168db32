"""How long a search takes, and each kind of candidate, in all sessions of its run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from isospace.system import typed_json

_FILE = "seconds.json"


@dataclass(frozen=True)
class _Noted:
    kinds: dict[str, float]
    whole: float
    format: int = 2


class Times:
    """Seconds of each kind of candidate and of the whole, kept in a folder for a resumed run.

    What a kill cuts off before it could be noted is not counted.

    Args:
        folder: where they are kept, and those of earlier sessions are found.
        started: when this session began, by the monotonic clock.

    Attributes:
        kinds: name -> seconds.

    Raises:
        UserError: what was kept is damaged.
    """

    def __init__(self, folder: Path, started: float) -> None:
        self._file, self._started = folder / _FILE, started
        earlier = _Noted({}, 0.0)
        if self._file.is_file():
            earlier = typed_json.read(self._file, _Noted, "times of a search", known=2)
        self.kinds, self._earlier = dict(earlier.kinds), earlier.whole

    @property
    def whole(self) -> float:
        """Wall clock of the search, sessions before a resumption included."""
        return self._earlier + time.monotonic() - self._started

    def add(self, kind: str, seconds: float) -> None:
        """Note what a kind of candidate took, or a part of it."""
        self.kinds[kind] = self.kinds.get(kind, 0.0) + seconds
        typed_json.write(self._file, _Noted(self.kinds, self.whole))
