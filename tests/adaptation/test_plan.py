"""Minutes: what a training may have is planned before it, and anew by how long things take."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ladders import short_ladder, write_documents

from isospace.adaptation.adapt import FEWEST_UPDATES, adapt
from isospace.adaptation.plan import SPARE, Plan
from isospace.adaptation.results import read_ladder
from isospace.errors import Interrupted
from isospace.training.fit import Fit
from isospace.training.loop import Loop

PLAN = Plan(
    until=360, update=1, evaluation=6, measuring=60, trainings=1, evaluations=2, most=10_000
)


@pytest.mark.parametrize("trainings", [1, 2, 3])
def test_what_is_planned_is_over_in_time_and_one_update_more_is_not(trainings):
    plan = replace(PLAN, trainings=trainings)
    updates = plan.updates(now=30)
    assert SPARE * plan.takes(updates) <= 330 < SPARE * plan.takes(updates + 1)


def test_each_evaluation_of_each_training_is_counted():
    """Of 100 updates after 25, 50 and 100, and of the start once."""
    assert PLAN.takes(100) == 100 + 4 * 6 + 60
    assert replace(PLAN, trainings=3).takes(100) == 300 + 10 * 6 + 60
    assert replace(PLAN, trainings=3).takes(100, done=50, due=1) == 250 + 7 * 6 + 60


@pytest.mark.parametrize("pace", [0.25, 0.5, 1, 1.25])
def test_a_training_ends_in_time_whatever_its_pace_turns_out_to_be(pace):
    """The machine was twice as slow when it was timed, or becomes slower; 12 s are of the start."""
    began, done = 12.0, 50
    now = began + pace * (50 + 2 * 6)
    updates = PLAN.anew(now, began, done, evaluated=2, due=1)
    assert now + SPARE * pace * PLAN.takes(updates, done, due=1) <= 360
    assert now + SPARE * pace * PLAN.takes(updates + 1, done, due=1) > 360
    usual = PLAN.updates(0)
    assert (updates > usual) == (pace <= 1), (updates, usual)  # what was spare is free by now


def test_where_no_time_is_left_training_ends_with_what_is_done():
    assert PLAN.anew(now=350, began=12, done=50, evaluated=2, due=1) == 50
    assert PLAN.anew(now=500, began=12, done=50, evaluated=2, due=1) == 50


def test_no_more_than_the_text_allows():
    assert replace(PLAN, most=64).anew(now=13, began=12, done=32, evaluated=1, due=1) == 64


@pytest.fixture
def config(toy_model, tmp_path):
    documents = write_documents(tmp_path / "documents.jsonl")
    return short_ladder(documents, toy_model, tmp_path / "run")


def test_a_machine_that_was_busy_when_timed_trains_longer_than_planned(config, monkeypatch):
    """And two trainings are planned each by itself; without a clock nothing of this happens."""
    monkeypatch.setattr(Loop, "seconds_per_step", lambda _: 4.0)  # of some milliseconds
    begun, updates = [], Fit.measure_start

    def noted(self, planned=None):
        begun.append(planned)
        updates(self, planned)

    monkeypatch.setattr(Fit, "measure_start", noted)
    finished = adapt(replace(config, budget=(3, "minutes"), seeds=2))
    assert len(begun) == 2
    assert all(FEWEST_UPDATES <= planned < finished.results.steps for planned in begun)
    assert begun[0] < begun[1]  # the first left time
    assert [row["step"] for row in finished.run.evaluations()][-1] == finished.results.steps
    assert len(finished.run.evaluations()) == 3  # the start, the middle, the end
    told = read_ladder(finished.run.folder).story
    assert "Each training ends after 4 passes over its examples." in told


def test_a_little_too_little_time_is_no_reason_to_train_nothing(config, monkeypatch):
    monkeypatch.setattr(Loop, "seconds_per_step", lambda _: 6.0)
    finished = adapt(replace(config, budget=(1, "minutes")))
    story = read_ladder(finished.run.folder).story
    assert any("10 updates seemed to take 2 minutes, with all that" in told for told in story)
    assert finished.results.steps > FEWEST_UPDATES  # as they took no such time


def test_too_little_time_by_far_is(config, monkeypatch):
    monkeypatch.setattr(Loop, "seconds_per_step", lambda _: 12.0)
    finished = adapt(replace(config, budget=(1, "minutes"), seeds=2))
    [told] = read_ladder(finished.run.folder).story
    assert "Nothing was trained: a budget of 1 minute is too little for 10 updates" in told
    assert finished.results.steps == 0


def test_what_was_stopped_goes_on_as_it_was_planned_by_then(config, monkeypatch):
    """Whatever the speed is now, so that it ends as its learning rate foresaw."""
    monkeypatch.setattr(Loop, "seconds_per_step", lambda _: 4.0)
    fits, evaluate = [], Fit._show_evaluation

    def stopped(self):
        evaluate(self)
        if self.loop.step:
            fits.append(self)
            self._stop.receive()

    with monkeypatch.context() as patch:
        patch.setattr(Fit, "_show_evaluation", stopped)
        with pytest.raises(Interrupted):
            adapt(replace(config, budget=(2, "minutes")))
    [fit] = fits
    assert fit.loop.step < fit.loop.total_steps
    assert fit.due == [fit.loop.total_steps]  # and none at a half of what it is now
    monkeypatch.setattr("isospace.adaptation.plan.Plan.anew", lambda *_: pytest.fail("planned"))
    finished = adapt(resume=config.output)
    assert finished.results.steps == fit.loop.total_steps
    evaluated = [row["step"] for row in finished.run.evaluations()]
    assert evaluated == [*(row["step"] for row in fit.evaluations), *fit.due]
