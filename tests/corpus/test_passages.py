"""Passages of documents, and what a tokenizer makes of their language; token ids of a corpus."""

from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from isospace.corpus.docstrings import docstring_sentences
from isospace.corpus.lines import tokenise
from isospace.corpus.passages import (
    LONGEST_WORD,
    count_words,
    coverage,
    document_sentences,
    passages,
)
from isospace.encoders.loading import load_encoder

SIZE = 20
WORD = st.sampled_from(["A", "cat", "sat.", "Yes!", "猫が", "座った。"])
PARAGRAPHS = st.lists(st.lists(WORD, min_size=1).map(" ".join))


@example(["猫" * 50])
@given(PARAGRAPHS)
def test_nothing_is_lost_and_nothing_is_too_long(paragraphs):
    found = list(passages(paragraphs, SIZE, docstring_sentences))
    assert "".join(" ".join(paragraphs).split()) == "".join("".join(found).split())
    assert all(0 < count_words(passage) <= SIZE for passage in found)


def test_a_long_paragraph_becomes_parts_of_about_one_length():
    found = list(passages([" ".join(["These are five words here."] * 9)], 40, docstring_sentences))
    assert [count_words(passage) for passage in found] == [25, 20]


def test_sentences_of_scripts_without_spaces_are_joined_without_one():
    for language, text in (("ja", "名前はまだ無い。どこで生れたか。"), ("zh", "他走了。我没走。")):
        split = partial(document_sentences, language=language)
        assert list(passages([text * 2], len(text), split)) == [text, text]
    assert list(passages(["ไป แล้ว มา"], 7, str.split)) == ["ไป แล้ว", "มา"]


def test_what_is_no_text_is_joined_to_none():
    coded = "QUJD" * 2000
    paragraphs = ["One.", "Two.", coded, "Three. Four.", f"Five. {coded}. Six."]
    parts = ["One. Two.", coded, "Three. Four.", "Five.", f"{coded}.", "Six."]
    assert list(passages(paragraphs, SIZE, docstring_sentences)) == parts
    addresses = ["https://example.org/" + "a" * 1000] * 30
    assert max(map(len, passages(addresses, 120, docstring_sentences))) <= 120 * LONGEST_WORD


@pytest.mark.parametrize(
    "sentence", ["猫が庭で寝ている。", "犬も「はい。」と言った！", "他说：“好的。”"]
)
def test_a_long_paragraph_has_the_sentences_of_its_parts(sentence):
    assert document_sentences(3000 * sentence, "ja") == 3000 * document_sentences(sentence, "ja")


# Token ids


def encode(texts):
    return [[1, *(70_000 + len(word) for word in text.split()), 2] for text in texts]


def make(folder, texts, fingerprint="f", **options):
    digest = str(hash(tuple(texts)))
    return tokenise(texts, digest, options.pop("encode", encode), fingerprint, folder, **options)


def test_ids_of_every_sentence(tmp_path):
    texts = ["a bb ccc", "", *(f"{'x ' * (i % 7)}y" for i in range(9000))]
    done: list[int] = []
    tokens = make(tmp_path, texts, progress=done.append)
    expected = encode(texts)
    assert len(tokens) == len(texts) == sum(done)
    assert len(done) > 1
    assert tokens.lengths.tolist() == [len(ids) for ids in expected]
    assert tokens.ids.tolist() == [i for ids in expected for i in ids]
    rows = np.array([9001, 0, 1, 0])
    assert [ids.tolist() for ids in tokens.batch(rows)] == [expected[row] for row in rows]


def test_made_once_for_a_corpus_and_a_tokenizer(tmp_path):
    calls: list[int] = []

    def counting(texts):
        calls.append(len(texts))
        return encode(texts)

    for _ in range(2):
        tokens = make(tmp_path, ["a b", "c"], encode=counting)
        assert tokens.ids.tolist() == [1, 70_001, 70_001, 2, 1, 70_001, 2]
    assert calls == [2]
    make(tmp_path, ["a b", "c"], "another tokenizer", encode=counting)
    make(tmp_path, ["a b", "d"], encode=counting)
    assert calls == [2, 2, 2]


def test_a_text_in_the_tokenizers_language_is_no_warning():
    found = coverage(load_encoder("minilm"), ["The cat sat on the mat and slept there all day."])
    assert found.unknown == 0
    assert found.per_word < 1.5
    assert found.warning is None
    assert found.lengths[1.0] == 14


def test_japanese_and_russian_are_warned_of():
    encoder = load_encoder("minilm")
    russian = coverage(encoder, ["Маленькая кошка спала на тёплой крыше старого деревянного дома."])
    assert russian.per_word > 3
    assert "tokens a word" in (russian.warning or "")
    japanese = coverage(encoder, ["猫は暖かい屋根の上で一日中眠っていた。誰も起こさなかった。"])
    assert japanese.unknown > 0.03
    assert "unknown" in (japanese.warning or "")


def test_word_vectors_have_no_unknown_token(tmp_path):
    (tmp_path / "glove.txt").write_text("cat 0.1 0.2\nmat 0.2 0.1\n")
    found = coverage(load_encoder(f"glove:{tmp_path / 'glove.txt'}"), ["cat mat dog", "mat"])
    assert found.unknown == 0
    assert found.lengths[1.0] == 2
    assert found.warning is None
