"""Plain BM25 as a library: what it leaves alone."""

from __future__ import annotations

import pytest

from isospace.evaluation.bm25 import bm25_terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Unter\u00adneh\u00admen", ["unternehmen"]),
        ("zero\u200bwidth word\u2060joiner Auf\u200clage", ["zerowidth", "wordjoiner", "auflage"]),
        ("e\ufb03cient Ｃａｆｅ\u0301 ｶﾞｽ", ["efficient", "café", "ガス"]),
        ("don\u02bct don’t don't", ["don", "t"] * 3),
        ("हिन्\u200dदी हिन्दी", ["हिन्दी", "हिन्दी"]),
        ("می\u200cخواهم می خواهم", ["می", "خواهم"] * 2),
        ("ភាសា\u200bនេះ", bm25_terms("ភាសានេះ")),
    ],
)
def test_words_are_those_that_a_reader_sees(text, expected):
    assert bm25_terms(text) == expected
