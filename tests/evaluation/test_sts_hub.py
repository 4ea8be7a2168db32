"""The Hub copies, on local stand-ins with invented texts."""

import numpy as np
import pytest
from sts_files import DATA

from isospace.errors import UserError
from isospace.evaluation import senteval
from isospace.evaluation.senteval import COPIES, load_sts_hub
from isospace.evaluation.sts import evaluate_sts

datasets = pytest.importorskip("datasets", reason="needs isospace[hub]")

SICK = "mteb/sickr-sts", "test"
SIZES = {"STS12": 21, "STS13": 22, "STS14": 23, "STS15": 24, "STS16": 25}
SIZES |= {"STSBenchmark": 26, "SICKRelatedness": 40}
TEST = slice(20, 37)
"""The rows of SICK that stand for the test file."""


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the STS sets")
def test_the_sums_are_those_of_sick():
    path = DATA / "downstream" / "SICK" / "SICK_test_annotated.txt"
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    assert {
        "pairs": len(rows),
        "gold_sum": pytest.approx(sum(float(row[3]) for row in rows)),
        "characters": sum(len(row[1] + row[2]) for row in rows),
    } == senteval.SICK_TEST


def columns(count):
    random = np.random.default_rng(count)
    texts = [
        f"{i} ".ljust(length, "x") for i, length in enumerate(random.integers(5, 40, 2 * count))
    ]
    score = random.uniform(0, 5, count).tolist()
    return {"sentence1": texts[:count], "sentence2": texts[count:], "score": score}


@pytest.fixture
def hub(monkeypatch):
    """Stands for `datasets.load_dataset`: (repository, split) -> columns."""
    rows = {(place, "test"): columns(SIZES[task]) for task, (place, _) in COPIES.items()}
    rows["mteb/stsbenchmark-sts", "validation"] = columns(27)
    first, second, gold = (column[TEST] for column in rows[SICK].values())
    characters = sum(map(len, first + second))
    sums = {"pairs": len(gold), "gold_sum": sum(gold), "characters": characters}
    monkeypatch.setattr(senteval, "SICK_TEST", sums)

    def load(repository, *, split, revision):
        assert len(revision) == 40
        return datasets.Dataset.from_dict(rows[repository, split])

    monkeypatch.setattr(datasets, "load_dataset", load)
    return rows


def hashed(texts):
    return np.array([[len(text), hash(text) % 97, 1.0] for text in texts], np.float32)


def test_the_copies_become_the_seven_tasks(hub):
    tasks = load_sts_hub()
    counts = {name: {s: len(p) for s, p in task.subsets.items()} for name, task in tasks.items()}
    assert counts == {name: {"test": size} for name, size in SIZES.items()} | {
        "STSBenchmark": {"dev": 27, "test": 26},
        "SICKRelatedness": {"test": 17},
    }
    result = evaluate_sts(hashed, tasks)
    assert None not in result.paper_row().values()
    assert result.score("STS12", "mean") is None
    assert result.headlines()["STS12"].source == "mteb/sts12-sts@a0d554a6 (test)"
    # SICK's test pairs are the run of rows with their sums.
    pairs = tasks["SICKRelatedness"].subsets["test"]
    assert list(pairs.first) == hub[SICK]["sentence1"][TEST]
    assert pairs.gold.tolist() == hub[SICK]["score"][TEST]
    assert pairs.source.endswith("rows 20-36")


def test_sick_in_another_order_is_refused(hub):
    hub[SICK] = {name: column[::2] + column[1::2] for name, column in hub[SICK].items()}
    with pytest.raises(UserError, match=r"mteb/sickr-sts.* test pairs of SICK-R.*`data`"):
        load_sts_hub()


def test_an_unreachable_hub_is_one_line(monkeypatch):
    def load(repository, **_):
        raise ConnectionError(f"Couldn't reach {repository}\nmany more lines")

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(UserError, match=r"^[^\n]*mteb/sts12-sts[^\n]*`data`[^\n]*$"):
        load_sts_hub()
