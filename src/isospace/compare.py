"""Several objectives by several seeds on one corpus: which one gains, and would it again?

One run folder per cell, `FOLDER/NAME/seed-S`, each with the same corpus, start and budget. A
comparison that was stopped goes on where it was: finished cells are read, a broken one is resumed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from isospace.cells import Cell, run_cells
from isospace.config import TrainConfig
from isospace.errors import UserError
from isospace.evaluation.seeds import Decision, Gain, Gains, decide, welch
from isospace.exam import sts_data
from isospace.files import write_text
from isospace.objectives import OBJECTIVES
from isospace.report.run_set import collect
from isospace.report.write import write_report
from isospace.run import Run
from isospace.selection import CRITERIA

Measure = Literal["pairs", "sts"]
_CONFIG_KEYS = ("learning_rate", "dropout", "batch_size", "model", "pooling")
"""Settings of a run that a contestant may change beside its objective's; never the budget."""
_COMMA = re.compile(r",(?![^\[]*\])")
"""Between two settings, not inside a list."""


def contestant(text: str, base: TrainConfig) -> TrainConfig:
    """The settings of one contestant, written NAME or NAME:FIELD=VALUE,FIELD=VALUE.

    Args:
        text: NAME is an objective; a FIELD is one of its options, or learning_rate, dropout,
            batch_size, model or pooling.
        base: everything else.

    Raises:
        UserError: an unknown name or field, or a value that the field cannot have.
    """
    name, _, rest = text.partition(":")
    if name not in OBJECTIVES:
        raise UserError(f"{text}: no objective {name!r}; expected one of {', '.join(OBJECTIVES)}")
    own = {field.name for field in fields(OBJECTIVES[name])}
    settings: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for part in filter(None, _COMMA.split(rest)):
        key, equals, value = part.partition("=")
        if not equals or key not in own | set(_CONFIG_KEYS):
            known = ", ".join(sorted(own | set(_CONFIG_KEYS)))
            raise UserError(f"{text}: {part!r} is not FIELD=VALUE with one of the fields {known}")
        (settings if key in own else changes)[key] = _parse(value)
    try:
        objective = OBJECTIVES[name].from_json(settings)
        return replace(base, objective=objective, **changes)
    except (ValueError, TypeError) as error:
        raise UserError(f"{text}: {error}") from error


