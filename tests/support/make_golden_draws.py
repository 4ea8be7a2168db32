"""The reference files of pairs and edits that are drawn; run make_golden.py.

Every draw is recorded, and what follows from it is laid out by hand.
"""

from __future__ import annotations

import numpy as np
from golden_reference import save

RATE, LONGEST = 0.3, 12


def make_ct_pairs() -> None:
    random, k = np.random.default_rng(280), 3
    positives, draws = random.permutation(20)[:2], random.integers(20, size=12)
    official, paper = [], []
    for i, p in enumerate(positives):
        own = draws[6 * i : 6 * i + 6]
        official += [(p, p), *((own[j], own[k + j]) for j in range(k))]
        paper += [(p, p), *((p, own[j]) for j in range(k))]
    order, ratio = random.permutation(24), 3
    queue, batches = list(order), []
    for _ in range(2):
        batch = []
        for _ in range(2):
            p = queue.pop(0)
            batch += [(p, p, 1), *((queue.pop(0), queue.pop(0), 0) for _ in range(ratio - 1))]
        batches.append(batch)
    save(
        "baselines/ct_pairs",
        num_negatives=k, positive_draws=positives, negative_draws=draws,
        official_first=[a for a, _ in official], official_second=[b for _, b in official],
        official_labels=[1, 0, 0, 0] * 2,
        paper_first=[a for a, _ in paper], paper_second=[b for _, b in paper],
        st_order=order, st_batch_size=6, st_pos_neg_ratio=ratio,
        **{f"st_{name}": np.array(batches)[:, :, i]
           for i, name in enumerate(("first", "second", "labels"))},
    )  # fmt: skip


def padded(rows: list[list[int]], width: int, value: int) -> list[list[int]]:
    return [row + [value] * (width - len(row)) for row in rows]


def make_pcl_views() -> None:
    """Ids between 101 and 102, from so few that a word stands in a sentence more than once."""
    random = np.random.default_rng(290)
    made: dict[str, list[list[int]]] = {
        name: []
        for name in (
            "input_ids", "shuffle_order", "shuffled", "reversed", "deletion_tokens", "deleted",
            "repetition_tokens", "repetition_positions", "repeated",
        )
    }  # fmt: skip
    lengths = [12, 11, 9, 7, 4, 3]
    for length in lengths:
        words = random.integers(1000, 1004, length - 2).tolist()
        order = random.permutation(len(words)).tolist()
        deleted, deletions = list(words), []
        for _ in range(round(RATE * len(words))):
            deletions.append(deleted[random.integers(len(deleted))])
            deleted.remove(deletions[-1])
        repeated, repetitions, places = list(words), [], []
        for _ in range(min(round(RATE * len(words)), LONGEST - length)):
            repetitions.append(repeated[random.integers(len(repeated))])
            places.append(int(random.integers(len(repeated) + 1)))
            repeated.insert(places[-1], repetitions[-1])
        for name, row in (
            ("input_ids", words), ("shuffled", [words[i] for i in order]),
            ("reversed", list(reversed(words))), ("deleted", deleted), ("repeated", repeated),
        ):  # fmt: skip
            made[name].append([101, *row, 102])
        for name, row in (
            ("shuffle_order", order), ("deletion_tokens", deletions),
            ("repetition_tokens", repetitions), ("repetition_positions", places),
        ):  # fmt: skip
            made[name].append(row)
    draws = ("shuffle_order", "deletion_tokens", "repetition_tokens", "repetition_positions")
    arrays = {
        name: padded(rows, LONGEST, -1 if name in draws else 0) for name, rows in made.items()
    }
    masks = {
        f"{name}_attention_mask": [[int(x > 0) for x in row] for row in arrays[name]]
        for name in ("deleted", "repeated")
    }
    save("baselines/pcl_views", max_length=LONGEST, ratio=RATE, lengths=lengths, **arrays, **masks)


def make_draws() -> None:
    make_ct_pairs()
    make_pcl_views()
