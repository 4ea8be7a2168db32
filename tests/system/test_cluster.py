"""Workers of a cluster that die, on a made-up Ray."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from isospace.errors import Stopped
from isospace.system import cluster


class RayError(Exception):
    pass


@dataclass(eq=False)
class Started:
    dead: bool


class FakeRay:
    """A cluster on which the first `lost` workers die at their start."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=ZeroDivisionError)

    def __init__(self, lost):
        self.lost = lost

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": 8.0}}]

    def remote(self, **_):
        def start():
            self.lost -= 1
            return Started(self.lost >= 0)

        worker = SimpleNamespace(start=SimpleNamespace(remote=start))
        return lambda _: SimpleNamespace(remote=lambda *_: worker)

    def wait(self, results):
        return results[:1], results[1:]

    def get(self, result):
        if result.dead:
            raise RayError("died")

    def kill(self, _):
        pass


def pool(monkeypatch, lost):
    monkeypatch.setattr(cluster, "_ray", lambda: ray)
    ray = FakeRay(lost)
    return cluster._Pool(lambda: print, 8)


def test_a_machine_that_is_lost_while_many_workers_start_costs_each_one_start(monkeypatch):
    workers = pool(monkeypatch, lost=8)
    while len(workers.idle) < 8:
        workers.wait()


def test_workers_that_die_again_and_again_end_the_work(monkeypatch):
    workers = pool(monkeypatch, lost=1000)
    with pytest.raises(Stopped, match="workers died on the same work"):
        [workers.wait() for _ in range(1000)]
