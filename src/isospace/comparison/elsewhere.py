"""What every row of a comparison gains or loses on other text than the corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isospace.comparison.shared_items import Items, SharedItems
from isospace.evaluation.elsewhere import STS, gains_over
from isospace.statistics.gains import Gain, gain
from isospace.statistics.influence import Scores


def elsewhere_gains(
    items: Mapping[str, Sequence[Items]],
    tested: Mapping[str, Mapping[str, Scores]],
    shared: SharedItems,
) -> dict[str, dict[str, Gain]]:
    """Row -> set -> gain over the row "start"; none where the start is of before this was measured.

    Nothing was chosen by these sets, so that their intervals need no correction.

    Args:
        items: row -> `Elsewhere.items` of each seed.
        tested: row -> column -> scores, of which the STS average is taken.
        shared: the test items.
    """
    [start] = items["start"]
    if not start:
        return {}
    found: dict[str, dict[str, Gain]] = {}
    average = shared.shown("Avg")
    for row, seeds in items.items():
        if row != "start":
            sts = {}
            if average is not None:
                sts = {STS: gain(tested[row][average], tested["start"][average])}
            found[row] = sts | gains_over(seeds, start)
    return found
