"""How many results the same items have judged on this machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from isospace.system.ledger import judged


def test_different_results_count_and_repeated_ones_do_not():
    first, second = np.array([1.0, 0.5]), np.array([1.0, 0.25])
    assert [judged("items", result) for result in (first, first, second, first)] == [1, 1, 2, 2]
    assert judged("other items", second) == 1


def test_results_that_come_at_once_are_all_counted():
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: judged("items", np.array([i])), range(100)))
    assert judged("items", np.array([0])) == 100


def test_a_cache_that_cannot_be_written_says_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ISOSPACE_CACHE", str(tmp_path / "file"))
    assert [judged("items", np.array([i])) for i in range(3)] == [1, 1, 1]
