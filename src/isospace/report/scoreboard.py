"""The tables of a report: a comparison, the runs, the papers' columns with the published rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from isospace.recipes import RECIPES, STS_COLUMNS
from isospace.report.run_set import RunSet
from isospace.run import Run
from isospace.tables import Table

_PUBLISHED = "published"
_OTHER = f"{_PUBLISHED}, other start"


def all_tables(found: RunSet) -> list[Table]:
    """Every table that there are numbers for, the verdicts of comparisons first.

    No two have the same name: tables of several comparisons are numbered.
    """
    made = []
    for i, (name, content) in enumerate(found.comparisons.items(), start=1):
        number = f"-{i}" if len(found.comparisons) > 1 else ""
        if content is not None:
            of_it = comparison_table(name, content), gains_table(name, content)
            made += [replace(table, name=table.name + number) for table in of_it if table]
    made.append(runs_table(found))
    papers = papers_table(found)
    return [*made, papers] if papers else made


def mean_sd(values: Sequence[float], digits: int = 2) -> str:
    """Mean and, for several values, their standard deviation (divisor n - 1).

    >>> mean_sd([1.0, 2.0]), mean_sd([1.0])
    ('1.50 ± 0.71', '1.00')
    """
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def comparison_table(name: str, content: Mapping[str, Any]) -> Table:
    """What `isospace compare` found: mean and sd over seeds, gains over the start, Holm's p.

    The papers' columns have a table of their own.

    Args:
        name: of the comparison.
        content: of its results.json.
    """
    measure, versus = content["measure"], content["holm_p_against_best"]
    rows = []
    for contestant, columns in content["scores"].items():
        shown = dict.fromkeys([measure, "MRR", "R@1"])
        row = {"": contestant} | {column: mean_sd(columns[column]) for column in shown}
        if contestant in content["gains"]:
            gain = content["gains"][contestant][measure]
            row["seeds"] = str(gain["seeds"])
            row[f"gain in {measure}"] = f"{100 * gain['mean']:+.2f}"
            row["95 % interval"] = f"{100 * gain['low']:+.2f} to {100 * gain['high']:+.2f}"
            row["p (Holm)"] = f"{content['holm_p'][contestant]:.3g}"
            against = versus.get(contestant)
            row["p against best"] = "" if against is None else f"{against:.3g}"
        rows.append(row)
    note = (
        f"x 100, mean ± standard deviation over the seeds. {_protocol(content)} The interval is "
        "over seeds and test items. p is of the gain over the start, and of Welch's test over "
        "seeds against the row with the best mean; both corrected for all comparisons (Holm)."
    )
    return Table("comparison", f"Comparison {name}", rows, note)


def _protocol(content: Mapping[str, Any]) -> str:
    protocol = content["protocol"]
    sts = f" STS: {protocol['STS']}." if content["measure"] == "Avg" else ""
    return f"MRR and R@1: {protocol['MRR']}.{sts} Checkpoints chosen by {protocol['checkpoints']}."


def gains_table(name: str, content: Mapping[str, Any]) -> Table | None:
    """The gain over the start in every score, with its interval; `None` if there is but one.

    Args:
        name: of the comparison.
        content: of its results.json.
    """
    gains: Mapping[str, Mapping[str, Any]] = content["gains"]
    scores = list(next(iter(gains.values())))
    if len(scores) < 2:
        return None
    rows = [
        {"": score} | {contestant: gain_interval(gains[contestant][score]) for contestant in gains}
        for score in scores
    ]
    note = (
        "Gain over the start x 100, mean over the seeds, and its 95 % interval over seeds and test "
        "items; not corrected for the number of scores."
    )
    return Table("gains", f"Comparison {name}: gains in every score", rows, note)


def gain_interval(gain: Mapping[str, Any]) -> str:
    """A gain and its interval, x 100.

    >>> gain_interval({"mean": 0.01, "low": -0.005, "high": 0.025})
    '+1.00 (-0.50 to +2.50)'
    """
    low, mean, high = (100 * gain[key] for key in ("low", "mean", "high"))
    return f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"


def runs_table(found: RunSet) -> Table:
    """A row per setting: scores before and after as mean, sd and n over its seeds, verdicts."""
    rows = [_runs_row(group, runs) for group, runs in found.groups().items()]
    protocols = dict.fromkeys(
        named.run.results["verdict"]["protocol"] for named in found.runs if named.run.results
    )
    note = "; ".join(protocols)
    if note:
        note = f"x 100, mean ± standard deviation over n seeds. Measured by: {note}."
    return Table("runs", "Runs: before and after", rows, note)


def _finished(runs: Sequence[Run]) -> list[dict[str, Any]]:
    return [results for run in runs if (results := run.results) is not None]


def _runs_row(group: str, runs: Sequence[Run]) -> dict[str, str]:
    config, finished = runs[0].config, _finished(runs)
    row = {"objective": group, "model": config.model}
    if finished:
        row["n"] = str(len(finished))
        row["kept"] = _kept(finished)
        scores = {state: _pair_scores(finished, state) for state in ("start", "result")}
        row |= {f"MRR {state}": mean_sd(values) for state, values in scores.items()}
        gains = np.subtract(scores["result"], scores["start"])
        row["gain"] = f"{gains.mean():+.2f}"
        for state in ("start", "result"):
            averages = [row["Avg"] for row in _sts_rows(finished, state) if "Avg" in row]
            if averages:
                row[f"STS {state}"] = mean_sd(averages)
    verdicts = [results["verdict"]["kind"] for results in finished]
    verdicts += ["unfinished"] * (len(runs) - len(finished))
    counts = Counter(verdicts)
    row["verdict"] = ", ".join(f"{n} {v}" if len(verdicts) > 1 else v for v, n in counts.items())
    return row


def _kept(finished: Sequence[Mapping[str, Any]]) -> str:
    """The rule that chose the checkpoints, and their steps; label use is said."""
    labels = finished[0]["result"]["labels"]
    rule = f"dev-selected on {labels}" if labels else finished[0]["choice"]["rule"]
    steps = ", ".join(str(results["choice"]["step"]) for results in finished)
    return f"{rule}, step {steps}"


def _pair_scores(finished: Sequence[Mapping[str, Any]], state: str) -> list[float]:
    return [100 * results[state]["scores"]["pairs"]["mrr"] for results in finished]


def _sts_rows(finished: Sequence[Mapping[str, Any]], state: str) -> list[dict[str, float]]:
    """The papers' row of each run that has STS scores; columns without a score are left out."""
    scored = [results[state]["scores"]["sts"] for results in finished]
    rows = [sts["paper_row"] for sts in scored if sts]
    return [{k: v for k, v in row.items() if v is not None} for row in rows]


