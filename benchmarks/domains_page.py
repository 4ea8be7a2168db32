"""The page of domains.py: its tables and its picture, drawn from docs/results/domains.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt

import closed_forms
from closed_forms import HYBRID_GAIN, TEST
from common import draw, mean_gain
from isospace.report.figures import AFTER, INK, styled
from isospace.system.files import atomic_path
from isospace.system.tables import markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "results" / "domains.md"
PICTURE = PAGE.parents[1] / "images" / "domains.svg"
MEANS = PAGE.parents[1] / "images" / "gains.svg"
ADAPT, MNRL, MNRL_WHITENED = "adapt", "st-mnrl", "st-mnrl, then whitened by pairs"
BEST = "the best of the papers' objectives"
BY_PAIRS, QUERIES = "by pairs, power 0.75", "queries alone, power 0.5"
SHOWN = {
    "BM25": "BM25",
    "base model + BM25": "base model + BM25",
    BY_PAIRS: "whitening by pairs, no training",
    QUERIES: "whitening of queries, no training",
    "simcse": "simcse",
    "whitenedcse": "whitenedcse",
    "scd-published": "scd",
    "simcse++-published": "simcse++",
    BEST: "best published objective",
    MNRL: "fine-tuning by sentence-transformers",
    MNRL_WHITENED: "fine-tuning by sentence-transformers, then whitening",
    "adapt, no training": "adapt, no training",
    ADAPT: "adapt",
    "adapt, 2,000,000 tokens": "adapt, 2,000,000 tokens",
}
"""Row -> its name on the page, in the order of the tables."""
DRAWN = (ADAPT, BY_PAIRS, QUERIES, MNRL, BEST)
"""The rows in the picture."""
ON_EACH_CORPUS = (
    "base model + BM25",
    BY_PAIRS,
    QUERIES,
    BEST,
    MNRL,
    MNRL_WHITENED,
    ADAPT,
    "adapt, 2,000,000 tokens",
)
"""The rows in the table of the corpora."""
WIDTH, LINE = 190, 18
"""Pixels of a panel, and of a line of it."""
MINILM = "minilm"


def draw_page(record: Mapping[str, Any]) -> None:
    """Draw both pages from the record: base model -> corpus -> what was measured."""
    parts = {}
    for base, corpora in record.items():
        of_base = "" if base == MINILM else f" {base}"
        if not of_base:
            with_best = {corpus: _with_best(own) for corpus, own in corpora.items()}
            parts["over corpora"] = _over_corpora(with_best)
            parts["regret"] = _regret(corpora)
            parts["seeds"] = _seeds(corpora)
        parts[f"each corpus{of_base}"] = _each_corpus(corpora, counted=not of_base)
    draw(PAGE, parts)
    _draw_means(record[MINILM])
    _draw_gains({corpus: _with_best(own) for corpus, own in record[MINILM].items()})
    closed_forms.draw_page(record[MINILM])


def _with_best(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was measured of a corpus, with a row of the best of the papers' objectives."""
    best = own["best paper"]
    if best is None:
        return dict(own)
    rows, over = dict(own["rows"]), dict(own["adapt over"])
    rows[BEST] = rows[best]
    if best in over:
        over[BEST] = over[best]
    return {**own, "rows": rows, "adapt over": over}


def _over_corpora(corpora: Mapping[str, Any]) -> str:
    """Draw every row's means over the corpora.

    Corpora are few and were not drawn from anything: intervals are for other seeds and items.
    """
    table = []
    for row, shown in SHOWN.items():
        having = [own for own in corpora.values() if row in own["rows"]]
        if not having:
            continue
        cells = {"": shown}
        for name, title in ((TEST, "gain"), (HYBRID_GAIN, "hybrid gain")):
            cells[title] = _mean([own["rows"][row].get(name) for own in having])
        for name in ("docstrings", "definitions"):
            found = [own["rows"][row][name][0] for own in having if name in own["rows"][row]]
            cells[name] = f"{sum(found) / len(found):+.2f}" if found else ""
        sts = [own["rows"][row].get("STS") for own in having if "seeds" in own["rows"][row]]
        cells["STS"] = f"{sum(sts) / len(sts):+.2f}" if sts and None not in sts else ""
        cells["adapt minus the row"] = _mean([own["adapt over"].get(row) for own in having])
        table.append(cells)
        if row == ADAPT:
            found = [own["rows"][row]["hybrid over base"] for own in having]
            table.append({"": f"{ADAPT} + BM25", "gain": _mean(found)})
    return markdown_table(table)


def _mean(found: list[list[float] | None]) -> str:
    """Return the mean of gains with its interval, in points; nothing where none has one."""
    there = [value for value in found if value is not None]
    return mean_gain(there) if there else ""


