"""The engine ray: on a cluster of two machines, the same files and tables as on this one alone."""

import os
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import lancedb
import psutil
import pytest
import torch
from encode_files import Watched, files, run
from search_index import index_files
from toy import sentences

from isospace.cli import main
from isospace.comparison import cells
from isospace.comparison.compare import candidate, compare
from isospace.config import EncodeConfig
from isospace.errors import UserError
from isospace.search import database
from isospace.system import cluster
from isospace.system.progress import Silent
from isospace.training.run import Run
from isospace.vectors.encode import encode

ROWS = 2 * 4096 + 500


def killer(armed):
    """What a new worker runs first, pickled by value: it dies once, as it would name a file."""

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


@pytest.fixture(scope="module")
def two_machines(tmp_path_factory):
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
        environment = {"worker_process_setup_hook": killer(armed)}
        ray.init(cluster.address, log_to_driver=False, runtime_env=environment)
        yield cluster, armed
        ray.shutdown()
        cluster.shutdown()
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def kill_worker(two_machines):
    """Get one worker killed as it is about to name a file; the path returned is then gone."""
    _, armed = two_machines

    def arm(name):
        armed.write_text(name)
        return armed

    yield arm
    armed.unlink(missing_ok=True)


@pytest.fixture
def kill_machine(two_machines):
    """With a cluster: one more machine is part of it, until this is called or the test ends."""
    cluster, _ = two_machines
    machine = cluster.add_node(num_cpus=1)

    def kill():
        if machine in cluster.list_all_nodes():
            cluster.remove_node(machine, allow_graceful=False)

    yield kill
    kill()


@pytest.fixture(autouse=True)
def _one_thread():
    """As the workers have, whose machines have one processor: sums round alike."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(sentences(ROWS, seed=3)) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def config(toy_model, texts, tmp_path):
    return EncodeConfig(str(toy_model), (str(texts),), tmp_path / "there", workers=2, engine="ray")


@pytest.mark.exhaustive
def test_a_cluster_does_what_is_missing_though_a_worker_is_killed(config, tmp_path, kill_worker):
    here = replace(config, output=tmp_path / "here", workers=1, engine="local")
    run(here)
    shutil.copytree(here.output, config.output)
    first = config.output / "part-00000.parquet"
    for path in config.output.glob("part-*"):
        if path != first:
            path.unlink()
    kept = first.stat().st_mtime_ns
    armed = kill_worker("part-00001.parquet")
    watched = Watched()
    encoded = encode(config, watched)
    assert not armed.exists()  # it was killed with a shard encoded and not written
    assert [encoded.rows, encoded.before, encoded.done] == [ROWS, 4096, ROWS - 4096]
    assert watched.lines == ["encode 4,096 of 8,692 rows were there already"]
    assert watched.bars[-1] == ROWS
    assert files(config.output) == files(here.output)
    assert first.stat().st_mtime_ns == kept


@pytest.mark.exhaustive
def test_an_index_has_its_rows_in_order(toy_model, text_file, tmp_path, monkeypatch, kill_worker):
    """With more workers than there is room for."""
    monkeypatch.setattr(database, "SLICE", 128)
    words = {"model": str(toy_model), "progress": Silent()}
    here = index_files(str(text_file), tmp_path / "here", **words)
    assert index_files(str(text_file), tmp_path / "there", **words, engine="ray", workers=4) == here
    tables = [lancedb.connect(tmp_path / name).open_table("texts") for name in ("here", "there")]
    assert tables[0].to_arrow().to_pylist() == tables[1].to_arrow().to_pylist()


@pytest.mark.exhaustive
def test_a_comparison_has_the_same_table(base, tmp_path, two_machines):
    settings = {name: candidate(name, base) for name in ("simcse:head=none", "dcl")}
    here = compare(settings, 1, tmp_path / "here", progress=Silent())
    there = shutil.copytree(tmp_path / "here", tmp_path / "there")
    shutil.rmtree(there / "dcl")
    finished = Run(there / "simcse_head=none" / "seed-42").results_path
    before = finished.stat().st_mtime_ns
    found = compare(settings, 1, there, jobs=2, progress=Silent(), engine="ray")
    assert found.scores == here.scores
    assert found.verdict.text == here.verdict.text
    assert finished.stat().st_mtime_ns == before
    assert "verdict " in (there / "dcl" / "seed-42" / "train.log").read_text()


def test_a_cell_that_fails_is_told_of(base, tmp_path):
    diverges = candidate("simcse:learning_rate=1e30", replace(base, output=tmp_path / "run"))
    cell = cells.Cell("simcse", tmp_path / "run", diverges)
    with pytest.raises(UserError, match=r"does not see .*config\.json"):
        cells._on_cluster(cell)
    Run.create(diverges)
    _, ended = cells._on_cluster(cell)
    assert ended.status == 1
    assert "training diverged at step" in ended.reason
    assert ended.reason in cell.log.read_text()


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.exhaustive
def test_what_a_machine_had_in_hand_when_it_died_is_done_by_others(tmp_path, kill_machine):
    removed = tmp_path / "removed"

    def begin():  # taken by value: workers do not see tests
        def work(number):
            (tmp_path / f"{number}-{os.getpid()}").touch()
            while number >= 3 and not removed.exists():
                time.sleep(0.05)
            return number

        return work

    def remove():
        while len(begun := list(tmp_path.glob("[345]-*"))) < 3:
            time.sleep(0.05)
        kill_machine()
        pids = [int(path.name.partition("-")[2]) for path in begun]
        while all(map(is_alive, pids)):
            time.sleep(0.05)
        removed.touch()

    with ThreadPoolExecutor() as pool:
        removing = pool.submit(remove)
        assert list(cluster.map_on_cluster(begin, iter(range(8)), 3, in_order=True)) == [*range(8)]
        removing.result()
    assert len(list(tmp_path.glob("*-*"))) == 8 + 1


def test_without_ray_a_line_names_the_extra(config, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    words = [config.model, *config.inputs, "-o", config.output, "--engine", "ray"]
    assert main(["encode", *map(str, words)]) == 2
    said = "isospace: --engine ray needs ray: pip install 'isospace[ray]'"
    assert capsys.readouterr().err.splitlines()[-1] == said
