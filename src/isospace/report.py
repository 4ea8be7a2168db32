"""Run folders -> tables and a page with pictures."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isospace.config import objective_name
from isospace.display import kept
from isospace.errors import UserError
from isospace.files import write_text
from isospace.run import Run

_INK = "#7a7a7a"
_COLOURS = ("#3b7dd8", "#d9822b", "#2f9e62", "#b54fb5", "#c4453c")

_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #8884; text-align: right }
th:first-child, td:first-child { text-align: left }
svg { max-width: 100%; height: auto }
.verdict { font-size: 1.15rem; border-left: 4px solid #3b7dd8; padding-left: 1rem }
code { overflow-wrap: anywhere }
"""


def _style(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=11, color=_INK, loc="left")
    axes.set_xlabel("sentences", color=_INK)
    axes.tick_params(colors=_INK)
    axes.grid(alpha=0.2)
    for side in axes.spines.values():
        side.set_color(_INK)
        side.set_alpha(0.4)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, labelcolor=_INK)


def _smooth(values: Sequence[float], width: int) -> list[float]:
    """Running mean over the last `width` values."""
    return [
        sum(values[max(0, i - width + 1) : i + 1]) / (i + 1 - max(0, i - width + 1))
        for i in range(len(values))
    ]


def curves(run: Run) -> Figure:
    """One run's curves: loss terms, the criterion, alignment and uniformity, effective rank."""
    metrics = run.metrics()
    steps = [line for line in metrics if line["kind"] == "step"]
    looks = [line for line in metrics if line["kind"] == "look"]
    per_step = run.config.batch_size * run.config.accumulate
    seen = [line["step"] * per_step for line in looks]
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    figure.patch.set_alpha(0)
    losses, criterion, space, rank = figure.subplots(2, 2).flat
    for axes in (losses, criterion, space, rank):
        axes.patch.set_alpha(0)
    for i, name in enumerate(steps[0]["terms"] if steps else ()):
        values = [line["terms"][name] for line in steps]
        where = [line["sentences"] for line in steps]
        colour = _COLOURS[i % len(_COLOURS)]
        losses.plot(where, values, color=colour, alpha=0.25, linewidth=1)
        losses.plot(where, _smooth(values, 20), color=colour, label=name)
    _style(losses, "training loss, by term (running mean of 20)")
    criterion.plot(seen, [look["pairs_mrr"] for look in looks], "o-", color=_COLOURS[0])
    _style(criterion, "held-out retrieval of pairs, MRR (higher is better)")
    for i, name in enumerate(("alignment", "uniformity")):
        space.plot(seen, [look[name] for look in looks], "o-", color=_COLOURS[i], label=name)
    _style(space, "alignment and uniformity (lower is better)")
    rank.plot(seen, [look["effective_rank"] for look in looks], "o-", color=_COLOURS[2])
    _style(rank, "effective rank of held-out vectors")
    return figure


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    return buffer.getvalue()


def _row(run: Run) -> dict[str, str]:
    results = run.results
    if results is None:
        return {
            "run": run.folder.name,
            "objective": objective_name(run.config.objective),
            "verdict": "unfinished",
        }
    before, after = (results[key]["scores"] for key in ("start", "result"))
    cells = {
        "run": run.folder.name,
        "objective": objective_name(run.config.objective),
        "seed": str(run.config.seed),
        "kept": f"{results['choice']['rule']}, step {results['model_step']}",
        "MRR start": f"{100 * before['pairs']['mrr']:.2f}",
        "MRR result": f"{100 * after['pairs']['mrr']:.2f}",
    }
    if after["sts"] and after["sts"]["paper_row"]["Avg"] is not None:
        cells["STS avg start"] = f"{before['sts']['paper_row']['Avg']:.2f}"
        cells["STS avg result"] = f"{after['sts']['paper_row']['Avg']:.2f}"
    cells["verdict"] = results["verdict"]["kind"]
    return cells


def runs_table(runs: Sequence[Run]) -> list[dict[str, str]]:
    """A row of cells per run: objective, what was kept, scores before and after, verdict."""
    return [_row(run) for run in runs]


def markdown_table(rows: Sequence[dict[str, str]]) -> str:
    """Rows of cells as a Markdown table; a cell that a row lacks is empty.

    >>> print(markdown_table([{"a": "1"}, {"a": "2", "b": "3"}]))
    | a | b |
    |---|---|
    | 1 |  |
    | 2 | 3 |
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(row.get(name, "") for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def _html_table(rows: Sequence[dict[str, str]]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(row.get(name, ''))}</td>" for name in columns) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _section(run: Run) -> str:
    results: dict[str, Any] | None = run.results
    if results is None:
        command = html.escape(f"isospace train --resume {run.folder}")
        verdict = f"Not finished. Go on with <code>{command}</code>"
    else:
        verdict = html.escape(results["verdict"]["text"])
    parts = [f"<h2>{html.escape(run.folder.name)}</h2>", f'<p class="verdict">{verdict}</p>']
    if any(line["kind"] == "look" for line in run.metrics()):
        parts.append(_svg(curves(run)))
    if results is not None:
        counts = [{"corpus": k, "lines": f"{n:,}"} for k, n in results["corpus"]["counts"].items()]
        protocol = (
            f"{results['verdict']['protocol']}; {results['result']['scores']['pairs']['protocol']}"
        )
        machine = ", ".join(f"{key} {value}" for key, value in results["environment"].items())
        parts += [
            f"<p>Kept: {html.escape(kept(results))}.</p>",
            f"<p>Protocol: {html.escape(protocol)}.</p>",
            _html_table(counts),
            f"<p>Machine: {html.escape(machine)}; {results['seconds']:.0f} s.</p>",
        ]
    return "\n".join(parts)


def write_report(runs: Run | Sequence[Run], output: Path | None = None) -> Path:
    """Write one self-contained HTML page about one or more runs.

    Args:
        runs: what to show.
        output: the file; default: report.html in the folder of a single run.

    Returns:
        The file's path.

    Raises:
        UserError: several runs and no `output`.
    """
    runs = [runs] if isinstance(runs, Run) else list(runs)
    if output is None:
        if len(runs) != 1:
            raise UserError(
                "a report on several runs needs a file to write to: --output report.html"
            )
        output = runs[0].folder / "report.html"
    title = runs[0].folder.name if len(runs) == 1 else f"{len(runs)} runs"
    body = "\n".join([_html_table(runs_table(runs)), *map(_section, runs)])
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>isospace: {html.escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>isospace: {html.escape(title)}</h1>{body}</body></html>\n"
    )
    write_text(output, page)
    return output


def write_curves(run: Run, picture: Path) -> None:
    """Write one run's curves as a picture; the suffix decides the format (svg, png, pdf)."""
    figure = curves(run)
    try:
        picture.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(picture, dpi=110)
    except ValueError as error:
        raise UserError(f"--picture {picture}: {error}") from error
