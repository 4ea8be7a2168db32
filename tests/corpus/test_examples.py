"""Pairs and triples: from columns of a file to a loss that sees the right texts."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from accelerate.state import AcceleratorState
from safetensors.torch import load_file
from toy import sentences

from isospace.config import CorpusConfig, TrainConfig
from isospace.corpus.sentences import Corpus, load_corpus
from isospace.encoders.loading import load_encoder
from isospace.errors import Stopped, UserError
from isospace.objectives import SimCSE, WhitenedCSE
from isospace.training.run import Run
from isospace.training.train import train

TRIPLE = ("sent0", "sent1", "hard_neg")
Row = tuple[str, ...]


def rows(count: int, texts: int = 3) -> list[Row]:
    """Examples of distinct texts."""
    return list(zip(*(sentences(count, seed) for seed in range(texts)), strict=True))


def put(path: Path, examples: list[Row], header: Row = TRIPLE) -> str:
    """A file of the kind that its name says, with a column more than is asked for."""
    header = (*header, "score")
    examples = [(*example, "3.5") for example in examples]
    kind = path.name.split(".")[1]
    if kind == "parquet":
        pq.write_table(pa.table(dict(zip(header, zip(*examples, strict=True), strict=True))), path)
    elif kind == "jsonl":
        lines = [json.dumps(dict(zip(header, example, strict=True))) for example in examples]
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8") as file:
            delimiter = "\t" if kind == "tsv" else ","
            csv.writer(file, delimiter=delimiter).writerows([header, *examples])
    return str(path)


def load(file: str, cache: Path, columns: Row = TRIPLE, exclude: Row = (), **options) -> Corpus:
    return load_corpus(CorpusConfig(corpus=(file,), columns=columns, **options), cache, exclude)


def examples_of(corpus: Corpus, texts: int = 3) -> list[Row]:
    """What may be trained on."""
    return [tuple(corpus[int(row) + t] for t in range(texts)) for row in corpus.train_rows]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.csv.gz"])
@pytest.mark.parametrize("columns", [TRIPLE, TRIPLE[:2], ("hard_neg", "sent0")])
def test_columns_of_every_format(tmp_path, name, columns):
    made = rows(8)
    corpus = load(put(tmp_path / name, made), tmp_path, columns)
    places = [TRIPLE.index(column) for column in columns]
    assert examples_of(corpus, len(columns)) == [tuple(row[i] for i in places) for row in made]


def test_every_row_is_counted_once(tmp_path):
    good = rows(40)
    anchor, positive, negative = "the old cat reads", "a cat that reads", "the dog runs fast"
    fates = [
        ("", positive, negative),
        (anchor, "  \t", negative),
        (anchor, positive, "short"),
        (anchor, "x" * 1001, negative),
        (f"  {good[3][0]}\a", *good[3][1:]),
        (good[4][0], good[4][1], f"{good[4][2]} "),
        (anchor, positive, "A text of the benchmark."),
        ("a text of the benchmark!", positive, negative),
    ]
    file = put(tmp_path / "a.csv", [*good, *fates])
    corpus = load(file, tmp_path, exclude=("A text of the benchmark.",))
    assert corpus.counts == {
        "read": 48,
        "control characters removed": 1,
        "empty": 2,
        "too short": 1,
        "too long": 1,
        "exact duplicates": 2,
        "near duplicates": 0,
        "evaluation pairs": 2,
        "sharing a held-out text": 0,
        "held out": 4,
        "for training": 36,
    }
    assert list(corpus) == [text for row in good for text in row]


def test_a_text_may_return_in_another_example(tmp_path):
    one, other = rows(2)
    made = [one, (one[0], other[1], one[2]), (one[1], one[0], one[2]), one]
    corpus = load(put(tmp_path / "a.csv", made), tmp_path)
    assert examples_of(corpus) == made[:3]


def test_held_out_pairs_share_no_text_with_each_other_or_with_training(tmp_path):
    made = rows(300)
    source = random.Random(0)
    made += [(a, source.choice(made)[1], source.choice(made)[0]) for a, *_ in made[:100]]
    corpus = load(put(tmp_path / "a.csv", made), tmp_path, held_out=20)
    pairs = [*corpus.pairs.dev, *corpus.pairs.test]
    assert [len(corpus.pairs.dev), len(corpus.pairs.test)] == [10, 10]
    assert set(pairs) <= {row[:2] for row in made}
    assert sorted(corpus.held_out()[::2]) == sorted(anchor for anchor, _ in corpus.pairs.dev)
    assert sorted(corpus.held_out()[1::2]) == sorted(anchor for anchor, _ in corpus.pairs.test)
    held = {text for pair in pairs for text in pair}
    assert len(held) == 40
    assert examples_of(corpus) == [row for row in dict.fromkeys(made) if held.isdisjoint(row)]
    assert corpus.counts["sharing a held-out text"] > 0

    source.shuffle(made)
    again = load(put(tmp_path / "b.csv", made), tmp_path, held_out=20)
    assert {*again.pairs.dev, *again.pairs.test} == set(pairs)


def test_examples_are_cached_by_content_and_columns(tmp_path):
    file = put(tmp_path / "a.csv", rows(30))
    corpora = [
        load(file, tmp_path, columns) for columns in (TRIPLE, TRIPLE[:2], TRIPLE[::-1], TRIPLE)
    ]
    assert len({corpus.digest for corpus in corpora}) == 3
    assert len(list((tmp_path / "corpus").iterdir())) == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "sent0,sent1\na,b\n", r'a\.csv:1: no column "hard_neg"\. Columns: sent0, sent1\. Name one with `columns`\.$'),
        ("a.csv", "sent0,sent1,hard_neg\na,b,c\na,b\n", r"a\.csv:3: 2 fields, the header has 3"),
        ("a.jsonl", '{"sent0": "a", "sent1": "b"}\n', r'a\.jsonl:1: no column "hard_neg"'),
        ("a.jsonl", '{"sent0": "a", "sent1": 1, "hard_neg": ""}', r'a\.jsonl:1: "sent1" is 1'),
        ("a.txt", "one sentence\n", r"a\.txt has no columns.*Expected csv"),
    ],
)  # fmt: skip
def test_bad_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        load(str(tmp_path / name), tmp_path)


def test_one_column_is_no_example(tmp_path):
    file = put(tmp_path / "a.csv", rows(30))
    with pytest.raises(UserError, match=r"`columns` sent0: one column.* `column` sent0$"):
        load(file, tmp_path, ("sent0",))


def test_docstrings_have_no_columns(tmp_path):
    with pytest.raises(UserError, match="docstrings has no columns"):
        load("docstrings", tmp_path)


@pytest.fixture
def float32() -> Iterator[None]:
    """Accelerate keeps one precision for a process; other tests leave theirs behind."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture
