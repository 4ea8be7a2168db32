"""The folder of a run: who holds it, what signals and kills leave, what is resumed and refused."""

import random
import shutil
import signal
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from resumed import assert_same_run, kept, train_saving_after, wait_for_steps
from safetensors.torch import load_file, save_file
from toy import sentences, short_run, write_toy_model
from warm import WarmProcess, isospace, isospace_main, run_together, together

from isospace.comparison.cells import Cell
from isospace.comparison.compare import candidate, compare
from isospace.encoders.places import ADAPT_SETTINGS
from isospace.errors import Interrupted, Stopped, UserError
from isospace.evaluation.benchmark import HeldOutScores
from isospace.objectives import DiffCSE
from isospace.system.lifecycle import working_in
from isospace.system.progress import Silent
from isospace.training import checkpoint
from isospace.training.fit import Fit
from isospace.training.run import Run
from isospace.training.train import train


def long(value):
    """Return a value of a parameter that only `make test-all` tries."""
    return pytest.param(value, marks=pytest.mark.exhaustive)


def command(config, updates=30, batch=16):
    return [
        "train",
        "--corpus", *config.text.corpus, "--no-near-duplicates", "--model", config.model,
        "--batch-size", str(batch), "--budget", str(batch * updates), "sentences", "--learning-rate", "1e-3",
        "--evaluations", "3", "--select", "last", "--output", str(config.output), "whitenedcse",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def whole(toy_model, toy_corpus, tmp_path_factory):
    config = short_run(toy_model, toy_corpus, tmp_path_factory.mktemp("whole") / "run")
    return train(replace(config, budget=(480, "sentences"), evaluations=3)).run


@pytest.mark.parametrize("seed", [1, long(2), long(3)])
def test_a_kill_at_any_step_loses_nothing(config, whole, seed):
    source = random.Random(seed)
    target, seconds = source.randint(1, 25), source.choice([0, 0.06])
    killed = replace(config, budget=(480, "sentences"), evaluations=3)
    process = WarmProcess(train_saving_after, seconds, killed)
    wait_for_steps(killed.output, target, process)
    process.send(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL  # it was still at work
    assert_same_run(whole, train(resume=killed.output).run)


@pytest.mark.parametrize("writes", [long(1), 4, 5])
def test_a_kill_between_two_files_mixes_no_looks(config, monkeypatch, writes):
    """What is done again after it may come out otherwise, as on a GPU: here, as collapsed."""
    config = replace(config, evaluations=3, select="label-free")
    names = ("pairs_loss", "pairs_mrr", "alignment", "uniformity", "neighbour_overlap")
    weights, done, measured = {}, [], {**dict.fromkeys(names, 0.5), "effective_rank": 10.0}
    evaluation = Fit._evaluate

    def noting(session):
        weights[session.loop.step] = deepcopy(session.encoder.model.state_dict())
        evaluation(session)

    def killed(write):
        def writing(*args):
            write(*args)
            done.append(write)
            if len(done) == writes:
                raise KeyboardInterrupt

        return writing

    monkeypatch.setattr(Fit, "_evaluate", noting)
    monkeypatch.setattr(
        "isospace.training.fit.run_evaluation", lambda *_: HeldOutScores(dict(measured), None, None)
    )
    for name in ("save", "save_weights"):
        monkeypatch.setattr(checkpoint, name, killed(getattr(checkpoint, name)))
    with pytest.raises(Stopped):
        train(config)
    measured["effective_rank"] = 1.0
    outcome = train(resume=config.output)
    expected = weights[outcome.results.training.choice.step]
    for name, values in kept(outcome.run).items():
        assert np.array_equal(values, expected[name].numpy()), name


def test_ctrl_c_ends_cleanly_and_resumes(config, whole):
    process = isospace(*command(config))
    wait_for_steps(config.output, 2, process)
    process.send(signal.SIGINT)
    assert process.wait() == 1
    assert "Traceback" not in process.err
    assert "isospace train --resume" in process.err
    assert_same_run(whole, train(resume=config.output).run)


@pytest.mark.exhaustive
@pytest.mark.parametrize("world", [2, 3])
def test_several_processes_share_a_run_and_go_on_with_it(config, tmp_path, world):
    stopped = replace(config, output=tmp_path / "stopped")
    run_together(world, isospace_main, command(config, 12, 6 * world))
    processes = together(world, isospace_main, command(stopped, 12, 6 * world))
    wait_for_steps(tmp_path / "stopped", 5, *processes)
    for process in processes:  # as torchrun passes it on
        process.send(signal.SIGTERM)
    assert [process.wait() for process in processes] == [1] * world
    assert not (tmp_path / "stopped" / "results.json").exists()
    with pytest.raises(UserError, match=f"on {world} processes"):
        train(resume=tmp_path / "stopped")
    run_together(world, isospace_main, ["train", "--resume", str(tmp_path / "stopped")])
    assert_same_run(Run(tmp_path / "run"), Run(tmp_path / "stopped"))


@pytest.fixture(scope="module")
def begun(toy_model, tmp_path_factory):
    """A folder of all that a run reads, and of the run, as a kill leaves it before its results."""
    folder = tmp_path_factory.mktemp("begun")
    (folder / "text.txt").write_text("\n".join(sentences(200)), encoding="utf-8")
    (folder / "queries.txt").write_text("\n".join(sentences(20, seed=5)))
    model = shutil.copytree(toy_model, folder / "model")
    generator = write_toy_model(folder / "generator", masked_words=True)
    config = replace(
        short_run(model, folder / "text.txt", folder / "run"),
        objective=DiffCSE(generator=str(generator)),
        queries=folder / "queries.txt",
        views="both",
        budget=(32, "sentences"),
    )
    train(config).run.results_path.unlink()
    return folder


def change_weights(folder):
    [weights] = folder.rglob("model.safetensors")
    other = {name: value + 1 for name, value in load_file(weights).items()}
    save_file(other, weights, {"format": "pt"})


def turn_a_bit(settings):
    settings.write_text(settings.read_text().replace('decay": 0.0', 'decay": 4.0'))


def change_text(path):
    path.write_text("\n".join(sentences(220)), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "name", "named"),
    [
        (change_weights, "model", "`model`"),
        (turn_a_bit, "run/config.json", r"config\.json"),
        (change_text, "text.txt", "`corpus`"),
        (change_weights, "generator", "`generator`"),
        (change_text, "queries.txt", "`queries`"),
    ],
)
def test_what_has_changed_is_refused_on_resume(begun, change, name, named):
    before = {path: path.read_bytes() for path in begun.rglob("*") if path.is_file()}
    change(begun / name)
    with pytest.raises(UserError, match=f"{named} has changed"):
        train(resume=begun / "run")
    for path, content in before.items():
        path.write_bytes(content)


def test_a_finished_run_whose_model_was_removed_makes_it_again(finished_copy):
    weights = finished_copy.model_folder / "model.safetensors"
    whole = weights.read_bytes()
    before = finished_copy.results
    cell = Cell("cell", finished_copy.folder, finished_copy.config)
    shutil.rmtree(finished_copy.model_folder)
    assert finished_copy.results == before, "a report shows them"
    assert not cell.finished, "a comparison makes the model again"
    again = train(resume=finished_copy.folder).results
    assert cell.finished
    cost = {"seconds": again.training.seconds, "memory_mb": again.training.memory_mb}
    assert again == replace(before, training=replace(before.training, **cost))
    assert weights.read_bytes() == whole


def test_a_finished_run_without_its_checkpoint_keeps_its_weights(finished_copy):
    run = finished_copy
    shutil.rmtree(run.model_folder)
    run.last_checkpoint.unlink()
    kept = run.kept_weights.read_bytes()
    assert train(resume=run.folder).results == run.results
    assert run.kept_weights.read_bytes() == kept


def test_seconds_and_memory_are_of_the_sessions_before_a_resumption_too(finished_copy):
    last = finished_copy.last_checkpoint
    checkpoint.save(last, {**checkpoint.load(last), "seconds": 1e6, "memory_mb": 1e6})
    finished_copy.results_path.unlink()
    results = train(resume=finished_copy.folder).results
    assert results.training.seconds > 1e6
    assert results.training.memory_mb == 1e6


def test_a_new_folder_is_named_after_its_model_or_counts_several(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = replace(config, model="some/model", output=None)
    names = [Run.create(config, "adapt", models=count).folder.name for count in (1, 3)]
    assert [name.partition("-adapt-")[2] for name in names] == ["model", "3-models"]


def test_two_processes_do_not_work_on_one_run(config, monkeypatch):
    """The second one, later, examines it as it was begun."""
    run = Run.create(replace(config, budget=(32, "sentences")))
    with (
        working_in(run.folder, "", "checkpoints/.lock"),
        pytest.raises(UserError, match="another process"),
    ):
        train(resume=run.folder)
    monkeypatch.setenv("ISOSPACE_DATA", "/no/such/folder")
    assert train(resume=run.folder).results.base.sts is None


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


OBJECTS = {"before/rank": np.array([{}], dtype=object)}


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("items.npz", lambda path: np.savez(path, **OBJECTS), "allow_pickle=False"),
        ("sample.npz", lambda path: path.write_bytes(path.read_bytes()[:-30]), "BadZipFile"),
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


class PressesCtrlC(Silent):
    """Sends SIGINT once, at a line (label, words in it), or at ("train", update)."""

    def __init__(self, moment, text=""):
        self._moment, self._text, self.lines = moment, text, []

    def _press(self, moment):
        if moment == self._moment:
            self._moment = None
            signal.raise_signal(signal.SIGINT)

    def line(self, label, text):
        self.lines.append(f"{label} {text}")
        if self._text in text:
            self._press(label)

    @contextmanager
    def bar(self, label, total, done=0):
        def advance(amount, note="", /):
            nonlocal done
            done += amount
            if amount:
                self._press((label, done))

        yield advance


@pytest.mark.parametrize("moment", ["corpus", "encoder"])
def test_while_it_loads_no_run_is_begun(config, moment):
    with pytest.raises(Interrupted, match="no run was begun"):
        train(config, progress=PressesCtrlC(moment))
    assert not config.output.exists()


@pytest.mark.parametrize(
    "moment",
    [
        "base model",  # the benchmark
        ("train", 10),  # before an evaluation
        long("evaluation"),
        long(("train", 20)),  # the last update
        "verdict",  # whose results are there already
        long("load it"),
    ],
)
def test_a_signal_at_any_moment_stops_a_run_and_nothing_is_lost(config, finished_run, moment):
    with pytest.raises(Interrupted, match=r"interrupted.*`resume`"):
        train(config, progress=PressesCtrlC(moment))
    run = Run(config.output)
    if moment in ("verdict", "load it"):
        assert_same_run(run, finished_run)
    else:
        assert run.results is None
    assert_same_run(train(resume=config.output).run, finished_run)


@pytest.mark.parametrize(("moment", "left"), [(("cell", "2 of 2"), 1), ((("train", 2),), 2)])
def test_a_stopped_comparison_begins_no_other_run_and_is_resumed(base, tmp_path, moment, left):
    settings = {name: candidate(name, base) for name in ("simcse", "dcl")}
    with pytest.raises(Interrupted, match="Continue with the same command"):
        compare(settings, 1, tmp_path / "c", progress=PressesCtrlC(*moment))
    assert not (tmp_path / "c" / "dcl").exists()
    assert Run(tmp_path / "c" / "simcse" / "seed-42").last_checkpoint.is_file()
    progress = PressesCtrlC("never")
    assert compare(settings, 1, tmp_path / "c", progress=progress) is not None
    assert len([line for line in progress.lines if line.startswith("cell")]) == left
