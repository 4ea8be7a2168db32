"""Every row of the table from the command line: one process, two, and killed on the way."""

from __future__ import annotations

import json
import signal
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from loops import SMALL
from resumed import assert_same_run, wait_for_steps
from sentence_transformers import SentenceTransformer
from toy import WORDS, sentences
from warm import isospace, isospace_main, run_together

from isospace.objectives import OBJECTIVES
from isospace.training.run import Run

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> dict[str, Path]:
    """Lines of text, long enough for two spans; and pairs with labels."""
    folder = tmp_path_factory.mktemp("texts")
    lines = [f"{a} {b}" for a, b in zip(sentences(400), sentences(400, seed=1), strict=True)]
    (folder / "lines.txt").write_text("\n".join(lines) + "\n")
    names = ("entailment", "neutral", "contradiction")
    pairs = [
        {"premise": a, "hypothesis": b, "label": names[i % 3]}
        for i, (a, b) in enumerate(zip(sentences(400), sentences(400, seed=1), strict=True))
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return {"lines": folder / "lines.txt", "pairs": folder / "pairs.jsonl"}


def words(name: str, model: Path, texts: dict[str, Path], output: Path) -> list[str]:
    """`isospace train` of a row at a toy's size, 12 updates."""
    kind = OBJECTIVES[name]
    text = ["--corpus", str(texts["lines"])]
    if kind.reads_labels:
        text = ["--corpus", str(texts["pairs"]), "--columns", "premise", "hypothesis"]
        text += ["--label-column", "label"]
    if kind().reads_teacher:
        text += ["--teacher", "base+bm25", "--mined", "1"]
    small = [
        (field.name, value if isinstance(value, tuple) else (value,))
        for field in fields(kind)
        if (value := SMALL.get(field.name)) is not None
    ]
    options = [
        word
        for option, values in small
        for word in (f"--{option.replace('_', '-')}", *map(str, values))
    ]
    return [
        "train", *text, "--no-near-duplicates", "--model", str(model), "--batch-size", "16",
        "--budget", "192", "sentences", "--learning-rate", "1e-3", "--evaluations", "2",
        "--select", "last", "--checkpoint-minutes", "0", "--output", str(output), name, *options,
    ]  # fmt: skip


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_row_trains_is_killed_goes_on_and_ships(name, toy_model, texts, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = isospace(*words(name, toy_model, texts, whole))
    assert process.wait() == 0, process.err
    process = isospace(*words(name, toy_model, texts, killed))
    wait_for_steps(killed, 5, process)
    process.send(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    again = isospace("train", "--resume", killed)
    assert again.wait() == 0, again.err
    assert_same_run(Run(whole), Run(killed))
    shipped = SentenceTransformer(str(whole / "model"), device="cpu")
    assert np.isfinite(shipped.encode([" ".join(WORDS[:5])])).all()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_two_processes_share_a_row(name, toy_model, texts, tmp_path):
    """That they are equal where nothing is drawn is tested on the loop itself."""
    run_together(2, isospace_main, words(name, toy_model, texts, tmp_path / "both"))
    results = Run(tmp_path / "both").finished
    assert results.steps == 12
    assert results.evaluations[-1]["uniformity"] != results.evaluations[0]["uniformity"]
