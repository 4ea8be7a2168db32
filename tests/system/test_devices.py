"""Work side by side in threads, and groups of processes."""

import atexit
import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from accelerate.state import PartialState

from isospace.system import devices
from isospace.system.devices import join_processes, side_by_side


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_results_come_in_the_order_of_the_items(threads, count):
    gate = threading.Event()

    def work(i):
        if i == 0 and min(threads, count) > 1:
            gate.wait(10)  # the first ends after another one
        gate.set()
        return i * i

    assert list(side_by_side(work, range(count))) == [i * i for i in range(count)]


def test_an_error_reaches_the_caller_and_threads_are_given_back(threads):
    def work(i):
        if i == 3:
            raise ValueError("the fourth")
        return i

    results = side_by_side(work, range(10))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="the fourth"):
        next(results)
    assert torch.get_num_threads() == threads


@pytest.fixture
def alone(monkeypatch):
    """The environment of a launcher that has started one process; its exit handlers are listed."""
    for name, value in {
        "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost",
        "MASTER_PORT": "0", "ACCELERATE_USE_CPU": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    left = []
    monkeypatch.setattr(atexit, "register", left.append)
    yield left
    if dist.is_initialized():
        dist.destroy_process_group()


def test_a_group_that_was_made_here_is_left_at_the_end_and_no_other(alone, monkeypatch, tmp_path):
    def begin_group():
        place = f"file://{tmp_path}/group"
        dist.init_process_group("gloo", init_method=place, rank=0, world_size=1)

    begin_group()  # as a program that isospace is part of
    join_processes()
    assert alone == []
    dist.destroy_process_group()
    PartialState._reset_state()
    made = PartialState.__init__

    def joined(self, *args, **kwargs):
        """Make the group that Accelerate makes for launched devices."""
        if not dist.is_initialized():
            begin_group()
        made(self, *args, **kwargs)

    monkeypatch.setattr(PartialState, "__init__", joined)
    waiting = join_processes().init_handler.timeout
    assert waiting >= timedelta(days=1)  # by itself torch ends those that wait for 30 minutes
    assert alone == [devices._leave]
    devices._leave()
    assert not dist.is_initialized()
    devices._leave()  # where the host has left it meanwhile
