"""Nearest texts: against a dull loop, slice by slice, and as a user asks for them."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from toy import sentences

from isospace.cli import main
from isospace.errors import UserError
from isospace.search.neighbours import find_neighbours, read_corpus

RANDOM = np.random.default_rng(0)
TEXTS = [f"text {i}" for i in range(50)]
VECTORS = {text: vector for text, vector in zip(TEXTS, RANDOM.normal(size=(50, 4)), strict=True)}


def encode(texts):
    return np.array([VECTORS[text] for text in texts], np.float32)


def test_a_corpus_is_cleaned_and_every_text_is_there_once(tmp_path):
    path = tmp_path / "captions.txt.gz"
    path.write_bytes(gzip.compress(b"A  dog.\nA dog.\nA dog runs.\n\nHi\n"))
    for files in ([str(path)], str(path)):
        assert list(read_corpus(files)) == ["A dog.", "A dog runs.", "Hi"]


def test_of_documents_passages_are_searched(tmp_path):
    parts = "# The title\n\n## Of cats\n\nOne cat sat here. It slept.\n\n## Of dogs\n\nTwo dogs ran off."
    (tmp_path / "a.md").write_text(parts)
    found = list(read_corpus([str(tmp_path)]))
    assert found == ["One cat sat here. It slept.", "Two dogs ran off."]


@pytest.fixture
def words(toy_model, tmp_path):
    corpus = tmp_path / "c.jsonl"
    lines = [json.dumps({"caption": text}) for text in sentences(40)]
    corpus.write_text("\n".join(lines), encoding="utf-8")
    return ["neighbours", toy_model, "--corpus", corpus, "--column", "caption"]


def run(capsys, words):
    status = main([str(word) for word in words])
    return status, *capsys.readouterr()


def test_two_models_side_by_side(capsys, words, toy_model, tmp_path):
    other = tmp_path / "other"
    other.symlink_to(toy_model)
    command, first, *options = words
    asked = [command, first, other, *options, "--query", f" {sentences(1)[0]} ", "-k", "3"]
    asked += ["--query", "blue river"]
    status, out, err = run(capsys, asked)
    assert status == 0
    assert [line.split(maxsplit=1) for line in err.splitlines()] == [
        ["reading", str(tmp_path / "c.jsonl")],
        ["corpus", "40 distinct texts"],
        ["encode", f"40 texts by {toy_model}"],
        ["encode", f"40 texts by {other}"],
    ]
    for query in (sentences(1)[0], "blue river"):
        assert f"{query}  (cosine, 40 distinct texts, the query itself left out)" in out
    assert f"| rank | {toy_model} | {other} |" in out

    status, out, err = run(capsys, [*asked, "--json"])
    assert err == ""
    report = json.loads(out)
    assert [entry["query"] for entry in report["queries"]] == [sentences(1)[0], "blue river"]
    lists = report["queries"][0]["neighbours"]
    assert lists[str(toy_model)] == lists[str(other)]
    found = lists[str(other)]
    assert [hit["text"] in sentences(40)[1:] for hit in found] == [True] * 3
    assert found == sorted(found, key=lambda hit: -hit["cosine"])


@pytest.mark.parametrize(
    ("queries", "k", "setting"),
    [(["a", " "], 1, "`query`"), ([], 1, "`query`"), (["a"], 0, "^`k` 0")],
)
def test_python_users_are_refused_too(queries, k, setting):
    with pytest.raises(UserError, match=setting):
        find_neighbours(["minilm"], ["a"], queries, k)
