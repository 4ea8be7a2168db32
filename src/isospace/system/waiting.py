"""How threads wait for each other."""

from __future__ import annotations

import os


def wait_passively() -> None:
    """Let threads that wait for each other sleep; whoever has set OMP_WAIT_POLICY is obeyed.

    By default they spin, and on a core that another program wants too they take the time from the
    very thread that they wait for (docs/results/speed.md). Which thread computes what, and so every
    bit, stays the same. OpenMP reads the variable once, when torch is imported: call this before.
    Processes that are started from here on inherit it.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