def config(toy_model, tmp_path, float32) -> TrainConfig:
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
        ((), SimCSE(supervision="pairs"), r"2 texts .* 0 are named.*`columns` ANCHOR POSITIVE$"),
        (TRIPLE, SimCSE(supervision="pairs"), "2 texts .* 3 are named"),
        (TRIPLE[:2], SimCSE(supervision="triples"), "3 texts.*ANCHOR POSITIVE HARD_NEGATIVE"),
        (TRIPLE, SimCSE(), "simcse as set sees one text.*`column`,.*`supervision` pairs"),
        (TRIPLE[:2], WhitenedCSE(), "whitenedcse as set sees one text"),
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
    """The formula of SimCSE's section 4 in dull loops, on what `embed` makes of each text."""
    encoder = load_encoder(config.model, device="cpu")
    units = []
    for column in zip(*batch, strict=True):
        vectors = encoder.embed(column).astype(np.float64)
        units.append(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    anchor, positive, *negative = units
    losses = []
    for i in range(len(batch)):
        terms = [np.exp(anchor[i] @ positive[j] / 0.05) for j in range(len(batch))]
        own = terms[i]
        for j in range(len(batch) if negative else 0):
            weight = 0.7 if i == j else 0.0
            terms.append(np.exp(anchor[i] @ negative[0][j] / 0.05 + weight))
        losses.append(-np.log(own / sum(terms)))
    return float(np.mean(losses))


@pytest.mark.parametrize(
    ("columns", "supervision"),
    [(TRIPLE, "triples"), (("sent0", "hard_neg", "sent1"), "triples"), (TRIPLE[:2], "pairs")],
)
def test_the_loss_is_that_of_the_columns(config, tmp_path, columns, supervision):
    text = replace(config.text, columns=columns)
    objective = replace(config.objective, supervision=supervision)
    settings = replace(config, text=text, objective=objective)
    outcome = train(settings)
    steps = [line for line in outcome.run.metrics() if line["kind"] == "step"]
    assert len(steps) == 10

    corpus = load_corpus(text, tmp_path)
    order = np.random.default_rng([settings.seed, 0]).permutation(corpus.train_rows)[:16]
    batch = [tuple(corpus[int(row) + t] for t in range(len(columns))) for row in order]
    places = [TRIPLE.index(column) for column in columns]
    originals = {tuple(row[i] for i in places) for row in rows(200)}
    assert set(batch) <= originals
    assert steps[0]["loss"] == pytest.approx(first_loss(settings, batch), rel=1e-4)
    if len(columns) == 3:
        swapped = [(a, c, b) for a, b, c in batch]
        assert steps[0]["loss"] != pytest.approx(first_loss(settings, swapped), rel=1e-2)


def test_a_run_on_triples_measures_on_held_out_pairs(config):
    results = train(config).results
    assert results.corpus.counts["held out"] == 20
    assert results.corpus.sentences == 180
    assert results.start.pairs.queries == 10
    assert "held-out" in results.verdict.protocol
    assert "halves" not in results.verdict.protocol


def test_an_interrupted_run_on_triples_resumes_bit_for_bit(config, tmp_path, monkeypatch):
    """With noise, and a loss that breaks at step 8: the run goes on from step 5."""
    noisy = replace(config, dropout=0.1, objective=replace(config.objective, head="mlp"))
    whole = train(noisy)
    original, calls = SimCSE.terms, []

    def terms(self, views):
        calls.append(1)
        scale = float("nan") if len(calls) > 7 else 1.0
        return {name: value * scale for name, value in original(self, views).items()}

    with monkeypatch.context() as patch:
        patch.setattr(SimCSE, "terms", terms)
        with pytest.raises(Stopped, match=r"step 8.*step 5"):
            train(replace(noisy, output=tmp_path / "broken"))
    resumed = train(resume=tmp_path / "broken")
    assert Run(tmp_path / "broken").config.text.columns == TRIPLE
    assert resumed.results.evaluations == whole.results.evaluations
    one, other = load_file(whole.run.kept_weights), load_file(resumed.run.kept_weights)
    assert all(np.array_equal(one[name], other[name]) for name in one)
