"""What measuring will take: the tokens that are counted before are those that pass."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from searches import short_search, write_documents
from toy import sentences

from isospace.adaptation import fine_tune, time_plan
from isospace.adaptation.adapt import adapt
from isospace.adaptation.candidates import THROUGH
from isospace.adaptation.cross_validation import Folds
from isospace.adaptation.results import read_candidates
from isospace.adaptation.time_plan import (
    LEAST_SHARE,
    SPARE,
    Passes,
    evaluation_tokens,
    seconds_per_token,
    tokens_of,
)
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.errors import Interrupted


@pytest.fixture(scope="module")
def config(toy_model, tmp_path_factory):
    """Words that the tokenizer spells letter by letter, in passages of which some are cut."""
    folder = tmp_path_factory.mktemp("spelled")
    rows = write_documents(folder / "known.jsonl").read_text().splitlines()[:400]
    spelled = [
        {key: re.sub("[a-z]+", r"\g<0>zu", text) for key, text in json.loads(row).items()}
        for row in rows
    ]
    file = folder / "spelled.jsonl"
    file.write_text("\n".join(map(json.dumps, spelled)))
    searched = short_search(file, toy_model, folder / "run")
    text = replace(searched.text, held_out=60)
    return replace(searched, text=text, budget=(50_000, "tokens"))


@pytest.mark.parametrize(
    ("precision", "prompts"),
    [
        pytest.param("float32", {}, marks=pytest.mark.exhaustive),
        ("bf16", {"query_prompt": "the cat: ", "document_prompt": "a: "}),
    ],
)
def test_the_tokens_that_are_counted_are_those_that_pass(
    config, tmp_path, monkeypatch, prompts, precision
):
    """Where all that is counted is done: merging goes to its end, and a trained state is tested."""
    monkeypatch.setattr("isospace.adaptation.adapt.SHARES", (0.5,))
    monkeypatch.setattr("isospace.adaptation.candidate_encoders.PAIR_MAPS", (THROUGH,))
    last = "isospace.adaptation.scoring.best_position"
    monkeypatch.setattr(last, lambda values: len(values) - 1)
    # What both selects and tests passes once.
    monkeypatch.setattr("isospace.corpus.groups.SMALLEST_SPLIT", 30)
    monkeypatch.setenv("ISOSPACE_CACHE", str(tmp_path / "cache"))
    embed, updates, passed, counted = Encoder.embed, fine_tune._updates, [], []

    def embed_and_count(self, texts, *args, max_length=None, side=None, **kwargs):
        args = list(args)
        if len(args) > 1:  # the view, then the length
            max_length = args.pop(1)
        if len(texts):
            passed.append(sum(map(len, self.tokens.ids(texts, max_length, side=side))))
        return embed(self, texts, *args, max_length=max_length, side=side, **kwargs)

    def noted(search, fit, *more):
        task = search.task
        passes = Passes.count(task, search.encoders)
        each = evaluation_tokens(fit.encoder, task.data.held_out, fit.config.max_length)
        counted.append((passes, each, fit))
        passed.clear()
        return updates(search, fit, *more)

    monkeypatch.setattr(Encoder, "embed", embed_and_count)
    monkeypatch.setattr(fine_tune, "_updates", noted)
    finished = adapt(replace(config, precision=precision, output=tmp_path / "run", **prompts))
    assert finished.results.split
    selected = read_candidates(finished.run.folder).selected.kind
    assert selected.endswith("ed, then whitened by pairs")
    [(passes, each, fit)] = counted
    # Beside them the probes pass, by which a model is held against what was measured.
    evaluations = len(fit.evaluations.measured) * each
    assert sum(passed) == pytest.approx(passes.trained + evaluations, rel=0.02)


@pytest.mark.parametrize("small", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_a_budget_in_minutes_leaves_the_tokens_of_measuring_out(
    config, tmp_path, monkeypatch, small
):
    """An hour a token: what measuring takes is all that counts, in a small folder of all parts."""
    planned = []

    def noted(search, fit, plan):
        held_out, length = search.task.data.held_out, fit.config.max_length
        planned.append((search.passes, evaluation_tokens(fit.encoder, held_out, length)))
        return updates(search, fit, plan)

    updates = fine_tune._updates
    monkeypatch.setattr(fine_tune, "_updates", noted)
    if not small:
        monkeypatch.setattr(Folds, "divide", lambda *_: None)
    monkeypatch.setattr(fine_tune, "seconds_per_token", lambda *_: 3600.0)
    monkeypatch.setattr("isospace.adaptation.adapt.seconds_per_token", lambda *_: 1e-6)
    finished = adapt(replace(config, budget=(30, "minutes"), output=tmp_path / "run"))
    [(passes, each)] = planned
    notes = read_candidates(finished.run.folder).notes
    told = next(one for one in notes if "a budget of 30 minutes is too little for 10" in one)
    [enough] = re.findall(r"Give about ([\d,]+) ", told)
    evaluations = 7 if small else 2  # of the base model and of each end
    minutes = SPARE * 60 * (passes.trained + evaluations * each)
    assert minutes <= int(enough.replace(",", "")) <= minutes + 30  # what the search itself took


def test_a_budget_that_is_short_measures_less_and_says_so(config, tmp_path, monkeypatch):
    """The same share of validation and test pairs, and of pairs to fit on; a resumed run too."""
    monkeypatch.setattr(Folds, "divide", lambda *_: None)
    monkeypatch.setattr("isospace.corpus.groups.SMALLEST_SPLIT", 30)
    monkeypatch.setattr("isospace.adaptation.time_plan.FEWEST_FITTED", 1)
    whole = adapt(replace(config, budget=(100, "tokens"), output=tmp_path / "whole")).results
    monkeypatch.setattr("isospace.adaptation.adapt.seconds_per_token", lambda *_: 1.0)

    def stopped(*_):
        raise KeyboardInterrupt

    config = replace(config, budget=(1, "minutes"), output=tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("isospace.adaptation.outcome.run_results", stopped)
        with pytest.raises(Interrupted):
            adapt(config)
    monkeypatch.setattr("isospace.adaptation.adapt.seconds_per_token", lambda *_: 1e-9)
    finished = adapt(resume=config.output)
    results, notes = finished.results, read_candidates(config.output).notes
    assert results.base.pairs.queries == math.ceil(LEAST_SHARE * whole.base.pairs.queries)
    assert results.base.pairs.candidates < whole.base.pairs.candidates
    assert results.training.steps == 0
    assert results.training.evaluations == ()
    assert any("25 % of the validation and test pairs" in note for note in notes)
    assert any("Nothing was trained" in note for note in notes)


def test_tokens_are_counted_as_they_pass(toy_model):
    encoder = load_encoder(str(toy_model))
    around = encoder.tokens.around
    assert tokens_of(encoder, ("query", ["the cat", "the cat"]), (None, ["the cat"])) == 2 + around
    assert tokens_of(encoder, (None, ["zzzz"])) == 4 + around  # letter by letter
    assert tokens_of(encoder, (None, ["the " * 500])) == encoder.max_length
    assert tokens_of(encoder, (None, ["the " * 500]), max_length=8) == 8
    prompted = load_encoder(str(toy_model), query_prompt="a dog ")
    asked = ("query", ["the cat"]), ("document", ["the cat", "the dog"])
    assert tokens_of(prompted, *asked) == 4 + 2 + 2 + 3 * around


def test_the_speed_is_that_of_tokens_whatever_a_word_is_made_of(toy_model, monkeypatch):
    """By a clock that the tokens drive, which are cut at the encoder's limit."""
    now = [0.0]
    monkeypatch.setattr(time_plan.time, "monotonic", lambda: now[0])
    encoder = load_encoder(str(toy_model))

    def embed(texts, *, precision, side):
        now[0] += sum(map(len, encoder.tokens.ids(texts, side=side))) / 1000
        now[0] += 5.0 * (now[0] < 5)  # the first call

    monkeypatch.setattr(encoder, "embed", embed)
    for texts in (sentences(200), ["zyx" * 9] * 70, ["wordless " * 900] * 3):
        now[0] = 0.0
        assert seconds_per_token(encoder, texts, "float32") == pytest.approx(1e-3)
