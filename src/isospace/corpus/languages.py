"""Which languages a text is in."""

from __future__ import annotations

import locale
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
    """Refuse what is no language, whose sentences would be told by another's rules.

    Known are the languages of `language_of` and those that systems have locales of.

    Raises:
        UserError: naming the codes.
    """
    import py3langid

    locales = (name.partition("_")[0] for name in locale.locale_alias.values())
    known = {str(name) for name, _ in py3langid.rank("")} | {*filter(str.islower, locales)}
    if code not in known:
        short = ", ".join(sorted(name for name in known if len(name) == 2))
        raise UserError(
            f"`language` {code}: no known code of a language. Expected {short}, or one of three "
            "letters where a language has no other, such as yue"
        )


def languages(texts: Iterable[str]) -> dict[str, float]:
    """ISO code -> share of the texts, the largest first; rare ones are left out."""
    found = Counter(map(language_of, texts))
    total = sum(found.values())
    return {name: n / total for name, n in found.most_common() if n >= FEW * total}
