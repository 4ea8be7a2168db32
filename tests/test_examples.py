"""The scripts of `examples/`, on small input."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from toy import sentences, write_documents

from isospace import load
from isospace.statistics.verdict import VerdictKind

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a script as a user would, in this process; gives what it prints."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_search_finds_the_paragraph_that_is_asked_for(run, tmp_path, toy_model):
    texts, folder = sentences(6), tmp_path / "manuals"
    folder.mkdir()
    (folder / "one.md").write_text("\n\n".join(texts[:3]), encoding="utf-8")
    (folder / "two.md").write_text("\n\n".join(texts[3:]), encoding="utf-8")
    question = texts[4]
    shown = run("search_your_documents", folder, question, "--model", toy_model)
    assert shown.splitlines()[0] == f"1.00  {question}"


def test_adapt_and_serve_ends_with_a_verdict_and_hits(run, tmp_path, toy_model):
    pytest.importorskip("langchain_core")
    documents = write_documents(tmp_path / "manuals", 700)
    question = (documents / "699.md").read_text(encoding="utf-8").split("\n\n")[-1].strip()
    arguments = ["--model", toy_model, "--budget", 5_000, "tokens", "--output", tmp_path / "run"]
    shown = run("adapt_and_serve", documents, question, *arguments)
    assert shown.lower().startswith(tuple(kind.value for kind in VerdictKind))
    assert question in shown


def test_compare_prints_a_latex_table_of_three_rows(run, toy_corpus, toy_model, tmp_path):
    small = ["--model", toy_model, "--seeds", 1, "--sentences", 256]
    shown = run("compare_objectives", toy_corpus, *small, "--output", tmp_path / "which")
    table = shown[shown.index(r"\begin{tabular}") :]
    assert all(f"\n{name} & " in table for name in ("simcse", "whitenedcse", "simcse++"))


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:'pin_memory'"
)
def test_the_stock_trainer_changes_and_saves_the_model(run, toy_corpus, toy_model, tmp_path):
    run("train_with_sentence_transformers", toy_corpus, toy_model, "--output", tmp_path / "out")
    text = sentences(1)[0]
    before, after = load(str(toy_model)).encode(text), load(str(tmp_path / "out")).encode(text)
    assert not np.allclose(before, after, atol=1e-4)


def test_whitened_vectors_find_their_partners_where_noise_hid_them(run, tmp_path):
    """Ten dimensions of meaning and ten of noise, which is three times as loud."""
    draw = np.random.default_rng(0)
    meaning = draw.normal(size=(1000, 10))
    for name in ("x", "y"):
        noise = 3 * draw.normal(size=(1000, 10))
        np.save(tmp_path / f"{name}.npy", np.hstack([meaning + 0.03 * noise, noise]))
    out = tmp_path / "map.npy"
    pair = tmp_path / "x.npy", tmp_path / "y.npy"
    shown = run("whiten_vectors", *pair, "--power", 1, "--output", out)
    before, after = (float(part.split()[0]) for part in shown.split(": ")[1].split(", "))
    assert after > before + 10
    assert np.load(out).shape == (20, 20)
