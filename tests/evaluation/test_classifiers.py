"""Classifiers: stacked training against a plain loop, SentEval's own numbers, and who sees what."""

import numpy as np
import pytest
import torch
from golden_files import files
from sklearn.model_selection import StratifiedKFold

from isospace.evaluation import transfer
from isospace.evaluation.transfer import (
    BATCH,
    EPOCHS_PER_LOOK,
    FOLDS as COUNT,
    STRENGTHS,
    TENACITY,
    Fold,
    given_split,
    k_fold_then_test,
    nested_k_fold,
    train_stacked,
)


def train_one(x, y, fold, l2):
    """Train one classifier with SentEval's draws, torch's optimizer and early stopping."""
    random = np.random.RandomState(1111)
    torch.manual_seed(1111)
    model = torch.nn.Linear(x.shape[1], int(y.max()) + 1)
    # SentEval names the optimizer and no more: the learning rate is torch's.
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=l2)
    train, valid = fold.train, fold.valid
    if valid is None:
        order = random.permutation(len(train))
        cut = int(0.05 * len(train))
        train, valid = train[order[cut:]], train[order[:cut]]
    x_train, y_train, x_valid, y_valid = x[train], y[train], x[valid], y[valid]
    best, kept, misses, epochs = -1.0, {}, 0, 0
    while misses <= TENACITY and epochs <= 200:
        for _ in range(EPOCHS_PER_LOOK):
            order = torch.from_numpy(random.permutation(len(x_train)))
            for start in range(0, len(order), BATCH):
                batch = order[start : start + BATCH]
                loss = torch.nn.functional.cross_entropy(model(x_train[batch]), y_train[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        epochs += EPOCHS_PER_LOOK
        with torch.no_grad():
            accuracy = (model(x_valid).argmax(1) == y_valid).sum().item() / len(y_valid)
        if accuracy > best:
            best, kept = accuracy, {k: v.clone() for k, v in model.state_dict().items()}
        else:
            misses += 1
    return torch.cat([kept["weight"], kept["bias"][:, None]], dim=1)


def clusters(rows, classes, seed, dim=12, spread=1.0):
    """Features around one centre a class, and labels that leave out none."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.arange(rows) % classes)
    x = random.normal(size=(classes, dim))[y] + spread * random.normal(size=(rows, dim))
    return x.astype(np.float32), y


def rows(*bounds):
    return np.arange(*bounds)


FOLDS = {
    "equal sizes": [Fold(rows(0, 130), rows(130, 200)), Fold(rows(70, 200), rows(0, 70))],
    "unequal sizes": [Fold(rows(0, 129), rows(129, 200)), Fold(rows(70, 200), rows(0, 66))],
    "last batch of one row": [Fold(rows(0, 129), rows(129, 200))],
    "rows to stop by held out": [Fold(rows(0, 200)), Fold(rows(200, 0, -1) - 1)],
}


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize(("classes", "spread"), [(2, 4.0), (5, 2.0)])
def test_stacked_training_equals_one_classifier_after_the_other(name, classes, spread):
    x, y = map(torch.from_numpy, clusters(200, classes, seed=classes, spread=spread))
    l2 = np.tile([1e-5, 1e-2, 1.0], (len(FOLDS[name]), 1)) * np.arange(
        1, len(FOLDS[name]) + 1
    ).reshape(-1, 1)
    expected = torch.stack(
        [
            torch.stack([train_one(x, y, fold, strength) for strength in own])
            for fold, own in zip(FOLDS[name], l2.tolist(), strict=True)
        ]
    )
    found = train_stacked(x, y, FOLDS[name], l2)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def test_training_that_keeps_improving_ends_at_the_first_look_after_200_epochs():
    # A gradient that stays the same moves Adam by its learning rate.
    span, moved = 50, 204 * 0.001
    # One batch an epoch.
    y = torch.ones(64 + 4001, dtype=torch.int64)
    y[:32] = 0
    train = torch.stack([0.001 * (2.0 * y[:64] - 1), torch.zeros(64)], dim=1)
    # The first weight decides about a few more of these with every move.
    valid = torch.stack([10 * torch.ones(4001), torch.linspace(-span, span, 4001)], dim=1)
    fold = Fold(rows(64), rows(64, 64 + 4001))
    weights = train_stacked(torch.cat([train, valid]), y, [fold], np.zeros((1, 1)))[0, 0]
    torch.manual_seed(1111)
    changes = weights[:, :2] - torch.nn.Linear(2, 2).weight.detach()
    assert changes[:, 0].tolist() == pytest.approx([-moved, moved], rel=1e-3)
    assert changes[:, 1].tolist() == [0.0, 0.0]


@files("senteval_classifiers")
def test_the_three_schemes_give_sentevals_numbers(path):
    golden = np.load(path)

    def one_row(scheme, count):
        """SentEval's accuracies over `count` rows, but for one row: another torch rounds otherwise."""
        return pytest.approx(golden[scheme.format("full")], abs=100 / count + 0.01)

    x, y = golden["binary_X"], golden["binary_y"]
    outcome = nested_k_fold(x, y)
    assert [outcome.dev, outcome.test] == one_row("innerkfold_{}_devacc_testacc", len(y))
    folds = StratifiedKFold(COUNT, shuffle=True, random_state=1111).split(x, y)
    by_fold = [100 * np.mean(outcome.predicted[test] == y[test]) for _, test in folds]
    assert by_fold == one_row("innerkfold_{}_fold_test", len(y) / COUNT)

    x, y = golden["multi_X_train"], golden["multi_y_train"]
    test = golden["multi_X_test"], golden["multi_y_test"]
    outcome = k_fold_then_test(x, y, *test)
    assert [outcome.dev, outcome.test] == one_row("kfold_{}_devacc_testacc", len(test[1]))
    assert np.sum(outcome.predicted != golden["kfold_full_pred"]) <= 1

    n = int(golden["split_n_train"])
    outcome = given_split(x[:n], y[:n], x[n:], y[n:], *test)
    assert [outcome.dev, outcome.test] == one_row("split_{}_devacc_testacc", len(test[1]))


class Recorder:
    """Stands in for training: gives a weight for each strength, and keeps what it was asked."""

    def __init__(self, weights):
        self.calls, self.weight_of = [], dict(zip(STRENGTHS, weights, strict=True))

    def __call__(self, x, y, folds, strengths):
        self.calls.append((folds, strengths))
        weights = torch.zeros(*strengths.shape, 2, x.shape[1] + 1)
        weights[..., 1, 0] = torch.from_numpy(np.vectorize(self.weight_of.get)(strengths))
        return weights


def signs(count):
    """One feature, whose sign is the label: a positive weight is right, a negative one wrong."""
    y = np.arange(count) % 2
    return (2.0 * y - 1)[:, None].astype(np.float32), y


def test_nested_folds_never_choose_or_test_by_rows_trained_on(monkeypatch):
    x, y = signs(203)
    recorder = Recorder((-1.0, 1.0, 2.0, -1.0))
    monkeypatch.setattr(transfer, "train_stacked", recorder)
    outcome = nested_k_fold(x, y)
    (inner, grid), (outer, chosen) = recorder.calls
    assert (len(inner), len(outer)) == (100, 10)
    np.testing.assert_array_equal(grid, np.tile(STRENGTHS, (100, 1)))
    # Two are equally good: the first of them is taken, as SentEval does.
    np.testing.assert_array_equal(chosen, np.full((10, 1), STRENGTHS[1]))
    tests = [np.setdiff1d(rows(203), fold.train) for fold in outer]
    np.testing.assert_array_equal(np.sort(np.concatenate(tests)), rows(203))
    for i, fold in enumerate(inner):
        outer_train = outer[i // 10].train
        np.testing.assert_array_equal(
            np.sort(np.concatenate([fold.train, fold.valid])), np.sort(outer_train)
        )
    assert (outcome.dev, outcome.test) == (100.0, 100.0)
    np.testing.assert_array_equal(outcome.predicted, y)


def test_accuracies_are_rounded_before_they_are_averaged(monkeypatch):
    x, y = signs(70)
    tests = [test for _, test in StratifiedKFold(10, shuffle=True, random_state=1111).split(x, y)]
    x[[test[0] for test in tests[:4]]] *= -1  # one wrong in each of four folds of seven
    monkeypatch.setattr(transfer, "train_stacked", Recorder((1.0, 1.0, 1.0, 1.0)))
    assert nested_k_fold(x, y).test == 94.28  # (6 * 100 + 4 * 85.71) / 10; else 94.29
