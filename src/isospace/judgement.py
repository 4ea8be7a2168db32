"""What the finished runs of a comparison say together: scores, gains over a start, a verdict."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isospace.errors import UserError
from isospace.evaluation.seeds import Decision, Gain, Gains, decide, holm, welch
from isospace.evaluation.sts import PAPER_PROTOCOL
from isospace.run import Run
from isospace.selection import LABELS, LAST, PAIRS

Items = Mapping[str, np.ndarray]
"""Column -> what each test item came to, as `Run.items` has them."""


@dataclass(frozen=True)
class Comparison:
    """What a finished comparison found.

    Attributes:
        folder: its folder; results.json holds all of this, report.html shows it.
        measure: what the verdict is about: the pairs' "MRR" or the STS "Avg".
        protocol: how "MRR" (and R@k) and "STS" were scored and the "checkpoints" chosen.
        settings: row -> the settings that its runs share.
        scores: row -> column -> score of each seed, x 100; starts have one value each. "start" is
            what the first row's runs began with, "start of NAME" another start.
        gains: row -> column -> gain over "start".
        versus_best: row -> Holm's p of Welch's test over seeds against the row with the best mean.
        decision: the verdict.
    """

    folder: Path
    measure: str
    protocol: dict[str, str]
    settings: dict[str, dict[str, Any]]
    scores: dict[str, dict[str, list[float]]]
    gains: dict[str, dict[str, Gain]]
    versus_best: dict[str, float]
    decision: Decision

    def to_json(self) -> dict[str, Any]:
        """Everything, with sd and n."""
        return {
            "measure": self.measure,
            "protocol": self.protocol,
            "settings": self.settings,
            "scores": self.scores,
            "gains": {
                name: {column: gain.to_json() for column, gain in columns.items()}
                for name, columns in self.gains.items()
            },
            "holm_p": self.decision.adjusted,
            "holm_p_against_best": self.versus_best,
            "verdict": {"verdict": self.decision.verdict, "text": self.decision.text},
        }


def judge_runs(runs: Mapping[str, Sequence[Run]], folder: Path, measure: str) -> Comparison:
    """Compare finished runs with the start of the first of them, and with each other.

    Runs from another encoder or with another pooling are compared with that start as well: it is a
    row of its own, that can be what the verdict advises, and they have to gain over it too.

    Args:
        runs: name -> runs that differ in their seed alone.
        folder: of the comparison.
        measure: "MRR" or "Avg".

    Raises:
        UserError: the runs were not trained on one text and examined on the same items, or the
            measure needs sets that were not scored.
    """
    _require_one_exam([run for mine in runs.values() for run in mine])
    first = next(iter(runs.values()))[0]
    before, gold = first.items("before"), first.items("gold")
    scores = {"start": _columns([_scores(first, "start")])}
    columns = [column for column in [*before, "Avg"] if column in scores["start"]]
    if measure not in columns:
        raise UserError(f"{first.folder}: no {measure}: not all seven STS sets were scored")
    starts = {_start(first): "start"}
    items: dict[str, list[Items]] = {}
    criterion: dict[str, float] = {}
    over_own: dict[str, Gain] = {}
    for name, mine in runs.items():
        own = starts.setdefault(_start(mine[0]), f"start of {name}")
        if own not in scores:
            scores[own] = _columns([_scores(mine[0], "start")])
            items[own] = [mine[0].items("before")]
            criterion[own] = _criterion(mine[0], step=0)
        scores[name] = _columns([_scores(run, "result") for run in mine])
        items[name] = [run.items("after") for run in mine]
        criterion[name] = float(np.mean([_criterion(run) for run in mine]))
        if own != "start":
            over_own[name] = _gains(items[own][0], items[name], gold, [measure])[measure]
    gains = {name: _gains(before, after, gold, columns) for name, after in items.items()}
    protocol = _protocol(first)
    decision = decide(
        {name: found[measure] for name, found in gains.items()},
        criterion,
        _in_words(measure, protocol),
        _criterion_in_words(first, protocol),
        over_own,
        unadapted=starts.values(),
    )
    best = max(runs, key=lambda name: float(np.mean(scores[name][measure])))
    versus = {name: welch(scores[name][measure], scores[best][measure]) for name in runs}
    return Comparison(
        folder,
        measure,
        protocol,
        {name: _settings(mine[0]) for name, mine in runs.items()},
        scores,
        gains,
        holm({name: p for name, p in versus.items() if p is not None and name != best}),
        decision,
    )


def _require_one_exam(runs: Collection[Run]) -> None:
    """Scores of other text, or of other test items, cannot be subtracted one by one."""
    by_exam: dict[tuple[str, str], Run] = {}
    for run in runs:
        results = run.results or {}
        by_exam.setdefault((results["corpus"]["digest"], results.get("exam", "")), run)
    if len(by_exam) > 1:
        one, other = list(by_exam.values())[:2]
        raise UserError(
            f"{one.folder} and {other.folder}: not trained and examined on the same text; it has "
            "changed since the comparison began. Remove the runs on the old text, or give another "
            "--output"
        )


def _start(run: Run) -> tuple[str, str | None]:
    return run.config.model, run.config.pooling


def _settings(run: Run) -> dict[str, Any]:
    settings = run.config.to_dict()
    return {name: value for name, value in settings.items() if name not in ("seed", "output")}


def _scores(run: Run, state: str) -> dict[str, float]:
    """One state's scores, x 100: MRR, recall, and the papers' row where there is data."""
    found = (run.results or {})[state]["scores"]
    scores = {"MRR": 100 * found["pairs"]["mrr"], "R@1": 100 * found["pairs"]["recall@1"]}
    if found["sts"] is not None:
        scores |= {k: v for k, v in found["sts"]["paper_row"].items() if v is not None}
    return scores


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    return {column: [row[column] for row in rows] for column in rows[0]}


def _protocol(run: Run) -> dict[str, str]:
    results = run.results or {}
    found, choice = results["result"], results["choice"]
    chosen = f"labels: {found['labels']}" if found["labels"] else choice["rule"]
    return {
        "MRR": results["verdict"]["protocol"],
        **({"STS": PAPER_PROTOCOL} if found["scores"]["sts"] else {}),
        "checkpoints": chosen,
    }


def _in_words(measure: str, protocol: Mapping[str, str]) -> str:
    words = protocol["MRR"] if measure == "MRR" else "STS average"
    labels = protocol["checkpoints"].removeprefix("labels: ")
    return words if labels == protocol["checkpoints"] else f"{words}, dev-selected on {labels}"


def _criterion(run: Run, step: int | None = None) -> float:
    """What chose the checkpoint, of the one that was kept or of `step`; never a test score.

    Where the last one was kept and nothing chose, the MRR of held-out pairs.
    """
    results = run.results or {}
    choice = results["choice"]
    key = PAIRS if choice["criterion"] == LAST else choice["criterion"]
    wanted = choice["step"] if step is None else step
    return float(next(look for look in results["looks"] if look["step"] == wanted)[key])


def _criterion_in_words(run: Run, protocol: Mapping[str, str]) -> str:
    if (run.results or {})["choice"]["criterion"] == LABELS:
        return f"Spearman on {protocol['checkpoints'].removeprefix('labels: ')}"
    return "MRR of other held-out pairs"


def _gains(
    before: Items, after: Sequence[Items], gold: Items, columns: Sequence[str]
) -> dict[str, Gain]:
    """The gain in each of the columns; the STS average from those of the sets."""
    parts: dict[str, Gains] = {}
    for seed, (column, start) in enumerate(before.items()):
        if column not in columns and not (column in gold and "Avg" in columns):
            continue
        values = np.stack([found[column] for found in after])
        if column in gold:
            parts[column] = Gains.of_spearman(start, values, gold[column], seed)
        else:
            parts[column] = Gains.of_means(start, values, seed)
    if "Avg" in columns:
        parts["Avg"] = Gains.average([parts[column] for column in gold])
    return {column: parts[column].test() for column in columns}
