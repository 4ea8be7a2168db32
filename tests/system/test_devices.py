"""Work side by side: order, threads, and errors."""

from __future__ import annotations

import threading

import pytest
import torch

from isospace.system.devices import side_by_side


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_results_come_in_the_order_of_the_items(threads, count):
    gate = threading.Event()

    def work(i: int) -> int:
        if i == 0 and min(threads, count) > 1:
            gate.wait(10)  # the first ends after another one
        gate.set()
        return i * i

    assert list(side_by_side(work, range(count))) == [i * i for i in range(count)]


def test_an_error_reaches_the_caller_and_threads_are_given_back(threads):
    def work(i: int) -> int:
        if i == 3:
            raise ValueError("the fourth")
        return i

    results = side_by_side(work, range(10))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="the fourth"):
        next(results)
    assert torch.get_num_threads() == threads
