"""How long a ladder takes, and each of its rungs, in all sessions of its run."""

from __future__ import annotations

import json
import time
from pathlib import Path

from isospace.system.files import write_text

_FILE = "seconds.json"


class Times:
    """Seconds of rungs and of the whole, kept in a folder so that a resumed ladder goes on.

    What a kill cuts off before it could be noted is not counted.

    Args:
        folder: where they are kept; `None` keeps nothing.
        started: when this session began, by the monotonic clock.
        rungs: seconds of the sessions before.
        earlier: of the whole, the same.
    """

    def __init__(
        self,
        folder: Path | None = None,
        started: float | None = None,
        rungs: dict[str, float] | None = None,
        earlier: float = 0.0,
    ) -> None:
        self._folder = folder
        self._started = time.monotonic() if started is None else started
        self.rungs, self._earlier = dict(rungs or {}), earlier

    @classmethod
    def read(cls, folder: Path, started: float) -> Times:
        """Those of a ladder that was stopped, or of a new one."""
        file = folder / _FILE
        if not file.is_file():
            return cls(folder, started)
        found = json.loads(file.read_text(encoding="utf-8"))
        return cls(folder, started, found["rungs"], found["whole"])

    @property
    def whole(self) -> float:
        """Wall clock of the ladder, sessions before a resumption included."""
        return self._earlier + time.monotonic() - self._started

    def add(self, rung: str, seconds: float) -> None:
        """Note what a rung took, or a part of it."""
        self.rungs[rung] = self.rungs.get(rung, 0.0) + seconds
        if self._folder is not None:
            content = {"rungs": self.rungs, "whole": self.whole}
            write_text(self._folder / _FILE, json.dumps(content))
