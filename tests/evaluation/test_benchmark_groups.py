"""Which held-out text chooses and which judges, and what belongs together in it."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import numpy as np
import pytest

from isospace.config import CorpusConfig
from isospace.corpus import build as build_module
from isospace.corpus import corpus as corpus_module
from isospace.corpus.corpus import Corpus, load_corpus
from isospace.corpus.documents import Document, Section
from isospace.errors import UserError
from isospace.evaluation.benchmark import Benchmark
from isospace.evaluation.held_out import validation_text
from isospace.evaluation.own_data import load_pairs
from isospace.evaluation.pairs import ScoredPairs, TextPairs

SYLLABLES = [a + b + c for a in "bdfgk" for b in "aeiou" for c in "lmnrs"]


def made(count: int, seed: int = 0) -> list[str]:
    """Sentences of which none nearly repeats another."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(SYLLABLES, k=12)) for _ in range(count)]


def table(path: Path, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def load(folder: Path, file: str, exclude: tuple[str, ...] = (), **options: object) -> Corpus:
    return load_corpus(CorpusConfig(corpus=(file,), **options), folder / "cache", exclude)


def plain(folder: Path, count: int) -> Corpus:
    file = folder / "text.txt"
    file.write_text("\n".join(made(count)))
    return load(folder, str(file))


def whole(half: str, sentences: list[str]) -> str:
    """The sentence that begins so."""
    return next(sentence for sentence in sentences if sentence.startswith(half))


def test_a_third_of_the_held_out_sentences_chooses(tmp_path):
    corpus = plain(tmp_path, 4000)
    held, benchmark, choosing = corpus.held_out(), Benchmark.make(corpus), validation_text(corpus)
    judged = {whole(first, held) for first in benchmark.pairs.first}
    chosen = {whole(first, held) for first in choosing.pairs.first}
    assert (len(chosen), len(judged)) == (133, 267)
    assert chosen | judged == set(held)
    assert set(benchmark.sample) == judged
    assert set(choosing.sentences) <= chosen
    assert benchmark.split
    assert len(set(benchmark.pairs.groups)) == 267


def test_fewer_than_400_held_out_sentences_choose_and_judge(tmp_path):
    corpus = plain(tmp_path, 3990)
    benchmark = Benchmark.make(corpus)
    assert not benchmark.split
    assert list(benchmark.pairs) == list(validation_text(corpus).pairs)
    assert len(benchmark.pairs) == 399
    scored = ScoredPairs("dev", ("a", "b"), ("c", "d"), np.array([1.0, 2.0]), "own file")
    assert Benchmark.make(corpus, labels=scored).split


def test_sentences_of_a_document_choose_or_judge_together(tmp_path):
    rows = [(text, str(i // 10)) for i, text in enumerate(made(4000))]
    document = dict(rows)
    corpus = load(tmp_path, table(tmp_path / "a.csv", ("text", "page"), rows), group="page")
    held, benchmark = corpus.held_out(), Benchmark.make(corpus)
    judged = [document[whole(first, held)] for first in benchmark.pairs.first]
    choosing = validation_text(corpus).pairs
    chosen = [document[whole(first, held)] for first in choosing.first]
    assert not set(judged) & set(chosen)
    assert choosing.unit == "groups by page"
    assert len(set(zip(chosen, choosing.groups, strict=True))) == len(set(chosen)) == 13
    assert not {document[corpus[int(row)]] for row in corpus.train_rows} & {*judged, *chosen}
    assert benchmark.pairs.unit == "groups by page"
    assert len(set(benchmark.pairs.groups)) == len(set(judged)) == 27
    assert len(set(zip(judged, benchmark.pairs.groups, strict=True))) == 27


def test_pairs_of_a_document_choose_or_judge_together(tmp_path):
    rows = [
        (a, b, str(i // 10)) for i, (a, b) in enumerate(zip(made(4000), made(4000, 1), strict=True))
    ]
    document = {row[:2]: row[2] for row in rows}
    file = table(tmp_path / "a.csv", ("q", "a", "page"), rows)
    corpus = load(tmp_path, file, columns=("q", "a"), group="page")
    benchmark, choosing = Benchmark.make(corpus), validation_text(corpus)
    judged = {document[pair] for pair in benchmark.pairs}
    assert benchmark.split
    assert (len(benchmark.pairs), len(choosing.pairs)) == (270, 130)
    assert not judged & {document[pair] for pair in choosing.pairs}
    assert not set(benchmark.sample) & set(choosing.sentences)
    assert len(set(benchmark.pairs.groups)) == len(judged) == 27
    assert len(set(choosing.pairs.groups)) == 13
    assert benchmark.pairs.unit == choosing.pairs.unit == "groups by page"


def test_the_users_own_pairs_have_groups(tmp_path):
    corpus = plain(tmp_path, 100)
    answers = made(6, seed=9)
    own = TextPairs("own", tuple(f"question {c}" for c in "abcdef"), (*answers[:5], answers[0]))
    benchmark = Benchmark.make(corpus, own)
    assert benchmark.split
    assert benchmark.pairs.unit == "groups"
    assert benchmark.pairs.groups[0] == benchmark.pairs.groups[5]
    assert (len(benchmark.pairs.groups), len(set(benchmark.pairs.groups))) == (6, 5)

    rows = [(*pair, page) for pair, page in zip(own, "xxyyzz", strict=True)]
    file = table(tmp_path / "own.csv", ("query", "document", "page"), rows)
    named = Benchmark.make(corpus, load_pairs(file, "page")).pairs
    assert list(named) == list(own)
    assert (named.groups, named.unit) == (tuple("xxyyzz"), "groups by page")


def test_docstrings_that_choose_are_none_of_the_users_pairs(tmp_path, monkeypatch):
    texts = made(2400, seed=4)
    pairs = list(zip(texts[:1200], texts[1200:], strict=True))
    modules = [(f"p/m{i // 8}.py", pair) for i, pair in enumerate(pairs)]
    for changed in (corpus_module, build_module):
        monkeypatch.setattr(changed, "versions_of", lambda name: {"p": "1"})
    texts = [("p/other.py", None, text) for text in made(300, seed=5)]
    texts += [(module, pair, pair[0]) for module, pair in modules]
    read = [
        Document("", "", (Section("", 0, (text,)),), group=module, summary_next=pair)
        for module, pair, text in texts
    ]
    monkeypatch.setattr(build_module, "read_docstrings", lambda name: read)
    chosen = validation_text(load(tmp_path, "docstrings")).pairs
    own = TextPairs(
        "own", tuple(first.upper() for first in chosen.first[:50]), chosen.second[50:100]
    )
    corpus = load(tmp_path, "docstrings", exclude=(*own.first, *own.second))
    choosing, benchmark = validation_text(corpus).pairs, Benchmark.make(corpus)
    for kept in (choosing, benchmark.pairs):
        assert not {*kept.first, *kept.second} & {*chosen.first[:50], *chosen.second[50:100]}
        assert kept.unit == "modules"
        assert set(kept.groups) <= {module for module, _ in modules}
    assert not set(choosing.groups) & set(benchmark.pairs.groups)
    assert len(choosing) > 300


def test_nothing_can_be_held_out_of_one_group(tmp_path):
    rows = [(text, "page") for text in made(300)]
    corpus = load(tmp_path, table(tmp_path / "a.csv", ("text", "id"), rows), group="id")
    with pytest.raises(UserError, match=r"`group`.*`pairs`"):
        Benchmark.make(corpus)
