"""The Hub copies, on local stand-ins with invented texts."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from isospace.errors import UserError
from isospace.evaluation.senteval import COPIES, SICK_TEST, load_sts_hub
from isospace.evaluation.sts import evaluate_sts

datasets = pytest.importorskip("datasets", reason="needs isospace[hub]")


def columns(pairs, gold_sum, characters):
    """Rows of invented pairs with exactly these sums."""
    random = np.random.default_rng(pairs)
    swing = random.uniform(-1, 1, pairs // 2)
    gold = gold_sum / pairs + np.concatenate([swing, -swing, np.zeros(pairs % 2)])
    swing = random.integers(-9, 10, pairs)
    lengths = characters // (2 * pairs) + random.permutation(np.concatenate([swing, -swing]))
    lengths[: characters - lengths.sum()] += 1
    texts = [f"{i:05d}".ljust(length, "x") for i, length in enumerate(lengths)]
    return {"sentence1": texts[:pairs], "sentence2": texts[pairs:], "score": gold.tolist()}


def joined(parts):
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


SIZES = {"STS12": 3108, "STS13": 1500, "STS14": 3750, "STS15": 3000, "STS16": 1186}
SIZES |= {"STSBenchmark": 1379, "SICKRelatedness": 5000}


@cache
def stand_ins():
    """(repository, split) -> columns."""
    rows = {}
    for task, (repository, _) in COPIES.items():
        rows[repository, "test"] = columns(SIZES[task], 3.0 * SIZES[task], 50 * SIZES[task])
    rows["mteb/stsbenchmark-sts", "validation"] = columns(1500, 4500.0, 75_000)
    rows["mteb/sickr-sts", "test"] = joined([rows["mteb/sickr-sts", "test"], columns(**SICK_TEST)])
    return rows


class Hub:
    """Stands for `datasets.load_dataset`, and remembers what it was asked for."""

    def __init__(self):
        self.rows = dict(stand_ins())
        self.revisions = {}

    def __call__(self, repository, *, split, revision):
        self.revisions[repository] = revision
        return datasets.Dataset.from_dict(self.rows[repository, split])


@pytest.fixture
def hub(monkeypatch):
    hub = Hub()
    monkeypatch.setattr(datasets, "load_dataset", hub)
    return hub


def hashed(texts):
    return np.array([[len(text), hash(text) % 97, 1.0] for text in texts], np.float32)


def test_the_copies_become_the_seven_tasks(hub):
    tasks = load_sts_hub()
    counts = {name: {s: len(p) for s, p in task.subsets.items()} for name, task in tasks.items()}
    assert counts == {
        "STS12": {"test": 3108}, "STS13": {"test": 1500}, "STS14": {"test": 3750},
        "STS15": {"test": 3000}, "STS16": {"test": 1186},
        "STSBenchmark": {"dev": 1500, "test": 1379}, "SICKRelatedness": {"test": 4927},
    }  # fmt: skip
    assert all(len(revision) == 40 for revision in hub.revisions.values())
    result = evaluate_sts(hashed, tasks)
    assert None not in result.paper_row().values()
    assert result.score("STS12", "mean") is None
    assert result.headlines()["STS12"].source == "mteb/sts12-sts@a0d554a6 (test)"
    # SICK's test pairs are the run of rows with their sums.
    pairs, whole = tasks["SICKRelatedness"].subsets["test"], hub.rows["mteb/sickr-sts", "test"]
    assert list(pairs.first) == whole["sentence1"][5000:]
    assert pairs.gold.tolist() == whole["score"][5000:]
    assert pairs.source.endswith("rows 5000-9926")


def test_sick_in_another_order_is_refused(hub):
    order = np.random.default_rng(0).permutation(9927)
    rows = hub.rows["mteb/sickr-sts", "test"]
    hub.rows["mteb/sickr-sts", "test"] = {n: [v[i] for i in order] for n, v in rows.items()}
    with pytest.raises(UserError, match=r"mteb/sickr-sts.* test pairs of SICK-R.*`data`"):
        load_sts_hub()


def test_an_unreachable_hub_is_one_line(monkeypatch):
    def load(repository, **_):
        raise ConnectionError(f"Couldn't reach {repository}\nmany more lines")

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(UserError, match=r"^[^\n]*mteb/sts12-sts[^\n]*`data`[^\n]*$"):
        load_sts_hub()
