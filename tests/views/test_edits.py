"""Edits of tokens and changes of embeddings: what they leave, and what the authors' code makes."""

import math

import numpy as np
import pytest
from golden_files import files, read

from isospace.objectives import ArcCSE
from isospace.training.batches import Sources
from isospace.views import Vocabulary, edits

VOCABULARY = Vocabulary(frozenset({1, 2}), 3, lambda text: [], begins=np.arange(2000) % 2 == 0)


def seeded(seed=0):
    return np.random.default_rng(seed)


def arrays(path):
    return {name: array.numpy() for name, array in read(path).items()}


class Recorded:
    """Recorded draws in the place of a generator's."""

    def __init__(self, order=(), tokens=(), places=()):
        self.order, self.tokens, self.places = order, list(tokens), list(places)

    def permutation(self, size):
        assert sorted(self.order[:size]) == list(range(size))
        return self.order[:size]

    def choice(self, words):
        assert self.tokens[0] in words
        return self.tokens.pop(0)

    def integers(self, size):
        assert self.places[0] < size
        return self.places.pop(0)


@pytest.mark.parametrize(
    "edit", [edits.Repeat(), edits.DeleteWords(), edits.MaskTokens(), edits.MaskSpan(), edits.Shuffle(), edits.Reverse(),
             edits.DeleteTokens(), edits.InsertTokens()],
    ids=lambda edit: type(edit).__name__,
)  # fmt: skip
def test_special_tokens_stay(edit):
    for ids in ([1, 2], [1, *range(10, 40), 2]):
        for seed in range(20):
            edited = edit(np.array(ids), seeded(seed), VOCABULARY).tolist()
            assert (edited[0], edited[-1]) == (1, 2)
            assert not {1, 2} & set(edited[1:-1])
            assert len(ids) > 2 or edited == ids


def test_tokens_are_masked_at_the_rate():
    ids = np.array([1, *range(10, 1010), 2])
    edited = edits.MaskTokens(rate=0.3)(ids, seeded(), VOCABULARY)
    assert (edited[edited != 3] == ids[edited != 3]).all()
    assert 250 < (edited == 3).sum() < 350


