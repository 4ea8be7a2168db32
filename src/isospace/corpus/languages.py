"""Which languages a text is in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from isospace.errors import UserError

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


def check_language(code: str) -> None:
    """Refuse what `language_of` never gives: its sentences would be told by another's rules.

    Raises:
        UserError: naming the codes.
    """
    import py3langid

    known = sorted(str(name) for name, _ in py3langid.rank(""))
    if code not in known:
        raise UserError(f"`language` {code}: expected one of {', '.join(known)}")


def languages(texts: Iterable[str]) -> dict[str, float]:
    """ISO code -> share of the texts, the largest first; rare ones are left out."""
    found = Counter(map(language_of, texts))
    total = sum(found.values())
    return {name: n / total for name, n in found.most_common() if n >= FEW * total}
