"""Classifiers: stacked training against a plain loop, SentEval's own numbers, and who sees what."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from golden_files import files
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from isospace.evaluation.classifiers import (
    PROTOCOLS,
    Fold,
    Protocol,
    given_split,
    k_fold_then_test,
    nested_k_fold,
    predict,
    train_sklearn,
)

_spec = importlib.util.spec_from_file_location(
    "transfer_loop", Path(__file__).parents[2] / "benchmarks" / "transfer_loop.py"
)
transfer_loop = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(transfer_loop)

PAPERS, FAST = PROTOCOLS["senteval"], PROTOCOLS["senteval-fast"]
both = pytest.mark.parametrize("protocol", [PAPERS, FAST], ids=["senteval", "senteval-fast"])


def clusters(rows, classes, seed, dim=12, spread=1.0):
    """Features around one centre a class, and labels that leave out none."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.arange(rows) % classes)
    x = random.normal(size=(classes, dim))[y] + spread * random.normal(size=(rows, dim))
    return x.astype(np.float32), y


def rows(*bounds):
    return np.arange(*bounds)


FOLDS = {
    "one": [Fold(rows(0, 150), rows(150, 200))],
    "equal sizes": [Fold(rows(0, 130), rows(130, 200)), Fold(rows(70, 200), rows(0, 70))],
    "unequal sizes": [Fold(rows(0, 129), rows(129, 200)), Fold(rows(70, 200), rows(0, 66))],
    "last batch of one row": [Fold(rows(0, 129), rows(129, 200))],  # for 64 and for 128
    "rows to stop by held out": [Fold(rows(0, 200)), Fold(rows(200, 0, -1) - 1)],
}


