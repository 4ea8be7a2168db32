"""Time: tokens are counted before they pass, and a training is planned by how long they take."""

import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from resumed import cut_short
from searches import short_search, small_search, write_documents
from toy import sentences, write_rows

from isospace.adaptation import adapt as module, fine_tune, selection, time_plan
from isospace.adaptation.adapt import adapt
from isospace.adaptation.candidates import PAIR_MAPS, THROUGH
from isospace.adaptation.cross_validation import Folds
from isospace.adaptation.results import read_candidates
from isospace.adaptation.time_plan import (
    LEAST_SHARE,
    SPARE,
    Passes,
    TimePlan,
    evaluation_tokens,
    seconds_per_token,
    tokens_of,
)
from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.settings import EncoderSettings
from isospace.errors import Interrupted
from isospace.training.fit import Fit
from isospace.training.loop import FEWEST_UPDATES, Loop, evaluation_steps

SECONDS = {"until": 360, "update": 1, "evaluation": 3, "token": 0.5}
PLAN = TimePlan(**SECONDS, validating=40, testing=40, trainings=1, evaluations=2, most=10_000)


@pytest.mark.parametrize("trainings", [1, 2, 3])
def test_what_is_planned_is_over_in_time_and_one_update_more_is_not(trainings):
    plan = replace(PLAN, trainings=trainings)
    updates = plan.updates(now=30)
    assert SPARE * plan.takes(updates) <= 330 < SPARE * plan.takes(updates + 1)
    assert replace(plan, most=64).updates(13, done=32, evaluated=32) == 64


def test_each_evaluation_of_each_training_is_counted():
    """Of 100 updates after 25, 50 and 100, and of the base model once."""
    assert PLAN.takes(100) == 100 + 4 * 3 + 60
    assert replace(PLAN, trainings=3).takes(100) == 300 + 10 * 3 + 60
    assert replace(PLAN, trainings=3).takes(100, done=50, evaluated=50) == 250 + 7 * 3 + 60
    assert PLAN.takes(100, done=30, evaluated=21) == 70 + 2 * 3 + 60  # when it had another length


def test_a_look_before_the_end_is_a_tenth_of_the_training_at_most():
    """What takes longer is worth more as updates; the end is looked at whatever that takes."""
    slow = replace(PLAN, evaluation=6)
    assert slow.due(100) == [50, 100]
    assert replace(PLAN, evaluation=11).due(100) == [100]
    assert slow.due(400) == [50, 100, 200, 400]
    assert slow.due(0) == []


@pytest.mark.parametrize("evaluations", [1, 2, 10])
@pytest.mark.parametrize("total", [1, 2, 7, 60, 300, 1000])
def test_evaluations_go_on_where_they_were(total, evaluations):
    """By the last one alone, as in a run that was stopped."""
    steps = evaluation_steps(total, evaluations, earliest=24)
    for place, last in enumerate(steps):
        assert evaluation_steps(total, evaluations, 24, last) == steps[place + 1 :]


def test_evaluations_of_another_length_are_neither_crowded_nor_lost():
    assert evaluation_steps(121, 2, 24, last=24) == [60, 121]  # and not 30
    assert evaluation_steps(60, 2, 24, last=58) == [60]


def ended(plan, update, evaluation, token):
    """Return when all is over on a machine with these speeds, by a training of the real plan."""
    clock, evaluated = 30.0, 0
    loop = Loop(SimpleNamespace(config=TrainConfig()))
    step, total = 0, plan.updates(clock)
    clock += evaluation
    while step < total:
        step += 1
        loop.note_update(update)
        clock += update
        if step in plan.due(total, evaluated):
            clock, evaluated = clock + evaluation, step
            plan = replace(plan, evaluation=evaluation, token=token)
        plan = replace(plan, update=loop.pace)
        total = max(plan.updates(clock, step, evaluated), step)
    return clock + 120 * token


@pytest.mark.parametrize("pace", [0.25, 0.5, 1, 1.5])
@pytest.mark.parametrize("mistimed", ["update", "evaluation", "token", "update evaluation token"])
def test_a_training_ends_in_time_and_not_early_whatever_was_mistimed(mistimed, pace):
    true = {name: SECONDS[name] for name in ("update", "evaluation", "token")}
    true |= {name: pace * SECONDS[name] for name in mistimed.split()}
    assert 300 < ended(PLAN, **true) <= 360


