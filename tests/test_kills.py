"""Commands that are killed at random moments go on to the files of an undisturbed run."""

import json
import random
import signal
import time

import pytest
from resumed import main_saving_often
from safetensors.torch import load_file
from toy import sentences
from warm import WarmProcess


def train(output, model, text):
    if (output / "config.json").exists():
        return ["train", "--resume", str(output)]
    return [
        *("train", "--corpus", str(text), "--no-near-duplicates", "--model", str(model)),
        *("--batch-size", "16", "--budget", "640", "sentences", "--learning-rate", "1e-3"),
        *("--evaluations", "3", "--precision", "float32"),
        *("--output", str(output), "simcse"),
    ]


def encode(output, model, text):
    return ["encode", str(model), str(text), "-o", str(output)]


def trained(output):
    results = json.loads((output / "results.json").read_text(encoding="utf-8"))
    weights = load_file(output / "model" / "model.safetensors")
    found = [results[name] for name in ("base", "adapted", "model_step")]
    found += [results["training"][name] for name in ("steps", "choice", "evaluations")]
    return found, {k: v.tolist() for k, v in weights.items()}


def encoded(output):
    return {path.name: path.read_bytes() for path in output.iterdir() if path.name[0] != "."}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("command", "made"), [(train, trained), (encode, encoded)])
def test_kills_at_any_moment_lose_nothing(command, made, toy_model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = tmp_path / "text.txt"
    text.write_text("\n".join(sentences(9_000)) + "\n", encoding="utf-8")
    for name in ("first", "whole"):  # the first one fills the cache, and is slower
        began = time.monotonic()
        process = WarmProcess(main_saving_often, command(tmp_path / name, toy_model, text))
        assert process.wait() == 0, process.err
        seconds = time.monotonic() - began
    whole = made(tmp_path / "whole")
    killed = 0
    for seed in range(5):
        output, draw = tmp_path / f"killed-{seed}", random.Random(seed)
        for _ in range(draw.randint(1, 4)):
            process = WarmProcess(main_saving_often, command(output, toy_model, text))
            time.sleep(draw.uniform(0.0, 0.95) * seconds)
            if process.running:
                process.send(signal.SIGKILL)
            status = process.wait()
            assert status in (0, -signal.SIGKILL), process.err
            killed += status != 0
        process = WarmProcess(main_saving_often, command(output, toy_model, text))
        assert process.wait() == 0, process.err
        assert made(output) == whole
    assert killed > 2