def test_of_spans_at_one_place_the_longer_holds_the_shorter():
    fractions = {i / j for j in range(1, 66) for i in range(j)}
    last = math.nextafter(1.0, 0.0)
    places = {p for f in fractions for p in (f, min(math.nextafter(f, 1.0), last))} | {last}
    for tokens in range(65):
        ends = set()
        for place in places:
            inner, outer = (edits.MaskSpan(share=share).span(tokens, place) for share in (0.2, 0.4))
            assert 0 <= outer.start <= inner.start <= inner.stop <= outer.stop <= tokens
            assert inner.stop - inner.start == -(-tokens // 5)
            assert outer.stop - outer.start == -(-2 * tokens // 5)
            ends |= {inner.start, inner.stop}
        assert {0, tokens} <= ends


def test_the_views_of_arccse_s_triplet_lose_more_and_more(encoder):
    ids = [np.array(row) for row in encoder.tokens.ids(["a big red dog reads " * 4] * 9)]
    batch = Sources(ArcCSE().views, encoder, 0).batch([ids], np.arange(9), 0)
    gone = [view == encoder.vocabulary.mask_id for view in batch.input_ids.chunk(3)]
    assert [mask.sum(1).tolist() for mask in gone] == [[0] * 9, [4] * 9, [8] * 9]
    assert (gone[1] <= gone[2]).all()
    assert len({tuple(row.tolist()) for row in gone[1]}) > 1


def test_whole_words_are_deleted_and_never_all():
    ids = np.array([1, 10, 11, 12, 14, 15, 17, 18, 2])  # even ids begin a word
    words = [[10, 11], [12], [14, 15, 17], [18]]
    seen = set()
    for seed in range(300):
        edited = edits.DeleteWords()(ids, seeded(seed), VOCABULARY).tolist()
        kept = [word for word in words if word[0] in edited]
        assert edited[1:-1] == [token for word in kept for token in word]
        seen.add(len(kept))
    assert seen == {1, 2, 3, 4}


def test_words_begin_where_the_tokenizer_says(encoder):
    [ids] = map(np.array, encoder.tokens.ids(["the cat xyz sat"]))
    words = ids[encoder.vocabulary.inner(ids)]
    assert encoder.vocabulary.word_numbers(words).tolist() == [0, 1, 2, 2, 2, 3]


@files("baselines/esimcse_repetition")
def test_repetition_of_esimcse(path):
    golden = arrays(path)
    edit = edits.Repeat(rate=float(golden["dup_rate"]))
    for i, length in enumerate(golden["length"]):
        view1, view2 = (golden[f"view{v}_ids"][i] for v in (1, 2))
        assert (edit.bound(int(length)) or -1) == golden["draw_bound"][i]
        places = golden["draw_positions"][i]
        found = edit.doubled(view1[:length], places[places >= 0])
        assert found.tolist() == view2[view2 >= 0].tolist()


@files("baselines/tsdae_noise")
def test_deletion_of_tsdae(path):
    golden = arrays(path)
    edit = edits.DeleteWords(rate=float(golden["deletion_ratio"]))
    for i, n in enumerate(golden["lengths"]):
        kept = edit.kept(golden["draws"][i, :n], int(golden["fallback_index"][i]))
        assert kept.tolist() == golden["official_kept"][i, :n].astype(bool).tolist()


@files("baselines/pcl_views")
def test_edits_of_pcl(path):
    golden = arrays(path)
    vocabulary = Vocabulary(frozenset({101, 102}), None, lambda text: [])
    rate, longest = float(golden["ratio"]), int(golden["max_length"])
    for i, length in enumerate(golden["lengths"]):
        deletions, repetitions, places = (
            [x for x in golden[name][i] if x >= 0]
            for name in ("deletion_tokens", "repetition_tokens", "repetition_positions")
        )
        deleted, repeated = Recorded((), deletions), Recorded((), repetitions, places)
        for name, edit, draws in (
            ("shuffled", edits.Shuffle(), Recorded(golden["shuffle_order"][i])),
            ("reversed", edits.Reverse(), Recorded()),
            ("deleted", edits.DeleteTokens(rate=rate), deleted),
            ("repeated", edits.InsertTokens(rate=rate, max_length=longest), repeated),
        ):
            found = edit(golden["input_ids"][i, :length], draws, vocabulary)
            expected = golden[name][i]
            assert found.tolist() == expected[: len(found)].tolist()
            assert not expected[len(found) :].any()
            assert not draws.tokens
            assert not draws.places


@files("baselines/consert_views")
def test_changes_of_consert(path):
    golden = arrays(path)
    dim = golden["embeddings"].shape[2]
    for i, (embedded, mask) in enumerate(zip(golden["embeddings"], golden["mask"], strict=True)):
        n = int(mask.sum())
        for name in ("feature", "token"):
            edit = edits.CutOff(f"{name}s", float(golden[f"{name}_rate"]))
            kept = edit.kept(n, dim, Recorded(golden[f"{name}_order"][i]))
            assert np.array_equal(embedded[:n] * kept, golden[f"{name}_cutoff_f32"][i][:n])
        kept = edits.CutOff("elements", float(golden["element_rate"])).kept(n, dim, seeded())
        assert (~kept).sum() == golden["element_cut"][i].sum()
        places = edits.ShuffledPositions().positions(n, Recorded(golden["shuffle_order"][i]))
        assert np.array_equal(places, golden["position_ids_shuffled"][i][:n])


@files("baselines/promptbert")
def test_templates_of_promptbert(path):
    golden = {name: array.astype(int) for name, array in arrays(path).items()}
    mask = int(golden["mask_token"])
    for v in (1, 2):
        cls, *ids, sep = places = golden[f"template{v}_ids"].tolist()
        prefix, here = len(golden[f"prefix{v}"]), ids.index(mask)
        parts = {"before": ids[:prefix], "middle": ids[prefix:here], "end": ids[here + 1 :]}
        vocabulary = Vocabulary(
            frozenset({cls, sep}), mask, lambda text, parts=parts: parts[text.strip()]
        )
        after = ["middle"] * (prefix < here) + ["[MASK]"] + ["end"] * (here + 1 < len(ids))
        full, empty = (
            edits.Template("", "before", " ".join(after), only) for only in (False, True)
        )
        # The release leaves the gap behind the first template's prefix in both templates.
        gap = slice(len(golden["prefix1"]) + 1, prefix + 1)
        for length, expected in enumerate(golden[f"official_template{v}_position_ids"]):
            sentence = np.array([cls, *range(10**6, 10**6 + length), sep])
            assert empty(sentence, seeded(), vocabulary).tolist() == places
            positions = empty.positions(sentence, vocabulary)
            assert np.delete(positions, gap).tolist() == np.delete(expected, gap).tolist()
            of_length = golden["sentence_token_counts"] == length
            masks = golden["mask_position_in_input"][of_length, v - 1]
            assert (masks == positions[places.index(mask)]).all()
        for i, words in enumerate(golden.get("sentence_ids", ())):
            words = words[words >= 0][: int(golden["max_sentence_tokens"])]
            made = full(np.array([cls, *words, sep]), seeded(), vocabulary)
            real = golden["attention_mask"][i, v - 1].astype(bool)
            assert made.tolist() == golden["input_ids"][i, v - 1][real].tolist()
