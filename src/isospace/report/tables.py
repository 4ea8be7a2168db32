"""Tables of runs: scores before and after, retrieval, other text, and the papers' columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np

from isospace.config import objective_name
from isospace.evaluation.hybrid import NO_SHARED
from isospace.evaluation.other_text import PROTOCOL
from isospace.evaluation.scores import (
    BASE,
    GAIN,
    SAME_PAIRS,
    BenchmarkScores,
    PairScores,
    points_of,
)
from isospace.recipes import RECIPES, STS_COLUMNS, TRANSFER_COLUMNS, Recipe
from isospace.report.run_set import RunSet
from isospace.system.tables import Table
from isospace.training.results import RunResults
from isospace.training.run import Run

_PUBLISHED = "published"
_QUOTED = (
    "Rows marked published are quoted from the papers, never ours. They are of the same model and "
    "pooling."
)

MEAN_SD = "mean ± standard deviation of the seeds"
"""Meaning of ± in every table."""


def mean_sd(values: Sequence[float], sign: Literal["", "+"] = "") -> str:
    """Format a mean and, for several values, their standard deviation (divisor n - 1).

    >>> mean_sd([1.0, 2.0]), mean_sd([1.0], sign="+")
    ('1.50 ± 0.71', '+1.00')
    """
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):{sign}.2f}{spread}"


def in_hundredths(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the scale of the cells for a note, with the meaning of ± if a cell has it."""
    spread = any("±" in cell for row in rows for cell in row.values())
    return f"x 100, {MEAN_SD}, where they differ" if spread else "x 100"


def mean_sd_of_different(values: Sequence[float]) -> str:
    """Return `mean_sd`, or a single number if all values are equal."""
    return mean_sd(values if np.ptp(values) > 0 else values[:1])


def finished(runs: Sequence[Run]) -> list[RunResults]:
    """Return the results of the finished runs."""
    return [results for run in runs if (results := run.results) is not None]


def not_shipped(done: Sequence[RunResults]) -> str:
    """Return a text to append to "adapted" if not all runs ship their result."""
    count = sum(not results.not_shipped for results in done)
    if count == len(done):
        return ""
    return f" (shipped by {count} of {len(done)})" if count else done[0].not_shipped


State = Literal["base model", "adapted"]
STATES: tuple[State, ...] = ("base model", "adapted")


def sts_rows(done: Sequence[RunResults], state: State) -> list[dict[str, float]]:
    """Return the papers' row of each run with STS scores, without empty columns."""
    return [sts.known() for one in done if (sts := scores_of(one, state).sts) is not None]


def scores_of(results: RunResults, state: State) -> BenchmarkScores:
    """Return the scores of one state of a run."""
    return results.base if state == "base model" else results.adapted


def runs_table(run_set: RunSet) -> Table:
    """Return a table with a row for each setting: scores over its seeds, and verdicts."""
    done = finished([named.run for named in run_set.runs])
    rows = [_runs_row(group, runs) for group, runs in run_set.groups().items()]
    protocols = dict.fromkeys(results.verdict.protocol for results in done)
    note = "; ".join(protocols)
    if note:
        note = (
            f"x 100, {MEAN_SD}, n of them, where they differ. A gain is the difference of the "
            f"unrounded means, a gain in MRR that of the verdict{_same_pairs(done)}. "
            f"Cost: time and peak memory of the longest run. Measured by: {note}."
        )
    return Table("runs", "Runs: before and after", rows, note)


def _same_pairs(done: Sequence[RunResults]) -> str:
    """Return a remark if the same pairs selected and tested; else an empty text."""
    return "" if all(results.split for results in done) else f"; {SAME_PAIRS}"


def _runs_row(group: str, runs: Sequence[Run]) -> dict[str, str]:
    config, done = runs[0].config, finished(runs)
    verdicts = [results.verdict.kind.value for results in done]
    verdicts += ["unfinished"] * (len(runs) - len(done))
    counts = Counter(verdicts)
    verdict = ", ".join(f"{n} {v}" if len(verdicts) > 1 else v for v, n in counts.items())
    row = {"run": group + (not_shipped(done) if done else ""), "verdict": verdict}
    if done:
        mrr = {
            state: [100 * scores_of(results, state).pairs.mrr for results in done]
            for state in STATES
        }
        row["gain in MRR"] = f"{100 * fmean(map(_gain_in_mrr, done)):+.2f}"
        row |= {f"MRR {state}": mean_sd_of_different(values) for state, values in mrr.items()}
        sts = {
            state: [row["Avg"] for row in sts_rows(done, state) if "Avg" in row] for state in STATES
        }
        if all(sts.values()):
            row["gain in STS"] = f"{fmean(sts['adapted']) - fmean(sts['base model']):+.2f}"
            row |= {f"STS {state}": mean_sd_of_different(values) for state, values in sts.items()}
        row["kept"] = _kept(done)
        row["n"] = str(len(done))
        row["cost"] = max(done, key=lambda results: results.training.seconds).training.cost
    return row | {"objective": objective_name(config.objective), "model": Path(config.model).name}


