import random
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from isospace.config import TrainConfig
from isospace.encoders.settings import Prompts
from isospace.errors import UserError
from isospace.evaluation.benchmark import HeldOutScores
from isospace.system.lifecycle import random_state, set_random_state
from isospace.training import checkpoint
from isospace.training.evaluations import run_evaluation


def draw():
    # An odd number of normals: the second of a pair waits in numpy's state.
    return torch.rand(3).tolist(), np.random.randn(3).tolist(), random.random()


def test_random_state_continues_every_stream(tmp_path):
    draw()
    checkpoint.save(tmp_path / "a.pt", {"random": random_state()})
    expected = draw()
    draw()
    set_random_state(checkpoint.load(tmp_path / "a.pt")["random"])
    assert draw() == expected


def test_a_full_disk_is_an_os_error_that_names_the_file(tmp_path):
    """The command line answers those in a sentence; torch's writer raises RuntimeError."""
    resource = pytest.importorskip("resource", reason="needs a limit on the size of files")
    path = tmp_path / "a.pt"
    checkpoint.save(path, {"step": 1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(OSError, match=r"a\.pt:"):
            checkpoint.save(path, {"weights": torch.zeros(1 << 18)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert checkpoint.load(path)["step"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]


def test_an_evaluation_leaves_every_stream_where_it_was():
    def measure(*_):
        return HeldOutScores({"drawn": torch.rand(1).item()}, None, None)

    held_out, benchmark = SimpleNamespace(measure=measure), SimpleNamespace(labels=None)
    encoder = SimpleNamespace(noise=SimpleNamespace(rates=(0.1,)), prompts=Prompts())
    evaluation = partial(run_evaluation, TrainConfig(), encoder, held_out, benchmark, "float32")
    state = random_state()
    expected = draw()
    set_random_state(state)
    assert evaluation() == evaluation()
    assert draw() == expected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ""),
        ({"format": 0}, "another version"),
        ({"format": checkpoint.FORMAT, "step": Path()}, ""),  # pickle would call `Path`
    ],
)
def test_what_is_no_checkpoint_of_tensors_and_plain_values_is_named(tmp_path, content, words):
    path = tmp_path / "last.pt"
    if content is None:
        path.write_bytes(b"not a checkpoint")
    else:
        torch.save(content, path)
    with pytest.raises(UserError, match=rf"last\.pt: .*{words}"):
        checkpoint.load(path)


def test_damaged_weights_are_named(tmp_path):
    path, model = tmp_path / "kept.safetensors", torch.nn.Linear(2, 2)
    checkpoint.save_weights(path, model)
    checkpoint.put_weights(path, model)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UserError, match=r"kept\.safetensors:"):
        checkpoint.load_weights(path)
