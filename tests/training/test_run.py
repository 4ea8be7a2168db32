"""A run's folder: who holds it, what a kill leaves in it, how it is gone on with."""

from dataclasses import replace

import numpy as np
import pytest

from isospace.encoders.places import ADAPT_SETTINGS
from isospace.errors import UserError
from isospace.training.lifecycle import working_in
from isospace.training.run import Run
from isospace.training.train import train


def test_a_new_folder_is_named_after_its_model_or_counts_several(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = replace(config, model="some/model", output=None)
    names = [Run.create(config, "adapt", models=count).folder.name for count in (1, 3)]
    assert [name.partition("-adapt-")[2] for name in names] == ["model", "3-models"]


def test_two_processes_do_not_work_on_one_run(config):
    run = Run.create(replace(config, budget=(32, "sentences")))
    with (
        working_in(run.folder, "", "checkpoints/.lock"),
        pytest.raises(UserError, match="another process"),
    ):
        train(resume=run.folder)
    train(resume=run.folder)
    assert run.results is not None


def test_what_a_killed_process_left_half_written_goes_away(config):
    run = Run.create(config)
    (run.folder / "checkpoints").mkdir()
    (run.folder / "checkpoints" / ".last.pt.1.tmp").write_bytes(b"torn")
    (run.folder / ".model.1.tmp").mkdir()
    with working_in(run.folder, "", "checkpoints/.lock"):
        left = [path.name for path in run.folder.rglob(".*")]
    assert left == [".lock"]


def test_a_kill_before_there_was_a_run_blocks_no_folder(config):
    config.output.mkdir()
    (config.output / ".config.json.1.tmp").write_text("torn")
    (config.output / ADAPT_SETTINGS).write_text("written before config.json is")
    assert Run.create(config).folder == config.output
    assert [path.name for path in config.output.iterdir()] == ["config.json"]
    (config.output / "config.json").unlink()
    (config.output / ".notes.tmp").write_text("the user's")
    with pytest.raises(UserError, match="exists already"):
        Run.create(config)
    assert (config.output / ".notes.tmp").exists()


def cut(path):
    path.write_bytes(path.read_bytes()[:-30])


def objects(path):
    np.savez(path, **{"before/rank": np.array([{}], dtype=object)})


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("items.npz", objects, "allow_pickle=False"),
        ("sample.npz", cut, "BadZipFile"),
        ("transfer.json", lambda path: path.write_text("["), "JSON"),
    ],
)
def test_a_damaged_file_is_named_with_the_reason(finished_copy, name, damage, reason):
    damage(finished_copy.folder / name)
    with pytest.raises(UserError, match=rf"^{finished_copy.folder / name}.*{reason}"):
        _ = finished_copy.items("before"), finished_copy.sample, finished_copy.transfer


def test_a_long_sentence_leaves_the_sample_readable(finished_copy):
    texts, vectors = ["a " * 3000, *map(str, range(999))], np.ones((1000, 4))
    finished_copy.write_sample(texts, vectors, vectors)
    assert finished_copy.sample.sentences == tuple(texts)
