"""Less of what every run measures, where few tests are about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isospace.evaluation.other_text import Part
    from isospace.evaluation.pairs import TextPairs

LESS_ELSEWHERE = "ISOSPACE_TESTS_LESS_ELSEWHERE"
"""A variable of the environment: processes of tests measure less elsewhere, too."""


def measure_less_other_text() -> None:
    """Of the other text that every verdict is about little is measured in this process."""
    from isospace.evaluation import other_text

    whole = other_text.carried

    def some(name: str, part: Part) -> TextPairs:
        pairs = whole(name, part)
        return pairs.take(range(0, len(pairs), len(pairs) // 40))

    other_text.carried = some