def _each_corpus(corpora: Mapping[str, Any], counted: bool) -> str:
    """Draw the mean gains on every corpus; their intervals are in the picture."""
    table = [
        {"": "base model, MRR"} | {c: f"{own['base'][TEST]:.2f}" for c, own in corpora.items()}
    ]
    if counted:
        table += [
            {"": "test pairs"} | {c: f"{own['pairs'][TEST]:,}" for c, own in corpora.items()},
            {"": "groups of documents"} | {c: f"{own['groups']:,}" for c, own in corpora.items()},
        ]
    for row in ON_EACH_CORPUS:
        gains = {
            corpus: f"{found['rows'][row][TEST][0]:+.2f}"
            for corpus, own in corpora.items()
            if row in (found := _with_best(own))["rows"]
        }
        if gains:
            table.append({"": SHOWN[row], **gains})
    return markdown_table(table)


def _seeds(corpora: Mapping[str, Any]) -> str:
    """Draw the gains of `adapt` with every seed."""
    table = []
    for seed in sorted({seed for own in corpora.values() for seed in own["seeds"]}):
        gains = {name: own["seeds"][seed] for name, own in corpora.items()}
        row = {"seed": seed} | {name: f"{found[0]:+.2f}" for name, found in gains.items()}
        table.append(row | {"mean": mean_gain(list(gains.values()))})
    return markdown_table(table)


def _regret(corpora: Mapping[str, Any]) -> str:
    """Draw by how much the selected candidate is behind the best one, in points of test MRR."""
    table = []
    sums: dict[str, list[float]] = {}
    for corpus, own in corpora.items():
        if not own["candidates"]:
            continue
        row = {"": corpus}
        for title, of in _SELECTIONS.items():
            regrets = []
            for found in own["candidates"]:
                allowed = [one for one in found if one["allowed"]]
                best = max(one["test"] for one in allowed)
                regrets.append(100 * (best - of(allowed)["test"]))
            sums.setdefault(title, []).append(sum(regrets) / len(regrets))
            row[title] = f"{sums[title][-1]:.2f}"
        table.append(row)
    means = {title: f"{sum(own) / len(own):.2f}" for title, own in sums.items()}
    return markdown_table([*table, {"": "mean", **means}])


_SELECTIONS = {
    "selected by adapt": lambda found: next(one for one in found if one["selected"]),
    "without the training passages": lambda found: max(found, key=lambda one: one["validation"]),
    "always the last tried": lambda found: found[-1],
}


def _draw_means(corpora: Mapping[str, Any]) -> None:
    """Draw the mean gains over the corpora as bars, for readers who know nothing of the study."""
    bars = []
    for row in DRAWN:
        if row != QUERIES:
            found = [_with_best(own)["rows"][row][TEST][0] for own in corpora.values()]
            mean = sum(found) / len(found)
            bars.append({"row": SHOWN[row], "gain": mean, "label": f"+{mean:.1f}"})
    names = [bar["row"] for bar in bars]
    chart = alt.Chart({"values": bars}).encode(
        alt.X("gain:Q").title(f"points of MRR over the base model, mean of {len(corpora)} corpora"),
        alt.Y("row:N").title(None).sort(names).axis(labelLimit=0, ticks=False),
    )
    colour = alt.condition(alt.datum.row == ADAPT, alt.value(AFTER), alt.value(INK))
    labels = chart.mark_text(align="left", dx=4).encode(text="label:N")
    both = (chart.mark_bar(height=16).encode(color=colour) + labels).properties(
        width=380, height=110
    )
    with atomic_path(MEANS) as temporary:
        styled(both).save(str(temporary), format="svg")


def _draw_gains(corpora: Mapping[str, Any]) -> None:
    """Draw the gains over the base model, a panel for each corpus."""
    panels = []
    for corpus, own in corpora.items():
        points = [
            {"row": SHOWN[row], "gain": gain, "low": low, "high": high}
            for row in DRAWN
            if row in own["rows"]
            for gain, low, high in [own["rows"][row][TEST]]
        ]
        panels.append(_panel(points, corpus))
    # One scale for all corpora, so that equal gains have equal lengths.
    chart = styled(alt.concat(*panels, columns=2, spacing=16).resolve_scale(x="shared"))
    with atomic_path(PICTURE) as temporary:
        chart.save(str(temporary), format="svg")


def _panel(points: list[dict[str, Any]], corpus: str) -> alt.LayerChart:
    names = [SHOWN[row] for row in DRAWN]
    first = alt.datum.row == names[0]
    colour = alt.condition(first, alt.value(AFTER), alt.value(INK))
    y = alt.Y("row:N").title(None).sort(names).scale(domain=names).axis(labelLimit=0, ticks=False)
    x = alt.X("gain:Q").title("gain over the base model, points of MRR")
    zero = alt.Chart({"values": [{"gain": 0}]}).mark_rule(color=INK).encode(x=x)
    values = {"values": points}
    lines = (
        alt.Chart(values)
        .mark_rule(strokeWidth=2)
        .encode(alt.X("low:Q"), y, color=colour, x2="high:Q")
    )
    dots = alt.Chart(values).mark_point(filled=True, size=60, opacity=1)
    return alt.layer(zero, lines, dots.encode(x, y, color=colour)).properties(
        title=corpus, width=WIDTH, height=LINE * len(DRAWN)
    )
