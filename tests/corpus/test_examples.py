"""Pairs, triples and labels: from columns of a file to a loss that sees the right texts."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from toy import WORDS, sentences, short_run, write_rows

from isospace.config import CorpusConfig
from isospace.corpus.corpus import load_corpus
from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.objectives import SBERTSoftmax, SimCSE
from isospace.training.card import model_card
from isospace.training.prepare import require_usable
from isospace.training.run import Run
from isospace.training.train import train

PAIR, TRIPLE = ("premise", "hypothesis"), ("sent0", "sent1", "hard_neg")
NLI = ("entailment", "neutral", "contradiction")


def rows(count, texts=3):
    return list(zip(*(sentences(count, seed) for seed in range(texts)), strict=True))


def labelled_rows(count, labels=NLI):
    """Pairs that share no text, the labels in turn."""
    return [(*pair, labels[i % len(labels)]) for i, pair in enumerate(rows(count, 2))]


def put(path, examples, header=TRIPLE):
    """A file of the kind that its name says, with a column more than is asked for."""
    named = [dict(zip(header, row, strict=True)) | {"score": "3.5"} for row in examples]
    return str(write_rows(path, named))


def put_labelled(path, examples):
    return put(path, examples, (*PAIR, "label"))


def load(file, cache, columns=TRIPLE, exclude=(), **options):
    return load_corpus(CorpusConfig(corpus=(file,), columns=columns, **options), cache, exclude)


def load_labelled(file, cache, exclude=(), held_out=0):
    return load(file, cache, PAIR, exclude, label_column="label", held_out=held_out)


def examples_of(corpus, texts=3):
    return [tuple(corpus[int(row) + t] for t in range(texts)) for row in corpus.train_rows]


def labelled(corpus, places):
    return [(corpus[2 * i], corpus[2 * i + 1], corpus.classes[corpus.labels[i]]) for i in places]


def test_every_row_is_counted_once_and_keeps_its_label(tmp_path):
    """Of equal rows the first stays."""
    good = labelled_rows(30)
    a, b = "the old cat reads here", "a cat that reads over there"
    dropped = [
        ("", b, "empty"),
        (a, "  \t", None),
        (a, "short", "short"),
        (f"  {good[1][0]}\a", good[1][1], "again"),
        (good[0][0], f"{good[0][1]} ", "again"),
        (a, "A text of the benchmark.", "leaked"),
        ("a text of the benchmark!", b, "leaked"),
    ]
    made = [*good[:2], *dropped[:4], *good[2:9], *dropped[4:], *good[9:]]
    file = put_labelled(tmp_path / "a.jsonl", made)
    corpus = load_labelled(file, tmp_path, ("A text of the benchmark.",))
    assert labelled(corpus, range(30)) == good
    assert corpus.classes == sorted(NLI)
    left_out = {"empty": 2, "too short": 1, "exact duplicates": 2, "evaluation pairs": 2}
    counted = {name: count for name, count in corpus.counts.items() if count}
    assert counted == {"read": 37, **left_out, "for training": 30}


def held_pairs(corpus):
    return {*corpus.pairs.dev, *corpus.pairs.test}


def test_held_out_pairs_share_no_text_with_each_other_or_with_training(tmp_path):
    made = rows(300)
    source = random.Random(0)
    made += [(a, source.choice(made)[1], source.choice(made)[0]) for a, *_ in made[:100]]
    leaked = "A text of the benchmark."
    unusable = [(*made[0][:2], third) for third in ("", "short", leaked)]
    file = put(tmp_path / "a.csv", [*made, *unusable])
    corpus = load(file, tmp_path, exclude=(leaked,), held_out=20)
    assert [corpus.counts[name] for name in ("empty", "too short", "evaluation pairs")] == [1] * 3
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


def long_rows(count):
    """Pairs of texts of 21 words: of those, near duplicates may differ in one."""
    draw = random.Random(1)
    return [tuple(" ".join(draw.choices(WORDS, k=21)) for _ in range(2)) for _ in range(count)]


def twin(row):
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


@pytest.mark.parametrize(("answers", "columns"), [(10, ("q", "a")), (1, ("a", "q"))])
def test_of_questions_with_few_answers_questions_alone_are_held_out(tmp_path, answers, columns):
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


@pytest.mark.parametrize("labels", [NLI, (0, 1, 2)])
def test_only_positive_examples_are_held_out(tmp_path, labels):
    made = labelled_rows(900, labels)
    corpus = load_labelled(put_labelled(tmp_path / "a.jsonl", made), tmp_path, held_out=60)
    positive = {(a, b) for a, b, label in made if label == labels[0]}
    pairs = held_pairs(corpus)
    assert len(pairs) == 60
    assert pairs <= positive
    trained = labelled(corpus, (corpus.train_rows // 2).tolist())
    assert sorted(trained) == sorted((a, b, str(c)) for a, b, c in made if (a, b) not in pairs)


@pytest.mark.parametrize(("label", "shown"), [(None, "None"), (" ", "' '"), (0.5, "0.5")])
def test_what_is_no_label_is_named_by_file_and_line(tmp_path, label, shown):
    made = labelled_rows(5)
    made[3] = (*made[3][:2], label)
    with pytest.raises(UserError, match=rf'a\.jsonl:4: "label" is {shown}, expected a label'):
        load_labelled(put_labelled(tmp_path / "a.jsonl", made), tmp_path)


@pytest.fixture
def config(toy_model, tmp_path):
    file = put(tmp_path / "triples.csv", rows(200))
    return replace(
        short_run(toy_model, file, tmp_path / "run"),
        text=CorpusConfig(corpus=(file,), columns=TRIPLE),
        objective=SimCSE(supervision="triples", head="none", hard_negative_weight=0.7),
        dropout=0.0,
        budget=(160, "sentences"),
        precision="float32",
    )


@pytest.fixture
def of_labels(config, tmp_path):
    file = put_labelled(tmp_path / "nli.jsonl", labelled_rows(240))
    text = CorpusConfig(corpus=(file,), columns=PAIR, label_column="label", held_out=20)
    return replace(config, text=text, objective=SBERTSoftmax())


@pytest.mark.parametrize(
    ("columns", "objective", "message"),
    [
        (TRIPLE[:2], SimCSE(supervision="triples"), "3 texts.*`columns`.* 2"),
        (TRIPLE, SimCSE(), "simcse .*`column`.*`views` pairs"),
    ],
)
def test_columns_must_fit_the_plan(config, monkeypatch, columns, objective, message):
    monkeypatch.setattr("isospace.training.prepare.load_encoder", lambda *_: pytest.fail("loaded"))
    text = replace(config.text, columns=columns)
    with pytest.raises(UserError, match=message):
        train(replace(config, text=text, objective=objective))


def test_labels_and_what_reads_them_come_together(of_labels, monkeypatch):
    monkeypatch.setattr("isospace.training.prepare.load_encoder", lambda *_: pytest.fail("loaded"))
    monkeypatch.setattr("isospace.training.prepare.load_data", lambda *_: pytest.fail("read"))
    without = replace(of_labels.text, label_column=None)
    pairs = {"objective": SimCSE(), "views": "pairs"}
    for setting, message in (
        ({"text": without}, "`label_column` is missing: sbert-softmax"),
        (pairs, "`label_column` label: simcse .*sbert-softmax"),
    ):
        wrong = replace(of_labels, **setting)
        with pytest.raises(UserError, match=message):
            train(wrong)
        with pytest.raises(UserError, match=message):
            require_usable([wrong])


def test_one_class_is_no_task(of_labels, tmp_path):
    put_labelled(tmp_path / "nli.jsonl", labelled_rows(240, NLI[:1]))
    (tmp_path / "config.json").touch()  # of a model that would not load
    with pytest.raises(UserError, match=r"`label_column` label: .* entailment"):
        train(replace(of_labels, model=str(tmp_path)))


def first_step(config, cache):
    """Train: the logged updates, and the rows of the corpus that the first one reads."""
    run = train(config).run
    corpus = load_corpus(config.text, cache)
    order = np.random.default_rng([config.seed, 0]).permutation(corpus.train_rows)[:16]
    return run.steps(), corpus, order


def triples_loss(config, batch):
    """The formula of SimCSE's section 4, on what `embed` makes of each text."""
    encoder = load_encoder(config.model, device="cpu")
    vectors = [encoder.embed(column).astype(np.float64) for column in zip(*batch, strict=True)]
    units = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in vectors]
    positive, negative = (units[0] @ other.T / 0.05 for other in units[1:])
    terms = np.exp(np.hstack([positive, negative + 0.7 * np.eye(len(batch))]))
    return float(np.mean(np.log(terms.sum(axis=1)) - np.diag(positive)))


