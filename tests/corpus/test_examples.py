"""Pairs and triples: from columns of a file to a loss that sees the right texts."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from row_files import write_rows
from toy import sentences

from isospace.config import CorpusConfig, TrainConfig
from isospace.corpus.corpus import Corpus, load_corpus
from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.objectives import SimCSE
from isospace.training.train import train

TRIPLE = ("sent0", "sent1", "hard_neg")
Row = tuple[str, ...]


def rows(count: int, texts: int = 3) -> list[Row]:
    """Examples of distinct texts."""
    return list(zip(*(sentences(count, seed) for seed in range(texts)), strict=True))


def put(path: Path, examples: list[Row], header: Row = TRIPLE) -> str:
    """A file of the kind that its name says, with a column more than is asked for."""
    named = [dict(zip(header, row, strict=True)) | {"score": "3.5"} for row in examples]
    return str(write_rows(path, named))


def load(file: str, cache: Path, columns: Row = TRIPLE, exclude: Row = (), **options) -> Corpus:
    return load_corpus(CorpusConfig(corpus=(file,), columns=columns, **options), cache, exclude)


def examples_of(corpus: Corpus, texts: int = 3) -> list[Row]:
    """What may be trained on."""
    return [tuple(corpus[int(row) + t] for t in range(texts)) for row in corpus.train_rows]


def test_every_row_is_counted_once(tmp_path):
    good = rows(40)
    anchor, positive, negative = "the old cat reads", "a cat that reads", "the dog runs fast"
    fates = [
        ("", positive, negative),
        (anchor, "  \t", negative),
        (anchor, positive, "short"),
        (f"  {good[3][0]}\a", *good[3][1:]),
        (good[4][0], good[4][1], f"{good[4][2]} "),
        (anchor, positive, "A text of the benchmark."),
        ("a text of the benchmark!", positive, negative),
    ]
    file = put(tmp_path / "a.csv", [*good, *fates])
    corpus = load(file, tmp_path, exclude=("A text of the benchmark.",))
    assert corpus.counts == {
        "read": 47,
        "empty": 2,
        "too short": 1,
        "too long": 0,
        "exact duplicates": 2,
        "near duplicates": 0,
        "evaluation pairs": 2,
        "related to what is held out": 0,
        "held out": 4,
        "for training": 36,
    }
    assert list(corpus) == [text for row in good for text in row]


def held_pairs(corpus: Corpus) -> set[Row]:
    """All validation and test pairs."""
    return {*corpus.pairs.dev, *corpus.pairs.test}


def test_held_out_pairs_share_no_text_with_each_other_or_with_training(tmp_path):
    made = rows(300)
    source = random.Random(0)
    made += [(a, source.choice(made)[1], source.choice(made)[0]) for a, *_ in made[:100]]
    corpus = load(put(tmp_path / "a.csv", made), tmp_path, held_out=20)
    pairs = held_pairs(corpus)
    assert 5 < len(pairs) <= 20
    assert pairs <= {row[:2] for row in made}
    assert sorted(corpus.held_out()) == sorted(anchor for anchor, _ in pairs)
    held = {text for pair in pairs for text in pair}
    assert len(held) == 2 * len(pairs)
    trained = examples_of(corpus)
    assert all(held.isdisjoint(row) for row in trained)
    assert corpus.counts["related to what is held out"] == 400 - len(trained) - len(pairs) > 0

    source.shuffle(made)
    again = load(put(tmp_path / "b.csv", made), tmp_path, held_out=20)
    assert held_pairs(again) == pairs
    assert set(examples_of(again)) == set(trained)


def long_rows(count: int) -> list[Row]:
    """Pairs of texts of 21 words: of those, near duplicates may differ in one."""
    draw = random.Random(1)
    words = [a + b + c for a in "bdfgk" for b in "aeiou" for c in "lmnrs"]
    return [tuple(" ".join(draw.choices(words, k=21)) for _ in range(2)) for _ in range(count)]


def twin(row: Row) -> Row:
    """The same with the third word of each text changed."""
    return tuple(" ".join([*words[:2], "otherwise", *words[3:]]) for words in map(str.split, row))


@pytest.mark.parametrize("near_duplicates", [True, False])
def test_no_near_twin_of_a_held_out_pair_is_trained_on(tmp_path, near_duplicates):
    made = long_rows(300)
    file = put(tmp_path / "a.csv", [*made, *map(twin, made)], ("a", "b"))
    corpus = load(file, tmp_path, ("a", "b"), held_out=30, near_duplicates=near_duplicates)
    pairs, trained = held_pairs(corpus), set(examples_of(corpus, 2))
    assert all(twin(row) not in trained for row in made if row in pairs)
    assert all(row not in trained for row in made if twin(row) in pairs)
    assert not any({row, twin(row)} <= pairs for row in made)
    assert (len(pairs), len(trained)) == (15, 600 - 30)


def test_of_questions_with_many_answers_whole_questions_are_held_out(tmp_path):
    """50 questions with 100 answers each."""
    rows = long_rows(5000)
    made = [(rows[i // 100][0], answer) for i, (_, answer) in enumerate(rows)]
    corpus = load(put(tmp_path / "a.csv", made, ("q", "a")), tmp_path, ("q", "a"))
    pairs, trained = held_pairs(corpus), examples_of(corpus, 2)
    assert (len(pairs), len(trained)) == (5, 4500)
    assert {question for question, _ in pairs}.isdisjoint(question for question, _ in trained)


def test_rows_in_chains_of_shared_texts_are_held_out_by_anchor(tmp_path):
    """300 questions and 300 answers in 3,000 rows: all hang together."""
    texts = long_rows(300)
    made = [(texts[i % 300][0], texts[(i + 37 * (i // 300)) % 300][1]) for i in range(3000)]
    corpus = load(put(tmp_path / "a.csv", made, ("q", "a")), tmp_path, ("q", "a"))
    pairs, trained = held_pairs(corpus), examples_of(corpus, 2)
    held = {text for pair in pairs for text in pair}
    assert (len(pairs), len(held), len(set(corpus.pairs.test_groups))) == (30, 60, 30)
    assert all(held.isdisjoint(row) for row in trained)
    assert len(trained) >= 3000 - 600

    random.Random(3).shuffle(made)
    again = load(put(tmp_path / "b.csv", made, ("q", "a")), tmp_path, ("q", "a"))
    assert held_pairs(again) == pairs
    assert set(examples_of(again, 2)) == set(trained)


@pytest.mark.parametrize(("answers", "columns"), [(10, ("q", "a")), (1, ("a", "q"))])
def test_where_few_answers_are_all_there_are_questions_alone_are_held_out(
    tmp_path, answers, columns
):
    """5,000 questions with 10 answers, or all with one: no answer can be spared."""
    rows = long_rows(5000)
    made = [(question, rows[i % answers][1]) for i, (question, _) in enumerate(rows)]
    twins = [(twin(row)[0], row[1]) for row in made[:100]]
    file = put(tmp_path / "a.csv", [*made, *twins], ("q", "a"))
    corpus = load(file, tmp_path, columns)
    held, trained = set(corpus.held_out()), examples_of(corpus, 2)
    assert 490 < len(held) <= 510
    assert held <= {row[0] for row in [*made, *twins]}
    held |= {twin((text,))[0] for text in held}
    assert all(held.isdisjoint(row) for row in trained)
    assert len(trained) >= 5100 - 510
    assert len({text for row in trained for text in row} & {row[1] for row in made}) == answers
    assert not held_pairs(corpus)
    assert not set(corpus.validation) & set(corpus.test)


def test_a_named_group_is_held_out_whole_and_validates_or_tests_whole(tmp_path):
    made = [(*pair, str(i // 10)) for i, pair in enumerate(long_rows(5000))]
    document = {row[:2]: row[2] for row in made}
    header = ("question", "answer", "document")
    file = put(tmp_path / "a.parquet", made, header)
    corpus = load(file, tmp_path, header[:2], group="document")
    dev, test, trained = (
        {document[pair] for pair in pairs}
        for pairs in (corpus.pairs.dev, corpus.pairs.test, examples_of(corpus, 2))
    )
    assert len(held_pairs(corpus)) == 500
    assert (len(dev), len(test), len(trained)) == (16, 34, 450)
    assert len(dev | test | trained) == 500
    assert corpus.pairs.unit == "groups by document"
    named = {*zip(corpus.pairs.test_groups, map(document.get, corpus.pairs.test), strict=True)}
    assert len(named) == len(set(corpus.pairs.test_groups)) == 34

    random.Random(2).shuffle(made)
    again = load(put(tmp_path / "z.csv", made, header), tmp_path, header[:2], group="document")
    assert set(again.pairs.dev) == set(corpus.pairs.dev)
    assert set(again.pairs.test_groups) == set(corpus.pairs.test_groups)


@pytest.fixture
def config(toy_model, tmp_path) -> TrainConfig:
    """Ten updates on triples without noise or head."""
    file = put(tmp_path / "triples.csv", rows(200))
    return TrainConfig(
        text=CorpusConfig(corpus=(file,), columns=TRIPLE),
        objective=SimCSE(supervision="triples", head="none", hard_negative_weight=0.7),
        model=str(toy_model),
        dropout=0.0,
        batch_size=16,
        budget=(160, "sentences"),
        learning_rate=1e-3,
        precision="float32",
        evaluations=2,
        output=tmp_path / "run",
        select="last",
    )


@pytest.mark.parametrize(
    ("columns", "objective", "message"),
    [
        (TRIPLE[:2], SimCSE(supervision="triples"), "3 texts.*`columns`.* 2"),
        (TRIPLE, SimCSE(), "simcse .*`column`.*`views` pairs"),
    ],
)
def test_columns_that_do_not_fit_the_plan_are_refused_first(
    config, monkeypatch, columns, objective, message
):
    monkeypatch.setattr("isospace.training.prepare.load_encoder", lambda *_: pytest.fail("loaded"))
    text = replace(config.text, columns=columns)
    with pytest.raises(UserError, match=message):
        train(replace(config, text=text, objective=objective))


def first_loss(config: TrainConfig, batch: list[Row]) -> float:
    """The formula of SimCSE's section 4, on what `embed` makes of each text."""
    encoder = load_encoder(config.model, device="cpu")
    vectors = [encoder.embed(column).astype(np.float64) for column in zip(*batch, strict=True)]
    units = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in vectors]
    positive, negative = (units[0] @ other.T / 0.05 for other in units[1:])
    terms = np.exp(np.hstack([positive, negative + 0.7 * np.eye(len(batch))]))
    return float(np.mean(np.log(terms.sum(axis=1)) - np.diag(positive)))


def test_the_loss_is_that_of_the_columns(config, tmp_path):
    columns = ("sent0", "hard_neg", "sent1")
    text = replace(config.text, columns=columns)
    settings = replace(config, text=text)
    outcome = train(settings)
    steps = [line for line in outcome.run.metrics() if line["kind"] == "step"]
    assert len(steps) == 10

    corpus = load_corpus(text, tmp_path)
    order = np.random.default_rng([settings.seed, 0]).permutation(corpus.train_rows)[:16]
    batch = [tuple(corpus[int(row) + t] for t in range(3)) for row in order]
    assert set(batch) <= {(a, c, b) for a, b, c in rows(200)}
    assert steps[0]["loss"] == pytest.approx(first_loss(settings, batch), rel=1e-4)
    swapped = [(a, c, b) for a, b, c in batch]
    assert steps[0]["loss"] != pytest.approx(first_loss(settings, swapped), rel=1e-2)
