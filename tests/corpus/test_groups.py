"""Rows that belong together: near duplicates, and splits that keep groups whole."""

import random

import numpy as np
import pytest

from isospace.corpus.groups import (
    SMALLEST_SPLIT,
    THRESHOLD,
    group_names,
    near_duplicates,
    split_groups,
)

LONG = (
    "a function that returns the sum of the squares of all values in the given array along the "
    "last axis without a copy of the data"
)


def answers(texts, references=0):
    return near_duplicates(texts, np.arange(len(texts)), references).tolist()


def bigrams(text):
    """The same sets by a plain loop over text that needs no folding."""
    found, previous = set(), "<"
    for word in [*text.split(), ">"]:
        found.add((previous, word))
        previous = word
    return found


def random_texts(n):
    """Texts of 5 to 40 words, half of them edited copies of an earlier one."""
    rng = random.Random(3)
    vocabulary = [f"w{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(300)]
    texts: list[list[str]] = []
    for i in range(n):
        text = rng.choices(vocabulary, k=rng.randint(5, 40))
        if i % 2:
            text = list(rng.choice(texts))
            for _ in range(rng.randint(0, 6)):
                text[rng.randrange(len(text))] = rng.choice(vocabulary)
        texts.append(text)
    return [" ".join(text) for text in texts]


def test_no_false_positive_and_few_misses_against_all_pairs():
    texts = random_texts(800)
    sets = [bigrams(text) for text in texts]
    near = [
        [j for j in range(i) if len(sets[i] & sets[j]) / len(sets[i] | sets[j]) >= THRESHOLD]
        for i in range(len(texts))
    ]
    found = answers(texts)
    assert all(earlier in near[i] for i, earlier in enumerate(found) if earlier >= 0)
    repeats = [i for i, earlier in enumerate(near) if earlier]
    missed = [i for i in repeats if found[i] < 0]
    assert len(repeats) > 100
    assert len(missed) <= 0.02 * len(repeats)


@pytest.mark.parametrize(
    ("second", "near"),
    [
        (LONG.upper() + "!", True),
        (LONG.replace("squares", "cubes"), True),
        (LONG + " 123", True),
        (LONG.replace("squares", "cubes").replace("last", "first").replace("copy", "view"), False),
        (" ".join(reversed(LONG.split())), False),
    ],
)
def test_one_word_may_differ(second, near):
    assert answers([LONG, second]) == [-1, 0 if near else -1]


def test_how_many_are_held_at_once_changes_nothing(monkeypatch):
    texts = random_texts(300)
    whole = answers(texts)
    monkeypatch.setattr("isospace.corpus.groups._AT_ONCE", 1)
    assert answers(texts) == whole


def test_a_reference_goes_before_other_texts():
    reference = LONG.replace("squares", "cubes")
    texts = [reference, LONG, LONG + ".", "another text altogether, of no interest"]
    assert answers(texts, references=1) == [-1, 0, 0, -1]


def test_names_follow_the_content():
    hashes = np.array([[4, 1], [5, 1], [3, 9], [1, 1]], dtype=np.uint64)
    names = group_names(np.array([0, 1, 0, 2]), hashes)
    assert names[0] == names[2]
    assert len(set(names)) == 3
    order = [2, 3, 1, 0]
    assert group_names(np.array([5, 0, 7, 5]), hashes[order]) == [names[i] for i in order]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_split_keeps_groups_whole_and_at_most_a_third_validates(size):
    names = [f"group {i // size}" for i in range(900)]
    validation, test = split_groups(names)
    assert sorted([*validation, *test]) == list(range(900))
    assert 300 - size < len(validation) <= 300
    assert not {names[i] for i in validation} & {names[i] for i in test}
    shuffled = random.Random(3).sample(range(900), 900)
    again = split_groups([names[i] for i in shuffled])[0]
    assert {names[shuffled[i]] for i in again} == {names[i] for i in validation}


@pytest.mark.parametrize(
    "names",
    [[*map(str, range(SMALLEST_SPLIT - 1))], ["one"] * 600, ["one"] * 300 + ["two"] * 300, []],
)
def test_what_cannot_be_split_is_validation_and_test(names):
    validation, test = split_groups(names)
    assert validation.tolist() == test.tolist() == list(range(len(names)))
