"""Less other text in tests, of which few are about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isospace.evaluation.other_text import Part
    from isospace.evaluation.pairs import TextPairs

LESS_OTHER_TEXT = "ISOSPACE_TESTS_LESS_OTHER_TEXT"
"""Environment variable by which the processes of tests measure less other text too."""


def measure_less_other_text() -> None:
    """Measure a tenth of the other text in this process."""
    from isospace.evaluation import other_text

    whole = other_text.carried

    def some(name: str, part: Part) -> TextPairs:
        pairs = whole(name, part)
        return pairs.take(range(0, len(pairs), len(pairs) // 40))

    other_text.carried = some
