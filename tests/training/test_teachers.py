"""Teachers, lists and mined candidates, against what is computed by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub.errors import EntryNotFoundError
from loops import CONFIG, make_loop
from toy import (
    WORDS,
    sentences,
    short_run,
    write_documents,
    write_toy_cross_encoder,
    write_toy_model,
)
from transformers import BertConfig, BertForSequenceClassification

from isospace.config import CorpusConfig
from isospace.encoders.cross import PairScorer, is_cross_encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.places import Place
from isospace.errors import UserError
from isospace.evaluation.bm25 import BM25
from isospace.objectives import RankCSE, SimCSE
from isospace.operators.fusion import fuse
from isospace.operators.nearest import unit_rows
from isospace.system.progress import Silent
from isospace.training.lists import FALSE_NEGATIVE, Lists
from isospace.training.similar import Similar
from isospace.training.teachers import (
    Cosines,
    CrossEncoderTeacher,
    FileTeacher,
    Fused,
    LinesBySide,
    LineVectors,
    Mean,
    Teacher,
)
from isospace.training.train import train

TEXTS = sentences(60)
EVERY = np.arange(len(TEXTS))


@pytest.fixture(scope="module")
def encoder(toy_model):
    return load_encoder(str(toy_model), device="cpu")


@pytest.fixture(scope="module")
def sided():
    return LinesBySide(EVERY[::2], EVERY[10:], "query", TEXTS.__getitem__, "texts")


@pytest.fixture(scope="module")
def cosines(encoder, sided, tmp_path_factory):
    return Cosines.made(encoder, sided, tmp_path_factory.mktemp("cache"), Silent())


@pytest.fixture(scope="module")
def cross(toy_model, tmp_path_factory):
    return write_toy_cross_encoder(tmp_path_factory.mktemp("cross"), toy_model)


QUERIES, OWN = np.array([4, 0, 20]), np.array([[11, 30], [12, 4 + 20], [59, 10]])


def test_cosines_are_the_encoder_s(encoder, cosines):
    vectors = encoder.embed(TEXTS)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    everything = vectors @ vectors.T
    texts = np.array([11, 10, 59])
    # Kept as float16.
    assert cosines.score_matrix(QUERIES, texts) == pytest.approx(
        everything[QUERIES][:, texts], abs=1e-3
    )
    expected = np.take_along_axis(everything[QUERIES], OWN, 1)
    assert cosines.score_own(QUERIES, OWN) == pytest.approx(expected, abs=1e-3)


def test_vectors_are_made_once(encoder, sided, tmp_path, monkeypatch):
    first = Cosines.made(encoder, sided, tmp_path, Silent())
    monkeypatch.setattr(type(encoder), "embed", None)
    again = Cosines.made(encoder, sided, tmp_path, Silent())
    assert (again.score_own(QUERIES, OWN) == first.score_own(QUERIES, OWN)).all()
    with pytest.raises(TypeError):
        Cosines.made(encoder, sided._replace(digest="other texts"), tmp_path, Silent())


def test_vectors_that_were_cut_are_made_again(encoder, sided, tmp_path):
    first = Cosines.made(encoder, sided, tmp_path, Silent())
    [file] = tmp_path.rglob("vectors.npy")
    content = file.read_bytes()
    file.unlink()  # the old one stays mapped
    file.write_bytes(content[:-100])
    again = Cosines.made(encoder, sided, tmp_path, Silent())
    assert (again.score_own(QUERIES, OWN) == first.score_own(QUERIES, OWN)).all()


def test_sides_with_prompts_have_vectors_of_their_own(encoder, sided, tmp_path):
    prompted = load_encoder(encoder.source, device="cpu", query_prompt="the cat: ")
    found = Cosines.made(prompted, sided, tmp_path, Silent())
    query = prompted.embed([TEXTS[4]], side="query")[0]
    text = prompted.embed([TEXTS[11]], side="document")[0]
    cosine = query @ text / np.linalg.norm(query) / np.linalg.norm(text)
    assert found.score_own(np.array([4]), np.array([[11]])).item() == pytest.approx(
        cosine, abs=1e-3
    )
    assert len(found.reads) == 2


def test_fused_is_fusion_over_all_texts_that_are_looked_for(sided, cosines):
    fused = Fused(cosines, sided, weight=1.5)
    looked_for = sided.texts
    words = BM25([TEXTS[line] for line in looked_for]).scores([TEXTS[line] for line in QUERIES])
    whole = fuse(cosines.score_matrix(QUERIES, looked_for), words, 1.5)
    assert fused.score_matrix(QUERIES, looked_for) == pytest.approx(whole, abs=1e-5)
    # Of a few texts the same numbers, whatever is asked about beside them.
    places = np.searchsorted(looked_for, OWN)
    assert fused.score_own(QUERIES, OWN) == pytest.approx(
        np.take_along_axis(whole, places, 1), abs=1e-5
    )
    assert fused.score_matrix(QUERIES, OWN[0]) == pytest.approx(whole[:, places[0]], abs=1e-5)


def test_the_average_of_teachers(sided, cosines):
    fused = Fused(cosines, sided, weight=2.0)
    both = Mean([cosines, fused])
    expected = (cosines.score_own(QUERIES, OWN) + fused.score_own(QUERIES, OWN)) / 2
    assert both.score_own(QUERIES, OWN) == pytest.approx(expected)
    assert both.score_matrix(QUERIES, EVERY[10:]).argmax(1).tolist() == (
        (cosines.score_matrix(QUERIES, EVERY[10:]) + fused.score_matrix(QUERIES, EVERY[10:]))
        .argmax(1)
        .tolist()
    )
    assert both.digest not in (cosines.digest, fused.digest)


def test_a_cross_encoder_gives_its_logits(cross):
    scorer = PairScorer(str(cross), "cpu")
    found = CrossEncoderTeacher(scorer, TEXTS.__getitem__).score_own(QUERIES, OWN)
    model = BertForSequenceClassification.from_pretrained(cross).eval()
    tokenizer = load_encoder(str(cross), device="cpu").tokenizer
    inputs = tokenizer(TEXTS[4], TEXTS[30], return_tensors="pt")
    with torch.no_grad():
        expected = model(**inputs).logits.item()
    assert found[0, 1] == pytest.approx(expected, abs=1e-5)
    assert np.isnan(
        CrossEncoderTeacher(scorer, TEXTS.__getitem__).score_matrix(QUERIES, EVERY)
    ).all()


def test_word_vectors_may_teach(sided, tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("".join(f"{word} {i} 1\n" for i, word in enumerate(WORDS)))
    assert not is_cross_encoder(f"glove:{file}")
    found = Cosines.made(load_encoder(f"glove:{file}", device="cpu"), sided, tmp_path, Silent())
    places = [[WORDS.index(word) for word in TEXTS[line].split()] for line in (4, 11)]
    (a, b) = (np.array([np.mean(own), 1.0]) for own in places)
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert found.score_own(np.array([4]), np.array([[11]])).item() == pytest.approx(
        cosine, abs=1e-3
    )


def test_scores_from_a_file(sided, tmp_path):
    file = tmp_path / "scores.jsonl"
    rows = [(4, 30, 2.5), (0, 12, -1.0), (20, 3, 9.0)]  # nobody looks for text 3
    file.write_text(
        "\n".join(
            json.dumps({"query": TEXTS[q], "passage": f" {TEXTS[t]} ", "score": score})
            for q, t, score in rows
        )
    )
    found = FileTeacher(file, sided)
    assert found.count == 2
    assert [found.scored_rows(line).tolist() for line in (0, 4, 1)] == [[12], [30], []]
    expected = np.array([[np.nan, 2.5], [-1.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(found.score_own(QUERIES, OWN), expected)
    assert found.score_matrix(QUERIES, np.array([30, 12]))[0, 0] == 2.5
    with pytest.raises(UserError, match="none of its 3 pairs"):
        FileTeacher(file, sided._replace(queries=EVERY[1:3]))


def test_equal_texts_have_one_score(sided, tmp_path):
    file = tmp_path / "scores.csv"
    file.write_text(f"query,passage,score\n{TEXTS[0]},{TEXTS[12]},1\n{TEXTS[0]},{TEXTS[3]},2\n")
    equal = sided._replace(read=lambda line: TEXTS[12 if line == 30 else line])
    assert sorted(FileTeacher(file, equal).scored_rows(0).tolist()) == [12, 30]


class Table(Teacher):
    """Scores in a matrix of all lines."""

    digest = "table"

    def __init__(self, scores):
        self.scores = scores

    def score_matrix(self, queries, texts):
        return self.scores[queries][:, texts].copy()

    def score_own(self, queries, texts):
        return np.take_along_axis(self.scores[queries], texts, 1)


def lists_of(scores, pool, numbers, pairs, mined, teacher=None):
    ranker = Table(scores)
    pairs = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return Lists(ranker, teacher or ranker, mined, np.array(pool), np.array(numbers), pairs, seed=3)


def test_candidates_are_near_and_neither_related_nor_likely_right():
    """Line 0 asks; 1 is its own, 2 of the same document, 3 too near, 4 of what it belongs to."""
    scores = np.full((200, 200), -1.0, np.float32)
    scores[0, :5] = [0, 0.8, 0.7, FALSE_NEGATIVE * 0.8 + 1e-3, 0.6]
    scores[0, 5:65] = 0.5 - np.arange(60) / 1000
    numbers = np.arange(200)
    numbers[2] = 1
    lists = lists_of(scores, range(1, 200), numbers, [(0, 1), (0, 4)], 4)
    drawn = [lists.candidates(np.array([[0, 1]]), micro)[0].tolist() for micro in range(300)]
    assert {line for lines in drawn for line in lines} == set(range(5, 55))  # the 50 nearest
    assert all(len(set(lines)) == 4 for lines in drawn)
    assert drawn[0] != drawn[1]
    again = lists.candidates(np.array([[7, 9], [0, 1]]), 1)
    assert again[1].tolist() == drawn[1]  # whatever stands beside it
    assert replace(lists, seed=4).candidates(np.array([[0, 1]]), 1)[0].tolist() != drawn[1]


def test_what_a_file_scores_stands_first_among_the_candidates():
    """However far it is; what is related, or likely right as well, is none all the same."""

    class Told(Table):
        def scored_rows(self, query):
            return np.array([1, 2, 3, 150, 160, 20]) if query == 0 else super().scored_rows(query)

    scores = np.full((200, 200), -1.0, np.float32)
    scores[0, :5] = [0, 0.8, 0.7, FALSE_NEGATIVE * 0.8 + 1e-3, 0.6]
    numbers = np.arange(200)
    numbers[2] = 1
    lists = lists_of(scores, range(1, 200), numbers, [(0, 1)], 4, Told(scores))
    drawn = [lists.candidates(np.array([[0, 1]]), micro)[0].tolist() for micro in range(20)]
    assert all(set(lines[:3]) == {20, 150, 160} for lines in drawn)
    assert all(len(set(lines)) == 4 for lines in drawn)
    assert len({tuple(lines) for lines in drawn}) > 1


def test_where_few_are_near_others_of_the_corpus_stand_in():
    scores = np.full((9, 9), 0.9, np.float32)  # everything may be right
    scores[0, 8] = 0.1
    lists = lists_of(scores, range(9), np.arange(9), [(0, 1)], 4)
    found = [set(lists.candidates(np.array([[0, 1]]), micro)[0].tolist()) for micro in range(50)]
    assert all(len(lines) == 4 and 8 in lines for lines in found)
    assert set.union(*found) == set(range(2, 9))


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


def test_who_reads_pair_by_pair_scores_own_texts_alone(cross):
    scores = np.random.default_rng(0).random((20, 20)).astype(np.float32)
    teacher = CrossEncoderTeacher(PairScorer(str(cross), "cpu"), TEXTS.__getitem__)
    lists = lists_of(scores, range(20), np.arange(20), [], 1, teacher)
    found = lists.scores(np.array([[0, 10, 15], [1, 11, 17]]), np.array([10, 11]), 0)
    assert np.isnan(found).tolist() == [[False, True, False], [True, False, False]]


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
def documents(toy_model, tmp_path):
    """A run on documents that follows the base model fused with BM25."""
    folder = write_documents(tmp_path / "docs")
    text = CorpusConfig(corpus=(str(folder),), test_relation="title-passage")
    config = short_run(toy_model, folder, tmp_path / "run")
    return replace(
        config, text=text, objective=RankCSE(), views="pairs", teacher="base+bm25", mined=2
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"teacher": None}, "`teacher` is missing:"),
        ({"objective": SimCSE()}, "`teacher` base.bm25:"),
        ({"objective": RankCSE(distillation_weight=0.0)}, "rankcse"),
        (
            {"objective": SimCSE(), "teacher": None},
            r"`mined` 2:",
        ),
        ({"teacher": "nowhere/at/all"}, "nowhere/at/all: not a folder"),
        ({"mined": 500}, "`mined` 500: the corpus has"),
    ],
)
def test_what_is_refused(documents, changes, message):
    with pytest.raises(UserError, match=message):
        train(replace(documents, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mined": 500}, "`mined` 500: the corpus has [0-9]+ other documents or texts"),
        ({"objective": RankCSE(group_whitening=True, groups=5)}, "32 dimensions cannot be cut"),
        ({"similar": 4, "objective": SimCSE(group_whitening=True, groups=5)}, "cannot be cut"),
    ],
)
def test_what_cannot_run_is_refused_before_texts_are_encoded(
    documents, monkeypatch, changes, message
):
    def encoded(*_arguments, **_settings):
        pytest.fail("texts were encoded")

    monkeypatch.setattr(LineVectors, "made", encoded)
    monkeypatch.setattr(Similar, "of", encoded)
    if "similar" in changes:
        changes = {**changes, "teacher": None, "mined": 0}
    with pytest.raises(UserError, match=message):
        train(replace(documents, **changes))


def test_a_cross_encoder_needs_candidates_and_stands_alone(documents, cross, toy_model):
    for changes, advice in (
        ({"mined": 0}, "`mined`"),
        ({"teacher": f"{cross},{toy_model}"}, "alone"),
    ):
        with pytest.raises(UserError, match=f"`teacher` .*a? cross-encoder.* {advice}"):
            train(replace(documents, **{"teacher": str(cross), **changes}))


def test_a_run_follows_a_teacher_and_says_what_it_is(documents, caplog):
    with caplog.at_level("INFO", "isospace"):
        finished = train(documents)
    said = [line for line in caplog.messages if line.startswith("teacher base and BM25 (weight")]
    assert len(said) == 1
    assert "MB of vectors on disk" in said[0]
    metrics = (finished.run.folder / "metrics.jsonl").read_text().splitlines()
    terms = [row["terms"] for row in map(json.loads, metrics) if "terms" in row]
    assert set(terms[0]) == {"info_nce", "consistency", "distillation"}
    state = torch.load(finished.run.last_checkpoint, weights_only=False)
    assert "BM25" in state["frozen"]["teacher"]
    shipped = load_encoder(str(finished.run.folder / "model"), device="cpu").model
    start = load_encoder(documents.model, device="cpu").model
    assert shipped.state_dict().keys() == start.state_dict().keys()


def test_another_teacher_is_not_gone_on_with(documents, toy_model, tmp_path):
    teacher = write_toy_model(tmp_path / "teacher")
    finished = train(replace(documents, teacher=str(teacher)))
    for file in (finished.run.folder / "results.json",):
        file.unlink()
    model = BertForSequenceClassification  # only to have other weights of the same size
    torch.manual_seed(9)
    other = model(BertConfig.from_pretrained(toy_model)).bert
    other.save_pretrained(teacher)
    with pytest.raises(UserError, match="`teacher`"):
        train(resume=finished.run.folder)


def test_a_cross_encoder_and_a_file_of_scores_teach(documents, cross, tmp_path):
    finished = train(replace(documents, teacher=str(cross), output=tmp_path / "cross"))
    assert finished.results.steps == 20
    rows = [{"query": text, "passage": text, "score": 1.0} for text in TEXTS]
    file = tmp_path / "scores.jsonl"
    file.write_text(
        "\n".join(map(json.dumps, rows)) + '\n{"query": "a", "passage": "b", "score": 0}'
    )
    with pytest.raises(UserError, match="none of its 61 pairs"):
        train(replace(documents, teacher=str(file), output=tmp_path / "file"))


def shared_words(texts):
    """Cosines of counts of words: by them these sentences are told better than by a random BERT."""
    counts = np.array([[text.split().count(word) for word in WORDS] for text in texts], np.float32)
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    return counts @ counts.T


@pytest.mark.parametrize("variant", ["listnet", "listmle", "margin-mse"])
def test_a_better_teacher_improves_a_random_student(toy_model, tmp_path, variant):
    """What it learns it knows of other sentences too."""
    objective = RankCSE(
        contrast_weight=0.0, consistency_weight=0.0, variant=variant, head="none",
        own_text="in" if variant == "margin-mse" else "out", rank_temperature=0.2,
    )  # fmt: skip
    config = replace(CONFIG, objective=objective, learning_rate=1e-3, batch_size=16)
    other = sentences(300)[200:]
    wanted = shared_words(other)[np.triu_indices(100, 1)]

    def agreement(teacher):
        loop = make_loop(toy_model, tmp_path, config, steps=60, texts=200)
        loop.training.batches.lists = replace(
            loop.training.batches.lists, teacher=teacher or loop.training.batches.lists.teacher
        )
        before, _, after = (
            agrees(loop.training.encoder),
            list(loop),
            agrees(loop.training.encoder),
        )
        return before, after

    def agrees(encoder):
        vectors = unit_rows(encoder.embed(other))
        return np.corrcoef((vectors @ vectors.T)[np.triu_indices(100, 1)], wanted)[0, 1]

    before, after = agreement(Table(shared_words(sentences(200))))
    assert after > before + 0.1
    assert agreement(None)[1] < before + 0.05  # the base model knows no better


def test_a_run_of_single_sentences_follows_a_teacher(toy_model, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(sentences(200)))
    objective = RankCSE(own_text="out", variant="listmle")
    config = replace(short_run(toy_model, file, tmp_path / "run"), objective=objective)
    finished = train(replace(config, teacher=f"base,{toy_model}", mined=1))
    assert finished.results.steps == 20


def test_names_of_teachers_are_paths_of_any_kind(documents):
    assert replace(documents, teacher=Path("a/b")).teacher == "a/b"


def test_a_hub_model_without_a_configuration_of_its_own_is_no_cross_encoder(monkeypatch):
    def missing(*_, **__):
        raise EntryNotFoundError("no config.json")

    monkeypatch.setattr("isospace.encoders.cross.resolve", lambda name: Place(name, False))
    monkeypatch.setattr("isospace.encoders.cross.hf_hub_download", missing)
    assert not is_cross_encoder("org/static-words")


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "[]", '{"architectures": [3]}'])
def test_a_damaged_configuration_is_refused(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json: not the configuration of a model"):
        is_cross_encoder(str(tmp_path))
