"""A run's folder: who holds it, what a kill leaves in it, how it is gone on with."""

from __future__ import annotations

import pytest

from isospace.encoders.loading import LADDER
from isospace.errors import UserError
from isospace.training.run import Run
from isospace.training.train import train
from isospace.verbs.options import as_options


def test_two_processes_do_not_work_on_one_run(config):
    run = Run.create(config)
    with run.held(), pytest.raises(UserError, match="another process is training this run"):
        train(resume=run.folder)
    train(resume=run.folder)
    assert run.results is not None


def test_what_a_killed_process_left_half_written_goes_away(config):
    run = Run.create(config)
    (run.folder / "checkpoints").mkdir()
    (run.folder / "checkpoints" / ".last.pt.1.tmp").write_bytes(b"torn")
    (run.folder / ".model.1.tmp").mkdir()
    with run.held():
        left = [path.name for path in run.folder.rglob(".*")]
    assert left == [".lock"]


def test_a_kill_before_there_was_a_run_blocks_no_folder(config):
    config.output.mkdir()
    (config.output / ".config.json.1.tmp").write_text("torn")
    (config.output / LADDER).write_text("written before config.json is")
    assert Run.create(config).folder == config.output
    assert [path.name for path in config.output.iterdir()] == ["config.json"]
    (config.output / "config.json").unlink()
    (config.output / ".notes.tmp").write_text("the user's")
    with pytest.raises(UserError, match="exists already"):
        Run.create(config)
    assert (config.output / ".notes.tmp").exists()


def test_a_run_of_several_processes_says_how_they_go_on(config, monkeypatch):
    run = Run.create(config)
    assert as_options(run.how_to_resume).endswith(f"with: isospace train --resume {run.folder}")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    wanted = f"with: torchrun --nproc-per-node 2 -m isospace.cli train --resume {run.folder}"
    assert as_options(run.how_to_resume).endswith(wanted)
