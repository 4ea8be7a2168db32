"""Characters that look the same get one spelling; what only resembles them stays as it is."""

import unicodedata

import pytest
from hypothesis import given, settings, strategies as st

from isospace.corpus.lines import clean
from isospace.system.unicode import normalise

UNTOUCHED = """
    x² m³ H₂O ½ ™ № ℃ ㎏ ㎡ … µ ª ① Ⓐ ℝ 𝔽 𝟙 ≠ − – — ‒ ′ ’ ‘ “ ” „ « » · • ☺ ❤️ #️⃣ ☕︎
    def f(x: int) -> str: return f"{x!r}\\u00ad\\ufb01"  # naïve Größe 10 µm
    日本語、これは「テスト」です。カタカナ！（一）は：～？ 你好，世界。《书》［注］ 한국어 ㅋㅋㅋ
    ภาษาไทย น้ำ ພາສາລາວ ກຳ ភាសាខ្មែរ\u200bនេះ ကမ္ဘာ\u200bပေါ်
    می\u200cخواهم نامه\u200cها العربية ﷺ हिन्\u200dदी क्\u200cष বাংলা র\u200d্য
    👩\u200d👩\u200d👧 👩\u200d⚕️ ❤\u200d🔥 🏴\u200d☠️ և ﴾ ￣ ﹏
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # What pdfTeX writes for the letters of a word that touch.
        ("e\ufb03cient \ufb01le \ufb02at sta\ufb00 ba\ufb04e \ufb05 \ufb06", "efficient file flat staff baffle st st"),
        ("Ĳsland ǆ Ǉ ſo ŉ", "IJsland dž LJ so ’n"),
        ("\ufb13 \ufb4f", "մն אל"),
        ("ﻣﺤﻤﺪ ﻻ ﷲ", "محمد لا الله"),
        ("⼀⽇⾦ ⻳", "一日金 龟"),
        ("𝑥 𝐛𝐨𝐥𝐝 ℎ 𝒜ℬ 𝜆 𝟗", "x bold h AB λ 9"),
        ("Ⅳ ⅻ", "IV xii"),
        ("Ｐｙｔｈｏｎ　３．１１，Ｃ＋＋　５０％　１，０００", "Python 3.11，C++ 50% 1,000"),
        ("ｶﾞｽﾄﾞｱ ﾊﾟﾝ｡｢ｱ｣", "ガスドア パン。「ア」"),
        ("a\u00a0b\u2009c\u202fd\u3000e\u2007f", "a b c d e f"),
        ("co\u2011op twenty\u2010one", "co-op twenty-one"),
        ("don\u02bct \u201bx\u201f", "don’t ‘x“"),
        ("cafe\u0301 Z\u0323\u0307 \u212b \u1112\u1161\u11ab", "café Ẓ̇ Å 한"),
        ("Unter\u00adneh\u00admen, ge\u00ad\n   trennt", "Unternehmen, getrennt"),
        ("\ufeffa\u200bb\u2060c\ufeffd \u200eright\u200f", "abcd right"),
        ("Auf\u200clage \u200d. 葛\U000e0100城", "Auflage . 葛城"),
        ("שלום\u200f \u202bعربي\u202c", "שלום عربي"),
    ],
)  # fmt: skip
def test_what_looks_the_same_is_the_same(text, expected):
    assert normalise(text) == expected == normalise(expected)


@pytest.mark.parametrize("text", UNTOUCHED.split("\n"))
def test_what_means_something_else_stays(text):
    assert normalise(text) == text


def test_no_ordinary_letter_or_sign_changes():
    """Unicode itself says of what changes that it is a shape, a blank or invisible."""
    kinds = ("<wide>", "<narrow>", "<font>", "<noBreak>", "<compat>", "<initial>", "<medial>")
    kinds += ("<final>", "<isolated>", "<vertical>")
    others = {"\u00ad", "\u034f", "\u061c", "\u02bc", "\u2010", "\u201b", "\u201f", "\ufeff"}
    for sign in map(chr, [*range(0x32000), *range(0xE0000, 0xE0200)]):  # no others are assigned
        if normalise(sign) != unicodedata.normalize("NFC", sign) and sign not in others:
            unseen = unicodedata.category(sign) in ("Cf", "Zs") or sign >= "\U000e0100"
            assert unseen or unicodedata.decomposition(sign).startswith(kinds), hex(ord(sign))


@settings(deadline=None)
@given(
    st.text(st.one_of(st.characters(), st.sampled_from("\u200b\u200c\u200dＡ１．ｶﾞ\u0301K\n\u00ad")))
)
def test_twice_is_once(text):
    once, line = normalise(text), clean(text)
    assert normalise(once) == once
    assert clean(line) == line == line.strip()
    assert len(line.splitlines()) <= 1
    line.encode()
