"""benchmarks/selection_study.py: what its page says of a few objectives."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("selection_study")


def test_the_interval_is_students_t(study):
    means = [0.1, 0.4, -0.3, 0.2]
    expected = scipy.stats.t.interval(0.95, 3, np.mean(means), scipy.stats.sem(means))
    assert study.interval(means) == pytest.approx(expected)
    assert study.interval([0.3, 0.3]) == pytest.approx((0.3, 0.3))
    assert study.interval([0.3]) == (-math.inf, math.inf)


def test_it_holds_the_mean_of_four_objectives_in_95_cases_of_100(study):
    random = np.random.default_rng(0)
    objectives = random.normal(size=(4000, 4, 1))
    means = (objectives + 0.2 * random.normal(size=(4000, 4, 3))).mean(2)  # of three seeds each
    held = [low <= 0 <= high for low, high in map(study.interval, means)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.012)


def test_the_page_is_drawn_from_the_record(study, monkeypatch, tmp_path):
    page = study.PAGE.read_text(encoding="utf-8")
    copy = tmp_path / "selection.md"
    copy.write_text(page, encoding="utf-8")
    monkeypatch.setattr(study, "PAGE", copy)
    study._draw()
    assert copy.read_text(encoding="utf-8") == page
