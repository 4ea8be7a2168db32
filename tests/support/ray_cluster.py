"""A Ray cluster of two machines with a processor each, all of them this one."""

from __future__ import annotations

import signal

import pytest


def _killer(armed):
    """What a new worker runs first: it then dies once, when it would give a file its name.

    Workers do not see tests, so it is a function that pickle takes by value.
    """

    def begin():
        import os
        import signal
        from pathlib import Path

        rename = Path.replace

        def replace(self, target):
            if armed.is_file() and Path(target).name == armed.read_text():
                armed.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(self, target)

        Path.replace = replace

    return begin


@pytest.fixture(scope="session")
def _cluster(tmp_path_factory):
    pytest.importorskip("ray", reason="ray is not installed (the extra dev brings it)")
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        import ray
        from ray.cluster_utils import Cluster

        armed = tmp_path_factory.mktemp("ray") / "armed"
        head = {"num_cpus": 1, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.add_node(num_cpus=1)
        environment = {"worker_process_setup_hook": _killer(armed)}
        ray.init(cluster.address, log_to_driver=False, runtime_env=environment)
        yield cluster, armed
        ray.shutdown()
        cluster.shutdown()
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def kill_worker(_cluster):
    """With a cluster: gets one worker killed, as it is about to give a file this name.

    What it gives is the path of a file, which is gone once that has happened.
    """
    _, armed = _cluster

    def arm(name):
        armed.write_text(name)
        return armed

    yield arm
    armed.unlink(missing_ok=True)


@pytest.fixture
def kill_machine(_cluster):
    """With a cluster: one more machine is part of it, until this is called or the test ends."""
    cluster, _ = _cluster
    machine = cluster.add_node(num_cpus=1)

    def kill():
        if machine in cluster.list_all_nodes():
            cluster.remove_node(machine, allow_graceful=False)

    yield kill
    kill()