@both
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize(("classes", "spread"), [(2, 4.0), (5, 2.0)])
def test_stacked_training_equals_one_classifier_after_the_other(protocol, name, classes, spread):
    x, y = map(torch.from_numpy, clusters(200, classes, seed=classes, spread=spread))
    l2 = np.tile([1e-5, 1e-2, 1.0], (len(FOLDS[name]), 1)) * np.arange(
        1, len(FOLDS[name]) + 1
    ).reshape(-1, 1)
    expected = transfer_loop.Loop(protocol.train)(x, y, FOLDS[name], l2)
    found = protocol.train(x, y, FOLDS[name], l2)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("protocol", "span", "moved"),
    [
        # A gradient that stays the same moves Adam by its learning rate, and RMSprop by its own
        # over the root of what the mean square has taken up so far.
        pytest.param(PAPERS, 50, 204 * 0.001, id="senteval"),
        pytest.param(FAST, 800, sum(0.01 / (1 - 0.99**t) ** 0.5 for t in rows(1, 203)), id="fast"),
    ],
)
def test_training_that_keeps_improving_ends_at_the_first_look_after_200_epochs(
    protocol, span, moved
):
    # One batch an epoch.
    y = torch.ones(64 + 4001, dtype=torch.int64)
    y[:32] = 0
    train = torch.stack([0.001 * (2.0 * y[:64] - 1), torch.zeros(64)], dim=1)
    # The first weight decides about a few more of these with every move.
    valid = torch.stack([10 * torch.ones(4001), torch.linspace(-span, span, 4001)], dim=1)
    fold = Fold(rows(64), rows(64, 64 + 4001))
    weights = protocol.train(torch.cat([train, valid]), y, [fold], np.zeros((1, 1)))[0, 0]
    torch.manual_seed(1111)
    changes = weights[:, :2] - torch.nn.Linear(2, 2).weight.detach()
    assert changes[:, 0].tolist() == pytest.approx([-moved, moved], rel=1e-3)
    assert changes[:, 1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("classes", [2, 4])
def test_scikit_learns_weights_are_those_of_a_fit_from_nothing(classes):
    x, y = clusters(200, classes, seed=1, spread=2.0)
    strengths, fold = (0.25, 16.0), Fold(rows(0, 150))
    weights = train_sklearn(torch.from_numpy(x), torch.from_numpy(y), [fold], np.array([strengths]))
    labels = predict(weights[0], torch.from_numpy(x))
    for i, strength in enumerate(strengths):
        model = LogisticRegression(C=strength, max_iter=1000).fit(x[:150], y[:150])
        np.testing.assert_array_equal(labels[i], model.predict(x))
        differences = weights[0, i].numpy() - weights[0, i, 0].numpy()
        expected = np.column_stack([model.coef_, model.intercept_])
        if classes == 2:
            expected = np.concatenate([0 * expected, expected])
        np.testing.assert_allclose(differences, expected - expected[0], atol=2e-2)


@files("senteval_classifiers")
@pytest.mark.parametrize(("protocol", "setting"), [(PAPERS, "full"), (FAST, "fast")])
def test_the_three_schemes_give_sentevals_numbers(path, protocol, setting):
    golden = np.load(path)

    def one_row(scheme, count):
        """SentEval's accuracies over `count` rows, but for one row: another torch rounds otherwise."""
        return pytest.approx(golden[scheme.format(setting)], abs=100 / count + 0.01)

    x, y = golden["binary_X"], golden["binary_y"]
    outcome = nested_k_fold(protocol, x, y)
    assert [outcome.dev, outcome.test] == one_row("innerkfold_{}_devacc_testacc", len(y))
    folds = StratifiedKFold(protocol.folds, shuffle=True, random_state=1111).split(x, y)
    by_fold = [100 * np.mean(outcome.predicted[test] == y[test]) for _, test in folds]
    assert by_fold == one_row("innerkfold_{}_fold_test", len(y) / protocol.folds)

    x, y = golden["multi_X_train"], golden["multi_y_train"]
    test = golden["multi_X_test"], golden["multi_y_test"]
    outcome = k_fold_then_test(protocol, x, y, *test)
    assert [outcome.dev, outcome.test] == one_row("kfold_{}_devacc_testacc", len(test[1]))
    assert np.sum(outcome.predicted != golden[f"kfold_{setting}_pred"]) <= 1

    n = int(golden["split_n_train"])
    outcome = given_split(protocol, x[:n], y[:n], x[n:], y[n:], *test)
    assert [outcome.dev, outcome.test] == one_row("split_{}_devacc_testacc", len(test[1]))


class Recorder:
    """Stands in for training: gives the strength as the weight, and keeps what it was asked."""

    def __init__(self):
        self.calls = []

    def __call__(self, x, y, folds, strengths):
        self.calls.append((folds, strengths))
        weights = torch.zeros(*strengths.shape, 2, x.shape[1] + 1)
        weights[..., 1, 0] = torch.from_numpy(strengths)
        return weights


@pytest.fixture
def recorder():
    return Recorder()


def signs(count):
    """One feature, whose sign is the label: a positive weight is right, a negative one wrong."""
    y = np.arange(count) % 2
    return (2.0 * y - 1)[:, None].astype(np.float32), y


def test_nested_folds_never_choose_or_test_by_rows_trained_on(recorder):
    x, y = signs(203)
    outcome = nested_k_fold(Protocol(recorder, (-1.0, 1.0, 2.0)), x, y)
    (inner, grid), (outer, chosen) = recorder.calls
    assert (len(inner), len(outer)) == (100, 10)
    np.testing.assert_array_equal(grid, np.tile([-1.0, 1.0, 2.0], (100, 1)))
    # 1 and 2 are equally good: the first of them is taken, as SentEval does.
    np.testing.assert_array_equal(chosen, np.ones((10, 1)))
    tests = [np.setdiff1d(rows(203), fold.train) for fold in outer]
    np.testing.assert_array_equal(np.sort(np.concatenate(tests)), rows(203))
    for i, fold in enumerate(inner):
        outer_train = outer[i // 10].train
        np.testing.assert_array_equal(
            np.sort(np.concatenate([fold.train, fold.valid])), np.sort(outer_train)
        )
    assert (outcome.dev, outcome.test) == (100.0, 100.0)
    np.testing.assert_array_equal(outcome.predicted, y)


def test_accuracies_are_rounded_before_they_are_averaged(recorder):
    x, y = signs(70)
    tests = [test for _, test in StratifiedKFold(10, shuffle=True, random_state=1111).split(x, y)]
    x[[test[0] for test in tests[:4]]] *= -1  # one wrong in each of four folds of seven
    outcome = nested_k_fold(Protocol(recorder, (1.0,)), x, y)
    assert outcome.test == 94.28  # (6 * 100 + 4 * 85.71) / 10; without rounding 94.29