def _gain_in_mrr(results: RunResults) -> float:
    """Return the gain of the result, without selection bias if the test pairs selected it."""
    gain = results.verdict.gain
    # If the base model was kept, the gain belongs to the best of the other candidates.
    if gain is None or results.adapted.pairs == results.base.pairs:
        return results.adapted.pairs.mrr - results.base.pairs.mrr
    return gain.mean


def _kept(done: Sequence[RunResults]) -> str:
    """Return what was selected and by which rule, including the use of labels."""
    words = [
        results.candidate or (f"step {step}" if (step := results.training.choice.step) else BASE)
        for results in done
    ]
    return f"{', '.join(words)} ({done[0].selected_by})"


def retrieval_table(run_set: RunSet) -> Table | None:
    """Return a table with all retrieval measures of the test pairs, before and after.

    BM25 and hybrid search have rows too. The result is `None` if no run is finished.
    """
    done = finished([named.run for named in run_set.runs])
    if not done:
        return None
    weights = {f"{one.base.with_bm25.weight:g}" for one in done}
    rows = [
        {"run": group} | row
        for group, runs in run_set.groups().items()
        for row in _state_rows(finished(runs))
    ]
    note = (
        f"{in_hundredths(rows)}. + BM25: cosine and BM25 fused, weight "
        f"{', '.join(sorted(weights))}. {NO_SHARED}: each right text without the words of its "
        "query, all others as they are."
    )
    if any(GAIN in row for row in rows):
        note += f" {GAIN}: of single runs, with 95 % intervals{_same_pairs(done)}."
    return Table("retrieval", "Retrieval of test pairs: before and after, with BM25", rows, note)


def _state_rows(done: Sequence[RunResults]) -> list[dict[str, str]]:
    """Return rows for both states of the runs of one setting, for BM25, and for hybrid search."""
    if not done:
        return []
    found: dict[str, list[PairScores]] = {}
    after = f"adapted{not_shipped(done)}"
    for results in done:
        for name, scores in ((BASE, results.base), (after, results.adapted)):
            found.setdefault(name, []).append(scores.pairs)
            found.setdefault("BM25", []).append(scores.with_bm25.bm25)
            found.setdefault(f"{name} + BM25", []).append(scores.with_bm25.hybrid)
    gains = done[0].over_base(after) if len(done) == 1 else {}
    rows = {name: _row(seeds) for name, seeds in found.items()}
    # Gains come directly after the MRR, so that they are visible without scrolling.
    return [
        {"state": name, "MRR": row["MRR"]} | ({GAIN: points_of(gains, name)} if gains else {}) | row
        for name, row in rows.items()
    ]


def _row(seeds: Sequence[PairScores]) -> dict[str, str]:
    return {
        column: mean_sd_of_different([100 * one.values[column] for one in seeds])
        for column in seeds[0].values
        if all(column in one.values for one in seeds)
    }


def other_text_table(run_set: RunSet) -> Table | None:
    """Return a table with scores on other text before and after; `None` if none was measured."""
    rows = []
    for group, runs in run_set.groups().items():
        done = [results.other_text for results in finished(runs) if results.other_text]
        for column in done[0] if done else ():
            found = [sets[column] for sets in done if column in sets]
            gains = [one.gain for one in found]
            rows.append(
                {
                    "run": group + not_shipped(finished(runs)),
                    "other text": column,
                    "gain": gains[0].points
                    if len(gains) == 1
                    else mean_sd([100 * one.mean for one in gains], sign="+"),
                    BASE: mean_sd_of_different([100 * one.base for one in found]),
                    "adapted": mean_sd_of_different([100 * one.adapted for one in found]),
                }
            )
    if not rows:
        return None
    note = f"{in_hundredths(rows)}; in brackets 95 % intervals of single runs. {PROTOCOL}."
    return Table("other-text", "Other text: before and after", rows, note)


