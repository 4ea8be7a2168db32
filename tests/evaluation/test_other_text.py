"""What an encoder gains or loses on text that is not the corpus."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
from sts_files import write_senteval
from toy import sentences, write_documents

from isospace.config import CorpusConfig
from isospace.corpus.corpus import load_corpus
from isospace.corpus.groups import Pairs
from isospace.errors import UserError
from isospace.evaluation.benchmark import Benchmark
from isospace.evaluation.other_text import (
    CARRIED,
    OtherText,
    carried,
    gains_over,
    require_other_text,
)
from isospace.evaluation.pairs import ScoredPairs
from isospace.evaluation.sts import load_sts_data
from isospace.statistics.gains import gain
from isospace.system.files import cache_folder

LINES = SimpleNamespace(related=None, pairs=Pairs())
"""A corpus without docstrings, as far as it is asked."""


@functools.cache
def direction(text):
    return np.random.default_rng(list(text.encode())).normal(size=32)


def encode(texts, noise=0.0):
    """A text is the sum of its words' directions; noise is drawn anew for each text."""
    rows = []
    for text in texts:
        words = [direction(word) for word in text.split()]
        rows.append(np.sum(words, axis=0) + noise * len(words) * direction(text))
    return np.array(rows, dtype=np.float32)


@pytest.fixture(scope="module", autouse=True)
def _whole():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("isospace.evaluation.other_text.carried", carried)
        yield


@pytest.fixture(scope="module")
def other_text():
    return OtherText.make(LINES)


def test_what_chooses_shares_nothing_with_what_judges(other_text):
    assert other_text.validation_pairs.keys() == other_text.test_pairs.keys() == CARRIED.keys()
    for name, judges in other_text.test_pairs.items():
        chooses = other_text.validation_pairs[name]
        assert len(judges) >= 400
        assert len(chooses) >= 200
        for part in ("first", "second", "groups"):
            assert not set(getattr(chooses, part)) & set(getattr(judges, part))


def test_docstrings_are_no_other_text_for_docstrings(tmp_path):
    pairs = ["\n\n".join(pair) for pair in carried("docstrings", "test")]
    functions = [f"def f{number}():\n    {text!r}\n" for number, text in enumerate(pairs)]
    for part in range(20):
        (tmp_path / f"module{part}.py").write_text("\n".join(functions[part::20]))
    config = CorpusConfig(corpus=(f"docstrings:{tmp_path}",))
    found = OtherText.make(load_corpus(config, cache_folder()))
    assert list(found.test_pairs) == list(found.validation_pairs) == ["definitions"]
    assert found.described.startswith("definitions (600 pairs); docstrings are left out")


def test_a_folder_judges_by_its_held_out_pairs(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("\n".join(sentences(5000)))
    found = OtherText.make(LINES, [str(other)])
    assert list(found.test_pairs) == ["other", *CARRIED]
    benchmark = Benchmark.make(load_corpus(CorpusConfig(corpus=(str(other),)), cache_folder()))
    assert benchmark.split
    assert found.test_pairs["other"].first == benchmark.pairs.first
    assert not set(found.validation_pairs["other"].first) & set(benchmark.pairs.first)
    [score] = found.measure(encode)["other"].by_seed
    assert score == pytest.approx(benchmark.measure(encode).retrieval.mrr)
    write_documents(tmp_path / "small")  # too small to be split
    found = OtherText.make(LINES, [str(tmp_path / "small")])
    assert "small" in found.test_pairs.keys() - found.validation_pairs.keys()


@pytest.mark.parametrize(
    ("folder", "corpus"),
    [
        ("docs/api", "docs"),
        ("./docs", "docs/api/a.md"),
        ("docstrings", "docstrings"),
        ("src", "docstrings:src/isospace"),
    ],
)
def test_a_part_of_the_corpus_is_no_other_text(tmp_path, monkeypatch, folder, corpus):
    (tmp_path / "docs" / "api").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"^`other_text` {folder}: .*{corpus}"):
        require_other_text([folder], ["notes.txt", corpus])


def test_standard_input_is_no_part_of_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    require_other_text(["."], ["-"])


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sts")
    write_senteval(folder)
    return load_sts_data(str(folder))


def test_sts_is_the_average_of_the_test_sets(tasks):
    found = OtherText.make(LINES, tasks=tasks)
    assert found.described.startswith("STS (average of the test sets), docstrings (400 pairs)")
    corpus = SimpleNamespace(held_out=lambda places: [], test=None)
    benchmark = Benchmark.make(corpus, OtherText.make(LINES).test_pairs["definitions"], tasks)
    measured = benchmark.measure(encode)
    [average] = found.measure(encode)["STS"].by_seed
    assert f"{100 * average:.2f}" == f"{measured.scores.sts.paper_row['Avg']:.2f}"

    def refuse_sts(texts):
        assert "0 a" not in texts
        return encode(texts)

    # What the benchmark encoded is not encoded again.
    again = found.measure(refuse_sts, measured=measured)
    assert again["STS"].by_seed == found.measure(encode)["STS"].by_seed


def test_sts_pairs_among_the_labels_do_not_judge(tasks):
    [year] = (p for p in tasks["STS12"].subsets.values() if p.name.endswith("MSRpar"))
    labels = ScoredPairs("labels", year.second[:1], year.first[:1], np.array([1.0]), "own file")
    without = OtherText.make(LINES, tasks=tasks, labels=labels)
    assert (~without.known.unseen["STS12"]).sum() == 5  # of each sub-set one
    measured = without.measure(encode)
    assert "STS" not in measured
    values = measured["STS unseen"].values
    assert "STS unseen (average of the test sets, without 24 pairs that " in without.described
    assert values.shape[1] == sum(map(len, without.known.gold.values()))


def test_items_on_disk_say_what_was_measured(other_text):
    start = other_text.measure(encode)
    after = other_text.measure(functools.partial(encode, noise=0.3))
    before, later = other_text.items(start), other_text.items(after)
    found = gains_over([later], before)
    assert found == {name: gain(after[name], start[name]) for name in CARRIED}
    assert all(one.high < 0 for one in found.values())
    assert gains_over([before, later], before)["definitions"].seeds == 2
    other = later | {"docstrings ids": later["definitions ids"]}
    assert list(gains_over([later, other], before)) == ["definitions"]
