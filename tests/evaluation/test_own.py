"""Scores of a user's own data: known angles, dull loops, ties."""

import json

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score
from sts_files import angles

from isospace.evaluation.geometry import NEIGHBOURS
from isospace.evaluation.own import evaluate_own, knn_accuracy
from isospace.evaluation.own_data import load_own
from isospace.operators import nearest

RANDOM = np.random.default_rng(0)


def score(tmp_path, name, rows):
    path = tmp_path / name
    path.write_text("\n".join("\t".join(row) for row in rows), encoding="utf-8")
    data = load_own(path)
    scores = evaluate_own(angles, data)
    assert json.loads(json.dumps(scores.to_json())) == scores.to_json()
    assert set(data.texts()) <= {cell for row in rows for cell in row}
    return scores


def test_scored_pairs(tmp_path):
    rows = [
        ("sentence1", "sentence2", "score"),
        ("0", "10", "5"),
        ("0", "90", "1"),
        ("0", "60", "3"),
    ]
    scores = score(tmp_path, "s.tsv", rows)
    cosines = np.cos(np.radians([10, 90, 60]))
    assert scores.values == pytest.approx(
        {"Spearman": 1.0, "Pearson": np.corrcoef(cosines, [5, 1, 3])[0, 1]}, abs=1e-6
    )
    assert scores.protocol == (
        "columns sentence1, sentence2, score; correlation of cosine and score, 3 pairs"
    )


def test_labelled_sentences(tmp_path):
    rows = [(f"{i} x", "east") for i in range(6)] + [(f"{90 + i} x", "north") for i in range(6)]
    rows += [("1.5 y", "north")]
    scores = score(tmp_path, "l.tsv", [("text", "label"), *rows])
    # The six in the east tie, five votes to five; of those in the north all but 1.5 are right.
    clusters = [0] * 6 + [1] * 6 + [0]
    nmi = normalized_mutual_info_score([label for _, label in rows], clusters)
    assert scores.values == pytest.approx({"kNN accuracy": (6 / 2 + 6) / 13, "NMI": nmi})
    assert (
        "13 sentences of 2 labels, the commonest 53.8%; kNN: leave-one-out vote of the 10 nearest"
        in scores.protocol
    )


def knn_by_a_loop(x, labels, k):
    """No ties among the neighbours; labels with equally many votes share the credit."""
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    credit = 0.0
    for i, unit in enumerate(units):
        others = sorted((j for j in range(len(x)) if j != i), key=lambda j: -(unit @ units[j]))
        votes = [labels[j] for j in others[:k]]
        most = max(map(votes.count, votes))
        winners = {label for label in votes if votes.count(label) == most}
        credit += (labels[i] in winners) / len(winners)
    return credit / len(x)


@pytest.mark.parametrize("count", [5, 40])
def test_the_vote_equals_a_loops(count, monkeypatch):
    monkeypatch.setattr(nearest, "BLOCK", 100)
    x, labels = RANDOM.normal(size=(count, 5)), RANDOM.choice(list("abc"), count).tolist()
    k = min(NEIGHBOURS, count - 1)
    assert knn_accuracy(x, labels) == pytest.approx(knn_by_a_loop(x, labels, k))


def test_the_vote_does_not_depend_on_the_order_of_tied_neighbours():
    x = RANDOM.integers(-1, 2, (60, 3)) + 0.0
    labels = np.array(list("abcd" * 15))
    order = RANDOM.permutation(60)
    assert knn_accuracy(x, labels) == pytest.approx(knn_accuracy(x[order], labels[order]))