def papers_table(run_set: RunSet) -> Table | None:
    """Return the papers' table of STS scores; `None` if there are no scores."""
    groups = {
        group: runs
        for group, runs in run_set.groups().items()
        if sts_rows(finished(runs), "base model")
    }
    if not groups:
        return None
    bases: dict[tuple[str, str], dict[str, str]] = {}
    ours = []
    for group, runs in groups.items():
        done, encoder = finished(runs), _encoder(runs)
        bases.setdefault(encoder, _our_row(BASE, encoder, done[:1], "base model"))
        ours.append(_our_row(group + not_shipped(done), encoder, done, "adapted"))
    note = f"Spearman x 100, {MEAN_SD}: 'all' for STS12-16, test for STS-B and SICK-R. {_QUOTED}"
    if any(_ours("stsb-dev") == row["source"] for row in ours):
        note += (
            " STS-B dev was drawn from the same sets: 1,131 of its 1,500 pairs are test pairs of "
            "STS12-16. It selected the checkpoints of rows that say so."
        )
    published = _published(groups.values(), STS_COLUMNS, lambda recipe: recipe.published)
    return Table("sts", "STS, in the papers' columns", [*bases.values(), *ours, *published], note)


def transfer_table(run_set: RunSet) -> Table | None:
    """Return the papers' table of transfer tasks, or `None` if `evaluate` scored no run.

    The scores are those of the shipped model. If that is the base model, the name of the row says
    so.
    """
    groups = {
        f"base model, kept by {group}" if ships_base else group: scored
        for group, runs in run_set.groups().items()
        for ships_base in (False, True)
        if (
            scored := [
                run
                for run in runs
                if run.results and run.transfer and run.results.ships_base == ships_base
            ]
        )
    }
    if not groups:
        return None
    ours, protocols = [], []
    for group, runs in groups.items():
        scores = [run.transfer for run in runs]
        protocols += [score["row_protocol"] for score in scores]
        row = _means(group, TRANSFER_COLUMNS, [score["row"] for score in scores])
        results = runs[0].finished
        labels = None if results.ships_base else results.labels
        ours.append(row | {"base model": ", ".join(_encoder(runs)), "source": _ours(labels)})
    note = f"x 100, {MEAN_SD}. Ours by: {'; '.join(dict.fromkeys(protocols))}. {_QUOTED}"
    published = _published(
        groups.values(), TRANSFER_COLUMNS, lambda recipe: recipe.published_transfer
    )
    return Table("transfer", "Transfer tasks, in the papers' columns", [*ours, *published], note)


def is_published(row: Mapping[str, str]) -> bool:
    """Return true if a row of the papers' tables is quoted from a paper."""
    return row.get("source", "").startswith(_PUBLISHED)


def _encoder(runs: Sequence[Run]) -> tuple[str, str]:
    """Return base model and pooling."""
    return runs[0].config.model, finished(runs)[0].training.pooling


def _ours(labels: str | None) -> str:
    return f"ours, dev-selected on {labels}" if labels else "ours"


def _means(
    name: str, columns: Sequence[str], scores: Sequence[Mapping[str, float | None]]
) -> dict[str, str]:
    row = {"": name, "n": str(len(scores))}
    for column in columns:
        values = [value for score in scores if (value := score.get(column)) is not None]
        row[column] = mean_sd(values) if values else ""
    return row


def _our_row(
    name: str, encoder: tuple[str, str], done: Sequence[RunResults], state: State
) -> dict[str, str]:
    row = _means(name, STS_COLUMNS, sts_rows(done, state)) | {"n": str(len(done))}
    labels = done[0].labels if state == "adapted" else None
    return row | {"base model": ", ".join(encoder), "source": _ours(labels)}


def _published(
    groups: Collection[Sequence[Run]],
    columns: Sequence[str],
    scores: Callable[[Recipe], Mapping[str, float]],
) -> list[dict[str, str]]:
    """Return the published rows of the runs' objectives, models and poolings with all columns."""
    kinds = {type(runs[0].config.objective) for runs in groups}
    encoders = {(Path(model).name, pooling) for model, pooling in map(_encoder, groups)}
    return [
        {
            "": f"{name}, {_PUBLISHED}",
            "source": f"{_PUBLISHED}: {recipe.table}",
            "base model": f"{recipe.config.model}, {recipe.config.pooling}",
            **{column: f"{scores(recipe)[column]:.2f}" for column in columns},
        }
        for name, recipe in RECIPES.items()
        if type(recipe.config.objective) in kinds
        and (Path(recipe.config.model).name, recipe.config.pooling) in encoders
        and set(columns) <= scores(recipe).keys()
    ]
