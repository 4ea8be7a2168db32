"""Pictures of a report, drawn by Altair (Vega-Lite) as SVG without scripts.

Screen readers and browsers show the text of a point. Colours are visible on white and on black.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from isospace.adaptation.results import SearchResults
from isospace.evaluation.benchmark import BASE
from isospace.report.run_set import RunSet
from isospace.statistics.gains import Gain
from isospace.training.results import BY_LABELS, BY_PAIRS
from isospace.training.run import Run

Chart = alt.LayerChart | alt.FacetChart  # types of Altair's `layer`
Values = list[dict[str, Any]]
Vectors = NDArray[np.float32]

WIDTH, HEIGHT = 320, 240
"""Smallest size of a picture in pixels; its text then has 12 pixels."""
RUNNING_MEAN = 20
"""Number of updates in the running mean of a loss."""

INK = "#757575"
_BEFORE, AFTER = "#8a6d3b", "#3b7dd8"
_COLOURS = [AFTER, "#c9701f", "#2f9e62", "#b54fb5", "#c4453c", _BEFORE, "#4f86a8", "#7d7ad6"]
_POINT = re.compile(r'(<path aria-label="([^"]*)" [^>]*aria-roledescription="point"[^>]*)/>')
_POINTS = 300  # points of a line; more look the same


def styled(chart: Chart) -> Any:
    """Return a chart with the fonts, lines and colours of a report."""
    text: dict[str, Any] = {"labelFontSize": 12, "labelColor": INK}
    text |= {"titleFontSize": 12, "titleColor": INK, "titleFontWeight": "normal"}
    lines = {"gridColor": INK, "gridOpacity": 0.25, "domainColor": INK, "tickColor": INK}
    # By labelSeparation, numbers that would touch are left out.
    ticks = {"tickCount": 5, "labelFlush": False, "titlePadding": 10, "labelSeparation": 8}
    key = {"orient": "bottom", "columns": 2, "symbolOpacity": 1, "symbolStrokeWidth": 2}
    return chart.configure(
        background="transparent",
        axis=text | lines | ticks,
        legend=text | key,
        range={"category": _COLOURS},
        title={"color": INK, "fontSize": 13, "anchor": "start"},
        view={"stroke": None},
    )


@dataclass(frozen=True)
class Picture:
    """A picture on a page, with title and caption."""

    title: str
    caption: str
    svg: Markup


def picture(
    chart: Chart, name: str, description: str, title: str, caption: str = "", width: int = WIDTH
) -> Picture:
    """Draw a chart for a page, where `name` is unique; `description` is for screen readers."""
    fit = alt.AutoSizeParams(type="fit", contains="padding")
    buffer = io.StringIO()
    styled(chart.properties(width=width, height=HEIGHT, autosize=fit)).save(buffer, format="svg")
    svg = buffer.getvalue()
    # Vega's ids depend on earlier charts of the process; make them unique and stable on the page.
    for number, vega_id in enumerate(re.findall(r'id="(\w+)"', svg)):
        svg = re.sub(rf'(id="|url\(#){vega_id}\b', rf"\g<1>{name}-{number}", svg)
    svg = re.sub(_POINT, r"\1><title>\2</title></path>", svg)
    label = f'role="graphics-document" aria-label="{escape(description)}"'
    return Picture(title, caption, Markup(svg.replace('class="marks"', label, 1)))


def _chart(values: Values) -> alt.Chart:
    return alt.Chart({"values": values})


def _sentences() -> alt.X:
    # The plain format "~s" would use one unit for all ticks and write 0k.
    return alt.X("sentences:Q").title("sentences seen").axis(labelExpr="format(datum.value, '~s')")


def losses(run: Run) -> Chart:
    """Draw each term of the training loss (faint line) and its running mean."""
    steps = run.steps()
    values: Values = []
    for term in steps[0]["terms"]:
        loss = np.array([step["terms"][term] for step in steps])
        sums = np.concatenate([[0.0], np.cumsum(loss)])
        for i in range(0, len(steps), max(1, len(steps) // _POINTS)):
            first = max(0, i + 1 - RUNNING_MEAN)
            mean = float(sums[i + 1] - sums[first]) / (i + 1 - first)
            row = {"term": term, "sentences": steps[i]["sentences"]}
            values.append({**row, "loss": float(loss[i]), "mean": mean})
    coloured = alt.Color("term:N").title(None).sort(None).legend(symbolType="stroke")
    base = _chart(values).encode(x=_sentences(), color=coloured)
    faint = base.mark_line(opacity=0.45, strokeWidth=1).encode(y=alt.Y("loss:Q").title("loss"))
    return alt.layer(faint, base.mark_line(strokeWidth=2).encode(y="mean:Q"))


def curves(run_set: RunSet) -> list[tuple[str, str]]:
    """Return the measures of evaluations to draw, with titles."""
    evaluations = [one for named in run_set.runs for one in named.run.evaluations()]
    score = (BY_PAIRS, "validation MRR (0 to 1, higher is better)")
    if evaluations and all(BY_LABELS in one for one in evaluations):
        score = (BY_LABELS, "Spearman on the labelled dev pairs (higher is better)")
    return [
        score,
        ("alignment", "Alignment (lower is better)"),
        ("uniformity", "Uniformity (lower is better)"),
        ("effective_rank", "Effective rank"),
    ]


def curve(run_set: RunSet, measure: str) -> Chart:
    """Draw a measure over the sentences seen: a line for each run, in its `line_styles`."""
    values: Values = [
        {
            "run": named.name,
            "settings": named.group,
            "sentences": evaluation["sentences"],
            "value": evaluation[measure],
            "label": f"{named.name}, {evaluation['sentences']:,.0f} sentences: "
            f"{evaluation[measure]:.4g}",
        }
        for named in run_set.runs
        for evaluation in named.run.evaluations()
    ]
    names, colours, lines = zip(*line_styles(run_set), strict=True)
    dashes = [[6, 3] if line == "dashed" else [1, 0] for line in lines]
    base = _chart(values).encode(
        x=_sentences(),
        y=alt.Y("value:Q").title(None).scale(zero=False),
        color=alt.Color("settings:N", legend=None).scale(domain=names, range=colours),
        detail="run:N",
    )
    dash = alt.StrokeDash("settings:N", legend=None).scale(domain=names, range=dashes)
    points = base.mark_point(filled=True, size=45, opacity=1).encode(description="label:N")
    return alt.layer(base.mark_line(strokeWidth=2).encode(strokeDash=dash), points)


def line_styles(run_set: RunSet) -> list[tuple[str, str, str]]:
    """Return name, colour and line (solid or dashed) of each setting in the curves."""
    names = list(run_set.groups())
    lines = [(colour, line) for line in ("solid", "dashed") for colour in _COLOURS]
    return [(name, *lines[i % len(lines)]) for i, name in enumerate(names)]


def spectrum(vectors: Vectors) -> NDArray[np.float64]:
    """Return the singular values of the centred vectors as shares of their sum, largest first.

    The entropy of these shares is the logarithm of the effective rank (Roy & Vetterli 2007).

    `vectors` are (sentence, dim).
    """
    values = vectors.astype(np.float64)
    singular = np.linalg.svd(values - values.mean(0), compute_uv=False)
    return np.asarray(singular / max(singular.sum(), np.finfo(np.float64).tiny))


def spectra(spaces: Mapping[str, Vectors]) -> Chart:
    """Draw the singular values of one or two spaces, largest first, as shares of their sum.

    Values below the rounding error of the sample (half precision) are left out.
    """
    values: Values = []
    for name, vectors in spaces.items():
        shares = spectrum(vectors)
        shown = shares[shares > np.finfo(np.float16).eps * shares[0]].tolist()
        values += [
            {"state": name, "number": number, "share": share}
            for number, share in enumerate(shown, start=1)
        ]
    powers = [10.0**power for power in range(-6, 1)]
    names = list(spaces)
    colours = alt.Scale(domain=names, range=[_BEFORE, AFTER][: len(names)])
    dashes = alt.Scale(domain=names, range=[[5, 3], [1, 0]][: len(names)])
    lines = (
        _chart(values)
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("number:Q").title("singular value, largest first"),
            y=alt.Y("share:Q").title("share of their sum").scale(type="log").axis(values=powers),
            color=alt.Color("state:N", scale=colours).title(None).legend(symbolType="stroke"),
            strokeDash=alt.StrokeDash("state:N", scale=dashes),
        )
    )
    return alt.layer(lines)


def candidates(found: SearchResults) -> Chart:
    """Draw the MRR x 100 of each candidate and baseline; intervals are those of the gain."""
    best: Values = []
    for one in found.best:
        state = "selected" if one.selected else BASE if one.gain is None else "candidate"
        best.append(_mark(found, one.kind, one.mrr, one.gain, state, f" ({one.name})"))
    best[1:1] = [
        _mark(found, name, found.base.mrr + gain.mean, gain, "BM25")
        for name, gain in found.baselines.items()
    ]
    names = [one["name"] for one in best]
    marks = {
        BASE: (_BEFORE, "square"),
        "candidate": (AFTER, "circle"),
        "selected": (_COLOURS[2], "diamond"),
        "BM25": (INK, "cross"),
    }
    shown = [state for state in marks if any(one["state"] == state for one in best)]
    colours, shapes = zip(*(marks[state] for state in shown), strict=True)
    colour = alt.Color("state:N").title(None).scale(domain=shown, range=colours)
    shape = alt.Shape("state:N").title(None).scale(domain=shown, range=shapes)
    # Leave room for fonts wider than the one that sets the layout.
    room = min(240, 9 * max(map(len, names)))
    y = alt.Y("name:N").title(None).sort(names).axis(labelLimit=0, minExtent=room)
    x = alt.X("value:Q").title("validation MRR x 100").scale(zero=False)
    start = _chart(best[:1]).mark_rule(color=_BEFORE, strokeDash=[4, 3]).encode(x="value:Q")
    lines = _chart([one for one in best if "low" in one]).mark_rule(strokeWidth=2)
    base = _chart(best).mark_point(filled=True, size=80, opacity=1)
    return alt.layer(
        start,
        lines.encode(
            x=alt.X("low:Q").title("validation MRR x 100"), x2="high:Q", y=y, color=colour
        ),
        base.encode(x=x, y=y, color=colour, shape=shape, description="label:N"),
    )


def _mark(
    found: SearchResults, name: str, mrr: float, gain: Gain | None, state: str, note: str = ""
) -> dict[str, Any]:
    label = f"{name}: {100 * mrr:.2f}{note}"
    row = {"name": name, "value": 100 * mrr, "state": state, "label": label}
    if gain is None:
        return row
    low, high = (100 * (found.base.mrr + end) for end in (gain.low, gain.high))
    return row | {"low": low, "high": high, "label": f"{label}, gain {gain.points}"}