def test_the_loss_is_that_of_the_columns(config, tmp_path):
    config = replace(config, text=replace(config.text, columns=("sent0", "hard_neg", "sent1")))
    steps, corpus, order = first_step(config, tmp_path)
    assert len(steps) == 10
    batch = [tuple(corpus[int(row) + t] for t in range(3)) for row in order]
    assert set(batch) <= {(a, c, b) for a, b, c in rows(200)}
    assert steps[0]["loss"] == pytest.approx(triples_loss(config, batch), rel=1e-4)
    swapped = [(a, c, b) for a, b, c in batch]
    assert steps[0]["loss"] != pytest.approx(triples_loss(config, swapped), rel=1e-2)


def labels_loss(config, batch):
    """Of labels in sorted order, by what `embed` makes of each text and the head of the seed."""
    encoder = load_encoder(config.model, device="cpu")
    first, second, labels = zip(*batch, strict=True)
    u, v = (encoder.embed(texts).astype(np.float64) for texts in (first, second))
    head = config.objective.build_head(32, config.seed, 3).layer
    features = np.concatenate([u, v, abs(u - v)], axis=1)
    logits = features @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    own = logits[np.arange(len(batch)), [sorted(NLI).index(label) for label in labels]]
    return float(np.mean(np.log(np.exp(logits).sum(axis=1)) - own))


def test_a_run_sees_each_pair_with_its_label(of_labels, tmp_path):
    steps, corpus, order = first_step(of_labels, tmp_path)
    batch = labelled(corpus, (order // 2).tolist())
    assert set(batch) <= set(labelled_rows(240))
    assert steps[0]["loss"] == pytest.approx(labels_loss(of_labels, batch), rel=1e-4)
    others = [(*one[:2], other[2]) for one, other in pairwise(batch)]
    assert steps[0]["loss"] != pytest.approx(labels_loss(of_labels, others), rel=1e-3)
    results = Run(of_labels.output).finished
    assert results.base.pairs.queries == 20
    assert "held-out pairs" in results.verdict.protocol
    adapted = replace(results, model_step=results.training.steps)
    assert "adapted with labels" in model_card(of_labels, adapted, "mean")
