"""Which languages a text is in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

FEW = 0.02
"""A language of a smaller share of the texts is as likely a mistake of the detector."""


def language_of(text: str) -> str:
    """ISO code of the language that a text seems to be in.

    By py3langid (Barbaresi; the model of Lui and Baldwin's langid.py, ACL 2012), which knows 97
    languages and is unsure of texts of a few words.

    >>> language_of("Eine Katze sitzt auf dem Dach und schaut in den Garten.")
    'de'
    """
    import py3langid

    return str(py3langid.classify(text)[0])


def languages(texts: Iterable[str]) -> dict[str, float]:
    """ISO code -> share of the texts, the largest first; rare ones are left out."""
    found = Counter(map(language_of, texts))
    total = sum(found.values())
    return {name: n / total for name, n in found.most_common() if n >= FEW * total}