def _parse(value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


@dataclass(frozen=True)
class Comparison:
    """What a finished comparison found.

    Attributes:
        folder: its folder; results.json holds all of this, report.html shows it.
        measure: what the verdict is about: the pairs' "MRR" or the STS "Avg".
        scores: row -> column -> score of each seed, x 100; the row "start" has one value each.
        gains: row -> column -> gain over the start.
        versus_best: row -> p of Welch's test over seeds against the row with the best mean.
        decision: the verdict.
    """

    folder: Path
    measure: str
    scores: dict[str, dict[str, list[float]]]
    gains: dict[str, dict[str, Gain]]
    versus_best: dict[str, float | None]
    decision: Decision

    def to_json(self) -> dict[str, Any]:
        """Everything, with sd and n."""
        return {
            "measure": self.measure,
            "scores": self.scores,
            "gains": {
                name: {column: gain.to_json() for column, gain in columns.items()}
                for name, columns in self.gains.items()
            },
            "welch_p_against_best": self.versus_best,
            "holm_p": self.decision.adjusted,
            "verdict": {"verdict": self.decision.verdict, "text": self.decision.text},
        }


def compare(
    contestants: Mapping[str, TrainConfig],
    seeds: int,
    folder: Path,
    measure: Measure = "pairs",
    jobs: int = 1,
    quiet: bool = False,
) -> Comparison | None:
    """Run what is missing and compare; `None` in other processes than the first.

    Args:
        contestants: name -> settings; seeds count up from each one's own. The encoder that the
            first one starts from is the start that all are compared with.
        seeds: runs per contestant.
        folder: of the comparison; made, or gone on with.
        measure: what the verdict is about: the pairs of the runs, or the average of the STS sets.
        jobs: runs at a time, each a process of its own if more than one.
        quiet: show no progress.

    Raises:
        UserError: bad input, or a folder that holds other settings.
        train.Stopped: a cell was stopped or diverged; the comparison can be gone on with.
    """
    if min(seeds, jobs) < 1 or not contestants:
        raise UserError(
            f"nothing to compare: {len(contestants)} contestants, {seeds} seeds, {jobs} at a time"
        )
    if measure == "sts" and not all(sts_data(config.data) for config in contestants.values()):
        raise UserError("--verdict-on sts: give the STS sets (--data FOLDER, or ISOSPACE_DATA)")
    if any("-" in config.text.corpus for config in contestants.values()):
        raise UserError(
            "--corpus -: every run reads the text, but standard input ends; give a file"
        )
    cells = [
        _cell(folder, name, replace(config, seed=config.seed + number))
        for number in range(seeds)
        for name, config in contestants.items()
    ]
    if not run_cells(cells, jobs, quiet):
        return None
    runs = {name: [Run(cell.folder) for cell in cells if cell.name == name] for name in contestants}
    comparison = _judge(runs, folder, "Avg" if measure == "sts" else "MRR")
    write_text(folder / "results.json", json.dumps(comparison.to_json(), indent=2) + "\n")
    write_report(collect([folder]))
    return comparison


def _cell(folder: Path, name: str, config: TrainConfig) -> Cell:
    slug = "".join(c if c.isalnum() or c in "+-._=" else "_" for c in name)
    return Cell(name, replace(config, output=folder / slug / f"seed-{config.seed}"))


def _scores(run: Run, state: str) -> dict[str, float]:
    """One state's scores, x 100: MRR, recall, and the papers' row where there is data."""
    found = (run.results or {})[state]["scores"]
    scores = {"MRR": 100 * found["pairs"]["mrr"], "R@1": 100 * found["pairs"]["recall@1"]}
    if found["sts"] is not None:
        scores |= {k: v for k, v in found["sts"]["paper_row"].items() if v is not None}
    return scores


def _judge(runs: Mapping[str, Sequence[Run]], folder: Path, measure: str) -> Comparison:
    some = next(iter(runs.values()))[0]
    before, gold = some.items("before"), some.items("gold")
    scores = {"start": {column: [value] for column, value in _scores(some, "start").items()}}
    gains: dict[str, dict[str, Gain]] = {}
    criterion = {}
    for name, mine in runs.items():
        if (
            mine[0].config.model != some.config.model
            or mine[0].config.pooling != some.config.pooling
        ):
            own = _scores(mine[0], "start")
            scores[f"start of {name}"] = {column: [value] for column, value in own.items()}
        results = [_scores(run, "result") for run in mine]
        scores[name] = {column: [row[column] for row in results] for column in results[0]}
        gains[name] = _gains(before, [run.items("after") for run in mine], gold)
        criterion[name] = float(np.mean([_criterion(run) for run in mine]))
    protocol = (some.results or {})["verdict"]["protocol"] if measure == "MRR" else "STS average"
    decision = decide({n: columns[measure] for n, columns in gains.items()}, criterion, protocol)
    best = max(runs, key=lambda name: float(np.mean(scores[name][measure])))
    versus = {
        name: welch(scores[name][measure], scores[best][measure]) for name in runs if name != best
    }
    return Comparison(folder, measure, scores, gains, versus, decision)


def _criterion(run: Run) -> float:
    """What chose the checkpoint that was kept; never a score of the test items."""
    results = run.results or {}
    choice = results["choice"]
    key = CRITERIA["label-free"] if choice["rule"] == "last" else choice["criterion"]
    kept = next(look for look in results["looks"] if look["step"] == choice["step"])
    return float(kept[key])


def _gains(
    before: Mapping[str, np.ndarray],
    after: Sequence[Mapping[str, np.ndarray]],
    gold: Mapping[str, np.ndarray],
) -> dict[str, Gain]:
    """The gain in every column; the STS average from those of the sets."""
    parts: dict[str, Gains] = {}
    for seed, (column, start) in enumerate(before.items()):
        values = np.stack([found[column] for found in after])
        if column in gold:
            parts[column] = Gains.of_spearman(start, values, gold[column], seed)
        else:
            parts[column] = Gains.of_means(start, values, seed)
    if gold:
        parts["Avg"] = Gains.average([parts[column] for column in gold])
    return {column: part.test() for column, part in parts.items()}
