from functools import partial

import pytest
from hypothesis import example, given, strategies as st

from isospace.corpus.docstrings import docstring_sentences
from isospace.corpus.passages import LONGEST_WORD, count_words, document_sentences, passages

SIZE = 20
PARAGRAPHS = st.lists(
    st.lists(st.sampled_from(["A", "cat", "sat.", "Yes!", "猫が", "座った。"]), min_size=1).map(
        " ".join
    )
)


@example(["猫" * 50])
@given(PARAGRAPHS)
def test_nothing_is_lost_and_nothing_is_too_long(paragraphs):
    found = list(passages(paragraphs, SIZE, docstring_sentences))
    assert "".join(" ".join(paragraphs).split()) == "".join("".join(found).split())
    assert all(0 < count_words(passage) <= SIZE for passage in found)


def test_a_long_paragraph_becomes_parts_of_about_one_length():
    sentences = ["These are five words here."] * 9
    found = list(passages([" ".join(sentences)], 40, docstring_sentences))
    assert [count_words(passage) for passage in found] == [25, 20]


def test_sentences_of_scripts_without_spaces_are_joined_without_one():
    for language, text in (("ja", "名前はまだ無い。どこで生れたか。"), ("zh", "他走了。我没走。")):
        split = partial(document_sentences, language=language)
        assert list(passages([text * 2], len(text), split)) == [text, text]
    assert list(passages(["ไป แล้ว มา"], 7, str.split)) == ["ไป แล้ว", "มา"]


def test_what_is_no_text_is_joined_to_none():
    coded = "QUJD" * 2000
    paragraphs = ["One.", "Two.", coded, "Three. Four.", f"Five. {coded}. Six."]
    assert list(passages(paragraphs, SIZE, docstring_sentences)) == [
        "One. Two.",
        coded,
        "Three. Four.",
        "Five.",
        f"{coded}.",
        "Six.",
    ]
    addresses = ["https://example.org/" + "a" * 1000] * 30
    assert max(map(len, passages(addresses, 120, docstring_sentences))) <= 120 * LONGEST_WORD


@pytest.mark.parametrize(
    "sentence", ["猫が庭で寝ている。", "犬も「はい。」と言った！", "他说：“好的。”"]
)
def test_a_long_paragraph_has_the_sentences_of_its_parts(sentence):
    assert document_sentences(3000 * sentence, "ja") == 3000 * document_sentences(sentence, "ja")
