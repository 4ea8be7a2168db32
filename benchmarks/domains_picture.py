"""The picture of docs/results/domains.md: gains over the start, a panel for each corpus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import altair as alt

from isospace.comparison.results import ComparisonResults
from isospace.report.figures import AFTER, INK, styled
from isospace.system.files import atomic_path

WIDTH, LINE = 190, 18
"""Pixels of a panel, and of a line of it."""


def draw_gains(
    path: Path, found: Mapping[str, ComparisonResults], rows: Mapping[str, Mapping[str, str]]
) -> None:
    """Draw the gains over the start.

    Args:
        path: of the SVG.
        found: corpus -> what was judged.
        rows: corpus -> name in the picture -> row; the first is drawn in its own colour. What has
            BM25 beside it has no interval.
    """
    names = list(dict.fromkeys(name for own in rows.values() for name in own))
    panels = [
        _panel([_point(found[corpus], name, row) for name, row in own.items()], names, corpus)
        for corpus, own in rows.items()
    ]
    chart = styled(alt.concat(*panels, columns=2, spacing=16))
    with atomic_path(path) as temporary:
        chart.save(str(temporary), format="svg")


def _point(results: ComparisonResults, name: str, row: str) -> dict[str, Any]:
    if row in results.gains:
        gain = results.gains[row][results.measure].over_start
        ends = {"low": 100 * gain.low, "high": 100 * gain.high}
        return {"row": name, "gain": 100 * gain.mean, **ends}
    fused = results.beside[row].scores[results.measure].seeds
    [start] = results.scores["start"][results.measure].seeds
    return {"row": name, "gain": fmean(fused) - start}


def _panel(points: list[dict[str, Any]], names: list[str], corpus: str) -> alt.LayerChart:
    first = alt.datum.row == names[0]
    colour = alt.condition(first, alt.value(AFTER), alt.value(INK))
    y = alt.Y("row:N").title(None).sort(names).scale(domain=names).axis(labelLimit=0, ticks=False)
    x = alt.X("gain:Q").title("points of MRR over the start")
    zero = alt.Chart({"values": [{"gain": 0}]}).mark_rule(color=INK).encode(x=x)
    ends = alt.Chart({"values": [point for point in points if "low" in point]})
    lines = ends.mark_rule(strokeWidth=2).encode(alt.X("low:Q"), y, color=colour, x2="high:Q")
    dots = alt.Chart({"values": points}).mark_point(filled=True, size=60, opacity=1)
    return alt.layer(zero, lines, dots.encode(x, y, color=colour)).properties(
        title=corpus, width=WIDTH, height=LINE * len(names)
    )
