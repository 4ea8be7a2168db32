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


def test_what_the_page_says_of_other_intervals(study):
    """A bootstrap of four values misses in one case of five; t of two pairs alike in one of three."""
    random = np.random.default_rng(1)
    misses = []
    for values in random.normal(size=(1000, 4)):
        drawn = values[random.integers(4, size=(400, 4))].mean(1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        misses.append(not low <= 0 <= high)
    assert np.mean(misses) == pytest.approx(0.2, abs=0.04)
    alike = [study.interval([a, a, b, b]) for a, b in random.normal(size=(2000, 2))]
    assert np.mean([not low <= 0 <= high for low, high in alike]) == pytest.approx(0.32, abs=0.03)


def test_an_objective_counts_once_however_many_runs_it_has(study):
    records = [{"cell": ["mean", name, 0]} for name in ("iso", "simcse", "iso", "iso")]
    means = study._means(records, np.array([1.0, 5.0, 2.0, 3.0]))
    assert means == {"simcse": 5.0, "iso": 2.0}


def test_the_page_is_drawn_from_the_record(study, monkeypatch, tmp_path):
    page = study.PAGE.read_text(encoding="utf-8")
    copy = tmp_path / "selection.md"
    copy.write_text(page, encoding="utf-8")
    monkeypatch.setattr(study, "PAGE", copy)
    study._draw()
    assert copy.read_text(encoding="utf-8") == page
