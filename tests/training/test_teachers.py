"""Teachers, lists and mined candidates, against what is computed by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from toy import sentences, write_toy_cross_encoder, write_toy_model
from transformers import BertForSequenceClassification

from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.evaluation.bm25 import BM25
from isospace.objectives import RankCSE, SimCSE
from isospace.operators.fusion import fuse
from isospace.system.progress import Silent
from isospace.training import teachers
from isospace.training.lists import FALSE_NEGATIVE, Lists
from isospace.training.train import train

TEXTS = sentences(60)
EVERY = np.arange(len(TEXTS))


@pytest.fixture(scope="module")
def encoder(toy_model):
    return load_encoder(str(toy_model), device="cpu")


@pytest.fixture(scope="module")
def sided():
    return teachers.LinesBySide(EVERY[::2], EVERY[10:], "query", TEXTS.__getitem__, "texts")


@pytest.fixture(scope="module")
def cosines(encoder, sided, tmp_path_factory):
    return teachers.Cosines.made(encoder, sided, tmp_path_factory.mktemp("cache"), Silent())


QUERIES, OWN = np.array([4, 0, 20]), np.array([[11, 30], [12, 4 + 20], [59, 10]])


def test_cosines_are_the_encoder_s(encoder, cosines):
    vectors = encoder.embed(TEXTS)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    everything = vectors @ vectors.T
    texts = np.array([11, 10, 59])
    # Kept as float16.
    assert cosines.scores(QUERIES, texts) == pytest.approx(everything[QUERIES][:, texts], abs=1e-3)
    expected = np.take_along_axis(everything[QUERIES], OWN, 1)
    assert cosines.scores(QUERIES, OWN) == pytest.approx(expected, abs=1e-3)


def test_fused_is_fusion_over_all_texts_that_are_looked_for(sided, cosines):
    fused = teachers.Fused(cosines, sided, weight=1.5)
    looked_for = sided.texts
    words = BM25([TEXTS[line] for line in looked_for]).scores([TEXTS[line] for line in QUERIES])
    whole = fuse(cosines.scores(QUERIES, looked_for), words, 1.5)
    assert fused.scores(QUERIES, looked_for) == pytest.approx(whole, abs=1e-5)
    # Of a few texts the same numbers, whatever is asked about beside them.
    places = np.searchsorted(looked_for, OWN)
    own = np.take_along_axis(whole, places, 1)
    assert fused.scores(QUERIES, OWN) == pytest.approx(own, abs=1e-5)
    assert fused.scores(QUERIES, OWN[0]) == pytest.approx(whole[:, places[0]], abs=1e-5)


def test_a_cross_encoder_gives_its_logits(toy_model, tmp_path):
    cross = write_toy_cross_encoder(tmp_path / "cross", toy_model)
    teacher = teachers.CrossEncoderTeacher(str(cross), "cpu", TEXTS.__getitem__)
    found = teacher.scores(QUERIES, OWN)
    model = BertForSequenceClassification.from_pretrained(cross).eval()
    tokenizer = load_encoder(str(cross), device="cpu").tokenizer
    inputs = tokenizer(TEXTS[4], TEXTS[30], return_tensors="pt")
    with torch.no_grad():
        expected = model(**inputs).logits.item()
    assert found[0, 1] == pytest.approx(expected, abs=1e-5)
    assert np.isnan(teacher.scores(QUERIES, EVERY)).all()


class Table(teachers.Teacher):
    """Scores in a matrix of all lines."""

    digest = "table"

    def __init__(self, table):
        self.table = table

    def scores(self, queries, texts):
        if texts.ndim == 1:
            return self.table[queries][:, texts].copy()
        return np.take_along_axis(self.table[queries], texts, 1)


def lists_of(scores, pool, numbers, pairs, mined, teacher=None):
    ranker = Table(scores)
    pairs = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return Lists(ranker, teacher or ranker, mined, np.array(pool), np.array(numbers), pairs, seed=3)


def asked_by_line_0():
    """Line 1 is its own, 2 of the same document, 3 too near: scores, and documents."""
    scores = np.full((200, 200), -1.0, np.float32)
    scores[0, :5] = [0, 0.8, 0.7, FALSE_NEGATIVE * 0.8 + 1e-3, 0.6]
    numbers = np.arange(200)
    numbers[2] = 1
    return scores, numbers


def test_candidates_are_near_and_neither_related_nor_likely_right():
    scores, numbers = asked_by_line_0()
    scores[0, 5:65] = 0.5 - np.arange(60) / 1000
    lists = lists_of(scores, range(1, 200), numbers, [(0, 1), (0, 4)], 4)
    drawn = [lists.candidates(np.array([[0, 1]]), micro)[0].tolist() for micro in range(300)]
    assert {line for lines in drawn for line in lines} == set(range(5, 55))  # the 50 nearest
    assert all(len(set(lines)) == 4 for lines in drawn)
    assert drawn[0] != drawn[1]
    again = lists.candidates(np.array([[7, 9], [0, 1]]), 1)
    assert again[1].tolist() == drawn[1]  # whatever stands beside it
    assert replace(lists, seed=4).candidates(np.array([[0, 1]]), 1)[0].tolist() != drawn[1]


def test_lists_are_the_batch_and_then_the_candidates():
    scores = np.random.default_rng(0).random((20, 20)).astype(np.float32)
    lists = lists_of(scores, range(20), np.arange(20), [], 2)
    rows = np.array([[0, 10, 15, 16], [1, 11, 17, 18]])  # the second half of a batch of four
    second = np.array([12, 13, 10, 11])
    found = lists.scores(rows, second, first=2)
    assert found.shape == (2, 6)
    assert found[0].tolist() == scores[0, [12, 13, 10, 11, 15, 16]].tolist()
    assert found[1].tolist() == scores[1, [12, 13, 10, 11, 17, 18]].tolist()
    assert replace(lists, teacher=None).scores(rows, second, 2) is None


def test_the_best_passage_is_the_teacher_s_among_the_nearest():
    ranked, said = np.zeros((2, 300, 300), np.float32)
    ranked[0] = np.arange(300)
    said[0, 260], said[0, 3] = 1.0, 2.0  # the latter is not among the 50 nearest
    lists = lists_of(ranked, range(300), np.arange(300), [], 0, Table(said))
    assert lists.best(np.array([0])).tolist() == [260]
    nothing = Table(np.full((300, 300), np.nan, np.float32))
    lists = lists_of(ranked, range(300), np.arange(300), [], 0, nothing)
    assert lists.best(np.array([0])).tolist() == [299]


@pytest.fixture
def follower(on_documents, tmp_path):
    """A run on documents that follows the base model fused with BM25."""
    of_teacher = {"objective": RankCSE(), "teacher": "base+bm25", "mined": 2}
    return replace(on_documents, output=tmp_path / "run", **of_teacher)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": SimCSE()}, "`teacher` base.bm25:"),
        ({"teacher": "nowhere/at/all"}, "nowhere/at/all: not a folder"),
        ({"mined": 500}, "`mined` 500: the corpus has"),
    ],
)
def test_what_is_refused(follower, changes, message):
    with pytest.raises(UserError, match=message):
        train(replace(follower, **changes))


def test_a_run_follows_a_teacher_and_is_not_resumed_with_another(follower, tmp_path, caplog):
    teacher = write_toy_model(tmp_path / "teacher")
    with caplog.at_level("INFO", "isospace"):
        finished = train(replace(follower, teacher=f"{teacher}+bm25"))
    said = [line for line in caplog.messages if line.startswith(f"teacher {teacher} and BM25 (wei")]
    assert len(said) == 1
    metrics = (finished.run.folder / "metrics.jsonl").read_text().splitlines()
    terms = [row["terms"] for row in map(json.loads, metrics) if "terms" in row]
    assert set(terms[0]) == {"info_nce", "consistency", "distillation"}
    state = torch.load(finished.run.last_checkpoint, weights_only=False)
    assert "BM25" in state["digests"]["teacher"]
    shipped = load_encoder(str(finished.run.folder / "model"), device="cpu").model
    start = load_encoder(follower.model, device="cpu").model
    assert shipped.state_dict().keys() == start.state_dict().keys()

    finished.run.results_path.unlink()
    [weights] = teacher.glob("*.safetensors")
    save_file({name: x + 1 for name, x in load_file(weights).items()}, weights, {"format": "pt"})
    with pytest.raises(UserError, match="`teacher`"):
        train(resume=finished.run.folder)