def papers_table(found: RunSet) -> Table | None:
    """The papers' table: our rows, then the published ones; `None` without STS scores."""
    groups = {
        group: runs for group, runs in found.groups().items() if _sts_rows(_finished(runs), "start")
    }
    if not groups:
        return None
    starts: dict[str, dict[str, str]] = {}
    ours = []
    for group, runs in groups.items():
        finished = _finished(runs)
        encoder = f"{runs[0].config.model}, {finished[0]['pooling']}"
        starts.setdefault(encoder, _our_row("start", encoder, finished[:1], "start"))
        ours.append(_our_row(group, encoder, finished, "result"))
    kinds = {type(runs[0].config.objective) for runs in groups.values()}
    models = {runs[0].config.model for runs in groups.values()}
    note = (
        "Spearman x 100: 'all' for STS12-16, test for STS-B and SICK-R. Rows marked published are "
        "quoted from the papers, never ours; other starts are another comparison. Alignment and "
        "uniformity are ours alone, on held-out sentences of the corpus (two dropout views)."
    )
    rows = [*starts.values(), *ours, *_published(kinds, models)]
    return Table("sts", "STS, in the papers' columns", rows, note)


def _our_row(
    name: str, encoder: str, finished: Sequence[Mapping[str, Any]], state: str
) -> dict[str, str]:
    labels = finished[0]["result"]["labels"] if state == "result" else None
    row = {"": name, "n": str(len(finished))}
    scores = _sts_rows(finished, state)
    for column in STS_COLUMNS:
        values = [score[column] for score in scores if column in score]
        row[column] = mean_sd(values) if values else ""
    for name in ("alignment", "uniformity"):
        row[name] = mean_sd([_look(results, state)[name] for results in finished], 3)
    source = f"ours, dev-selected on {labels}" if labels else "ours"
    return {**row, "start": encoder, "source": source}


def _look(results: Mapping[str, Any], state: str) -> dict[str, float]:
    step = results["choice"]["step"] if state == "result" else 0
    look: dict[str, float] = next(look for look in results["looks"] if look["step"] == step)
    return look


def _published(kinds: set[type], models: set[str]) -> list[dict[str, str]]:
    """Full published rows of these objectives, those of our own starts first."""
    quoted = [
        (name, recipe)
        for name, recipe in RECIPES.items()
        if type(recipe.config.objective) in kinds and set(STS_COLUMNS) <= recipe.published.keys()
    ]
    quoted.sort(key=lambda row: row[1].config.model not in models)
    return [
        {
            "": f"{name}, {_PUBLISHED}",
            "source": f"{_PUBLISHED if recipe.config.model in models else _OTHER}: {recipe.table}",
            "start": f"{recipe.config.model}, {recipe.config.pooling}",
            **{column: f"{recipe.published[column]:.2f}" for column in STS_COLUMNS},
        }
        for name, recipe in quoted
    ]


def is_published(row: Mapping[str, str]) -> bool:
    """Whether a row of the papers' table is quoted."""
    return row.get("source", "").startswith(_PUBLISHED)
