from __future__ import annotations

from isospace.corpus.overview import coverage
from isospace.encoders.loading import load_encoder


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