def test_the_first_update_warms_up_and_old_ones_are_forgotten():
    loop = Loop(SimpleNamespace(config=TrainConfig()))
    for seconds in (9.0, 1.0):
        loop.note_update(seconds)
        assert loop.pace == seconds
    for _ in range(20):
        loop.note_update(2.0)
    assert (loop.pace, loop.updating) == (2.0, 50.0)


@pytest.fixture
def config(small_split, toy_model, tmp_path):
    return small_search(tmp_path, toy_model)


@pytest.fixture
def clock(monkeypatch):
    """An update takes a second, and nothing else any time to speak of."""
    now = [0.0]

    def ticked():
        now[0] += 1e-9
        return now[0]

    monkeypatch.setattr(module.time, "monotonic", ticked)
    for using in (module, fine_tune):
        monkeypatch.setattr(using, "seconds_per_token", lambda *_: 1e-9)
    note = Loop.note_update

    def noted(self, _):
        now[0] += 1.0
        note(self, 1.0)

    monkeypatch.setattr(Loop, "note_update", noted)
    return now


def test_a_machine_that_was_busy_when_timed_trains_longer_than_planned(config, clock, monkeypatch):
    monkeypatch.setattr(Loop, "seconds_per_step", lambda _: 2.0)
    begun, train = [], Fit.train

    def noted(self, updates, planned):
        begun.append(updates)
        train(self, updates, planned)

    monkeypatch.setattr(Fit, "train", noted)
    finished = adapt(replace(config, budget=(22 / 60, "minutes")))
    steps = finished.results.training.steps
    assert begun[0] == 10 < steps
    assert 18 < clock[0] <= 22
    assert [row["step"] for row in finished.run.evaluations()] == [0, *evaluation_steps(steps, 2)]
    rates = [row["learning_rate"] for row in finished.run.steps()]
    assert all(later < rate for rate, later in pairwise(rates))


@pytest.mark.exhaustive
def test_a_little_too_little_time_is_no_reason_to_train_nothing(config, clock, monkeypatch):
    monkeypatch.setattr(Loop, "seconds_per_step", lambda _: 1.0)
    finished = adapt(replace(config, budget=(9 / 60, "minutes")))
    assert finished.results.training.steps == FEWEST_UPDATES


def test_a_machine_that_was_busy_at_the_start_trains_all_the_same(config, clock, monkeypatch):
    speeds = iter([3600.0])
    monkeypatch.setattr(module, "seconds_per_token", lambda *_: next(speeds, 1e-9))
    assert adapt(replace(config, budget=(1, "minutes"))).results.training.steps >= FEWEST_UPDATES


def test_what_was_stopped_goes_on_as_it_was_planned_by_then(config, clock, monkeypatch):
    """Whatever the speed is now; a training for which no time was left is not made either."""
    monkeypatch.setattr(Loop, "seconds_per_step", lambda _: 2.0)
    seen, record = [], Fit._record_evaluation

    def stopped(self):
        record(self)
        if self.loop.step:
            seen.extend([self.loop.step, self.loop.total_steps])
            self._stop.receive()

    with monkeypatch.context() as patch:
        patch.setattr(Fit, "_record_evaluation", stopped)
        with pytest.raises(Interrupted):
            adapt(replace(config, budget=(44 / 60, "minutes")))
    assert seen == [20, 40]
    monkeypatch.setattr(TimePlan, "updates", lambda *_: pytest.fail("planned"))
    finished = adapt(resume=config.output)
    assert finished.results.training.steps == 40
    assert [row["step"] for row in finished.run.evaluations()] == [0, 20, 40]


def test_a_machine_too_slow_for_a_merge_trains_without_one(config, clock, monkeypatch):
    monkeypatch.setattr(Loop, "seconds_per_step", lambda _: 1.0)

    def seconds(search):
        """An hour has time to validate little more than one trained model."""
        held_out, length = search.task.data.held_out, search.task.training.max_length
        evaluation = evaluation_tokens(search.encoders.encoder, held_out, length)
        tokens = 1.1 * search.passes.validating + search.passes.testing + 3 * evaluation
        return 3600 / SPARE / tokens

    monkeypatch.setattr(fine_tune, "_seconds_per_token", seconds)
    monkeypatch.setattr(TimePlan, "allows_another", lambda *_: False)
    finished = adapt(replace(config, budget=(60, "minutes")))
    assert finished.results.training.steps >= FEWEST_UPDATES
    searched = read_candidates(finished.run.folder)
    kinds = [one.kind for one in searched.candidates]
    assert any(kind.startswith("fine-tuned") for kind in kinds)
    assert not any(kind.startswith("merged") for kind in kinds)
    assert "The budget ended before all merged models were tried." in searched.notes


