"""Token ids of a corpus, and what a tokenizer makes of its language."""

from pathlib import Path

import numpy as np

from isospace.corpus.lines import Tokens, tokenise
from isospace.corpus.passages import coverage
from isospace.encoders.loading import load_encoder


def encode(texts: list[str]) -> list[list[int]]:
    return [[1, *(70_000 + len(word) for word in text.split()), 2] for text in texts]


def make(folder: Path, texts: list[str], fingerprint: str = "f", **options: object) -> Tokens:
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

    def counting(texts: list[str]) -> list[list[int]]:
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
