"""Labels of examples: each stays with its texts from the file to the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from row_files import write_rows
from toy import sentences

from isospace.config import CorpusConfig, TrainConfig
from isospace.corpus.corpus import Corpus, load_corpus
from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.objectives import SBERTSoftmax, SimCSE
from isospace.training.card import model_card
from isospace.training.prepare import require_usable
from isospace.training.train import train

HEADER = ("premise", "hypothesis", "label")
NLI = ("entailment", "neutral", "contradiction")
Row = tuple[str, str, object]


def rows(count: int, labels: Sequence[object] = NLI) -> list[Row]:
    """Pairs that share no text, the labels in turn."""
    texts = zip(sentences(count, 0), sentences(count, 1), strict=True)
    return [(*pair, labels[i % len(labels)]) for i, pair in enumerate(texts)]


def put(path: Path, made: list[Row]) -> Path:
    return write_rows(path, [dict(zip(HEADER, row, strict=True)) for row in made])


def load(cache: Path, *files: Path, exclude: Sequence[str] = (), **options: object) -> Corpus:
    config = CorpusConfig(
        corpus=files, columns=HEADER[:2], label_column="label", **{"held_out": 0, **options}
    )
    return load_corpus(config, cache, exclude)


def labelled(corpus: Corpus, places: Sequence[int] | None = None) -> list[tuple[str, str, str]]:
    """The examples with their labels, all or those at these places."""
    places = range(len(corpus) // 2) if places is None else places
    return [(corpus[2 * i], corpus[2 * i + 1], corpus.classes[corpus.labels[i]]) for i in places]


def test_a_row_that_is_dropped_takes_its_label_with_it(tmp_path):
    """By its shortness, as a repetition, as a text of the benchmark; of equal rows the first stays."""
    good = rows(30)
    a, b = "the old cat reads here", "a cat that reads over there"
    dropped: list[Row] = [
        ("", b, "empty"),
        (a, "short", "short"),
        (a, "A text of the benchmark.", "leaked"),
        (f" {good[4][0]}", good[4][1], "again"),
        (a, "", None),
    ]
    made = [*good[:2], *dropped[:2], *good[2:9], *dropped[2:], *good[9:]]
    file = put(tmp_path / "a.jsonl", made)
    corpus = load(tmp_path, file, exclude=("A text of the benchmark.",))
    assert labelled(corpus) == good
    assert corpus.classes == sorted(NLI)


@pytest.mark.parametrize("labels", [NLI, (0, 1, 2)])
def test_only_positive_examples_are_held_out(tmp_path, labels):
    made = rows(900, labels)
    corpus = load(tmp_path, put(tmp_path / "a.jsonl", made), held_out=60)
    positive = {(a, b) for a, b, label in made if label == labels[0]}
    pairs = {*corpus.pairs.dev, *corpus.pairs.test}
    assert len(pairs) == 60
    assert pairs <= positive
    trained = labelled(corpus, (corpus.train_rows // 2).tolist())
    assert sorted(trained) == sorted(
        (a, b, str(label)) for a, b, label in made if (a, b) not in pairs
    )


@pytest.mark.parametrize(("label", "shown"), [(None, "None"), (" ", "' '"), (0.5, "0.5")])
def test_what_is_no_label_is_named_by_file_and_line(tmp_path, label, shown):
    made = rows(5)
    made[3] = (*made[3][:2], label)
    with pytest.raises(UserError, match=rf'a\.jsonl:4: "label" is {shown}, expected a label'):
        load(tmp_path, put(tmp_path / "a.jsonl", made))


@pytest.fixture
def config(toy_model, tmp_path) -> TrainConfig:
    """Ten updates on labelled pairs without noise, in float32."""
    file = put(tmp_path / "nli.jsonl", rows(240))
    text = CorpusConfig(corpus=file, columns=HEADER[:2], label_column="label", held_out=20)
    return TrainConfig(
        text=text,
        objective=SBERTSoftmax(),
        model=str(toy_model),
        dropout=0.0,
        batch_size=16,
        budget=(160, "sentences"),
        learning_rate=1e-3,
        precision="float32",
        output=tmp_path / "run",
        select="last",
    )


def first_loss(config: TrainConfig, batch: list[Row]) -> float:
    """Of labels in sorted order, by what `embed` makes of each text and the head of the seed."""
    encoder = load_encoder(config.model, device="cpu")
    first, second, labels = zip(*batch, strict=True)
    u, v = (encoder.embed(texts).astype(np.float64) for texts in (first, second))
    head = config.objective.build_head(32, config.seed, 3).layer
    features = np.concatenate([u, v, abs(u - v)], axis=1)
    logits = features @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    own = logits[np.arange(len(batch)), [sorted(NLI).index(label) for label in labels]]
    return float(np.mean(np.log(np.exp(logits).sum(axis=1)) - own))


def test_a_run_sees_each_pair_with_its_label(config, tmp_path):
    outcome = train(config)
    steps = [line for line in outcome.run.metrics() if line["kind"] == "step"]
    corpus = load_corpus(config.text, tmp_path)
    order = np.random.default_rng([config.seed, 0]).permutation(corpus.train_rows)[:16]
    batch = labelled(corpus, (order // 2).tolist())
    assert set(batch) <= set(rows(240))
    assert steps[0]["loss"] == pytest.approx(first_loss(config, batch), rel=1e-4)
    others = [(*one[:2], other[2]) for one, other in pairwise(batch)]
    assert steps[0]["loss"] != pytest.approx(first_loss(config, others), rel=1e-3)
    assert outcome.results.base.pairs.queries == 20
    assert "held-out pairs" in outcome.results.verdict.protocol
    adapted = replace(outcome.results, model_step=outcome.results.training.steps)
    assert "adapted with labels" in model_card(config, adapted, "mean")


def test_labels_and_what_reads_them_come_together(config, monkeypatch):
    monkeypatch.setattr("isospace.training.prepare.load_encoder", lambda *_: pytest.fail("loaded"))
    monkeypatch.setattr("isospace.training.prepare.load_data", lambda *_: pytest.fail("read"))
    without = replace(config.text, label_column=None)
    pairs = {"objective": SimCSE(), "views": "pairs"}
    for setting, message in (
        ({"text": without}, "`label_column` is missing: sbert-softmax"),
        (pairs, "`label_column` label: simcse .*sbert-softmax"),
    ):
        wrong = replace(config, **setting)
        with pytest.raises(UserError, match=message):
            train(wrong)
        with pytest.raises(UserError, match=message):
            require_usable([wrong])


def test_one_class_is_no_task(config, tmp_path):
    put(tmp_path / "nli.jsonl", rows(240, NLI[:1]))
    (tmp_path / "config.json").touch()  # of a model that would not load
    with pytest.raises(UserError, match=r"`label_column` label: .* entailment"):
        train(replace(config, model=str(tmp_path)))