def test_another_is_tried_where_it_and_what_judges_end_in_time():
    """A try takes 20 seconds and judging 20, and a tenth more."""
    assert PLAN.allows_another(360 - 44)
    assert not PLAN.allows_another(360 - 43.9)


@pytest.fixture(scope="module")
def spelled(toy_model, tmp_path_factory):
    """Words that the tokenizer spells letter by letter, in passages of which some are cut."""
    folder = tmp_path_factory.mktemp("spelled")
    rows = []
    for line in write_documents(folder / "known.jsonl").read_text().splitlines()[:400]:
        row = json.loads(line)
        rows.append({key: re.sub("[a-z]+", r"\g<0>zu", text) for key, text in row.items()})
    file = write_rows(folder / "spelled.jsonl", rows)
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
def test_counted_tokens_are_those_that_pass(spelled, tmp_path, monkeypatch, prompts, precision):
    """Where all that is counted is done: merging goes to its end, and a trained state is tested."""
    monkeypatch.setattr("isospace.adaptation.candidates.SHARES", (1.0, 0.5))
    maps = replace(PAIR_MAPS, tried=(THROUGH,))
    monkeypatch.setattr("isospace.adaptation.candidates.PAIR_MAPS", maps)
    last = "isospace.adaptation.selection.best_position"
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
    finished = adapt(replace(spelled, precision=precision, output=tmp_path / "run", **prompts))
    assert finished.results.split
    selected = read_candidates(finished.run.folder).selected.kind
    assert selected.endswith("ed, then whitened by pairs")
    [(passes, each, fit)] = counted
    # Beside them the probes pass, by which a model is held against what was measured.
    evaluations = len(fit.evaluations.measured) * each
    assert sum(passed) == pytest.approx(passes.trained + evaluations, rel=0.02)


@pytest.mark.parametrize("small", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_minutes_leave_the_tokens_of_measuring_out(spelled, tmp_path, monkeypatch, small):
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
    finished = adapt(replace(spelled, budget=(30, "minutes"), output=tmp_path / "run"))
    [(passes, each)] = planned
    notes = read_candidates(finished.run.folder).notes
    told = next(one for one in notes if "a budget of 30 minutes is too little for 10" in one)
    [enough] = re.findall(r"Give about ([\d,]+) ", told)
    evaluations = 7 if small else 2  # of the base model and of each end
    # A small folder always tries a merge.
    least = passes.trained if small else passes.validating + passes.testing
    minutes = SPARE * 60 * (least + evaluations * each)
    assert minutes <= int(enough.replace(",", "")) <= minutes + 30  # what the search itself took


def test_a_budget_that_is_short_measures_less_and_says_so(spelled, tmp_path, monkeypatch):
    """The same share of validation and test pairs, and of pairs to fit on; a resumed run too."""
    monkeypatch.setattr(Folds, "divide", lambda *_: None)
    monkeypatch.setattr("isospace.corpus.groups.SMALLEST_SPLIT", 30)
    monkeypatch.setattr("isospace.adaptation.time_plan.FEWEST_FITTED", 1)
    whole = adapt(replace(spelled, budget=(100, "tokens"), output=tmp_path / "whole")).results
    monkeypatch.setattr("isospace.adaptation.adapt.seconds_per_token", lambda *_: 1.0)

    config = replace(spelled, budget=(1, "minutes"), output=tmp_path / "run")
    with pytest.raises(Interrupted), cut_short(selection, "run_results"):
        adapt(config)
    monkeypatch.setattr(time_plan.Amounts, "planned", lambda *_: pytest.fail("planned again"))
    results, notes = adapt(resume=config.output).results, read_candidates(config.output).notes
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
    prompted = load_encoder(str(toy_model), EncoderSettings(query_prompt="a dog "))
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
