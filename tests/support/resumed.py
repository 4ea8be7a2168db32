"""Runs that are killed on the way and gone on with: until when to wait, and what must be equal."""

import shutil
import time
from contextlib import contextmanager

import numpy as np
import pytest
from safetensors.torch import load_file
from warm import isospace_main

from isospace.training import fit
from isospace.training.train import train


def train_saving_after(seconds, config):
    """Train in a process of its own, with checkpoints every few seconds."""
    fit.CHECKPOINT_SECONDS = seconds
    train(config)


def main_saving_often(words):
    """`isospace` in a process of its own, with a checkpoint in every tenth of a second."""
    fit.CHECKPOINT_SECONDS = 0.06
    return isospace_main(words)


class Killed(BaseException):
    """The end of what `killed_at` stopped."""


@contextmanager
def cut_short(owner, name, before=True, call=1, by=KeyboardInterrupt):
    """Let the call-th use of a function raise an error, before or after its work."""
    real, calls = getattr(owner, name), []

    def last(*arguments, **options):
        calls.append(arguments)
        if len(calls) == call and before:
            raise by
        result = real(*arguments, **options)
        if len(calls) == call:
            raise by
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, last)
        yield


@contextmanager
def killed_at(owner, name, before, call=1):
    """Let the call-th use of a function be the last thing that happens in the block."""
    with pytest.raises(Killed), cut_short(owner, name, before, call, Killed):
        yield


def kept(run):
    return {name: value.numpy() for name, value in load_file(run.kept_weights).items()}


def assert_same_weights(one, other):
    ours, theirs = (load_file(run.model_folder / "model.safetensors") for run in (one, other))
    assert ours.keys() == theirs.keys()
    assert all(ours[name].equal(theirs[name]) for name in ours)


def assert_same_run(first, second):
    one, other = kept(first), kept(second)
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert np.array_equal(values, other[name]), name
    assert first.results is not None
    assert second.results is not None
    assert first.results.training.evaluations == second.results.training.evaluations
    steps = [[line["step"] for line in run.steps()] for run in (first, second)]
    assert steps[0] == steps[1] == list(range(1, len(steps[0]) + 1))


def as_stopped(run, folder):
    """A copy of a finished search as it was before its test: only its weights are there."""
    shutil.copytree(run.folder, folder)
    for name in ("results.json", "candidates.json"):
        (folder / name).unlink()
    shutil.rmtree(folder / "model")
    return folder


def wait_for_steps(run_folder, steps, *processes):
    """Until the run has logged so many updates."""
    metrics = run_folder / "metrics.jsonl"
    while all(process.running for process in processes):
        if metrics.is_file() and metrics.read_text().count('"kind": "step"') >= steps:
            return
        time.sleep(0.002)
    pytest.fail(f"ended before step {steps}: {[(p.wait(), p.err) for p in processes]}")
