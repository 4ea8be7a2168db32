"""What the finished runs of a comparison say together: scores, gains over a start, a verdict."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from isospace.comparison.shared_items import Items, SharedItems
from isospace.errors import UserError
from isospace.evaluation.sts import PAPER_PROTOCOL
from isospace.statistics.decision import Decision, against_best, decide, holm
from isospace.statistics.gains import Gain
from isospace.training.run import Run
from isospace.training.selection import LABELS, LAST, PAIRS

FORMAT = 3
"""Version of a comparison's results.json; raised when a reader must know."""


@dataclass(frozen=True)
class Comparison:
    """What a finished comparison found.

    Attributes:
        folder: its folder; results.json holds all of this, report.html shows it.
        measure: the column that the verdict is about: "MRR" of the pairs, or the STS "Avg"; where
            labels chose the checkpoints "Avg unseen", without the test pairs that the labels have.
        protocol: how "MRR" (and R@k) and "STS" were scored, the "checkpoints" chosen, and which
            pairs are "unseen".
        settings: row -> the settings that its runs share.
        scores: row -> column -> score of each seed, x 100; starts have one value each. "start" is
            what the first row's runs began with, "start of NAME" another start.
        gains: row -> column -> gain over "start".
        adjusted: row -> column -> Holm's p of that gain, over all rows.
        versus_best: row -> column -> Holm's p of Welch's test against the row with the best mean.
        runs: row -> the folders of its runs, in `folder`.
        decision: the verdict.
        model: where the encoder that it advises is, if any.
    """

    folder: Path
    measure: str
    protocol: dict[str, str]
    settings: dict[str, dict[str, Any]]
    scores: dict[str, dict[str, list[float]]]
    gains: dict[str, dict[str, Gain]]
    adjusted: dict[str, dict[str, float]]
    versus_best: dict[str, dict[str, float]]
    runs: dict[str, list[str]]
    decision: Decision
    model: str | None

    def to_json(self) -> dict[str, Any]:
        """Everything, with sd and n."""
        return {
            "format": FORMAT,
            "measure": self.measure,
            "protocol": self.protocol,
            "settings": self.settings,
            "runs": self.runs,
            "scores": {
                name: {column: _summary(seeds) for column, seeds in columns.items()}
                for name, columns in self.scores.items()
            },
            "gains": {
                name: {
                    column: {
                        **gain.to_json(),
                        "holm_p": self.adjusted[name][column],
                        "holm_p_against_best": self.versus_best.get(name, {}).get(column),
                    }
                    for column, gain in columns.items()
                }
                for name, columns in self.gains.items()
            },
            "verdict": {
                "verdict": self.decision.verdict,
                "text": self.decision.text,
                "model": self.model,
            },
        }


def _summary(seeds: Sequence[float]) -> dict[str, Any]:
    sd = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None
    return {"mean": float(np.mean(seeds)), "sd": sd, "n": len(seeds), "seeds": list(seeds)}


def judge_runs(
    runs: Mapping[str, Sequence[Run]], folder: Path, measure: Literal["MRR", "Avg"]
) -> Comparison:
    """Compare finished runs with the start of the first of them, and with each other.

    Runs from another encoder or with another pooling are compared with that start as well: it is a
    row of its own, that can be what the verdict advises, and they have to gain over it too. Test
    pairs that stand among the labels which chose the checkpoints are left out of the gains.

    Args:
        runs: name -> runs that differ in their seed alone.
        folder: of the comparison.
        measure: what the verdict is about.

    Raises:
        UserError: the runs were not trained on one text and scored on the same items, or the
            measure needs sets that were not scored, or of which the labels leave nothing.
    """
    _require_one_benchmark([run for mine in runs.values() for run in mine])
    first = next(iter(runs.values()))[0]
    shared = SharedItems.of(first)
    judged = shared.shown(measure)
    if judged is None or measure not in _scores(first, "start"):
        raise UserError(f"{first.folder}: no {measure}: {shared.why_incomplete}")
    rows = _Rows.of(runs, shared)
    sampled = shared.sample(rows.items)
    exact = {
        name: {column: list(map(float, 100 * s.by_seed)) for column, s in columns.items()}
        for name, columns in sampled.items()
    }
    gains = {
        name: {column: s.over(sampled["start"][column]).test() for column, s in columns.items()}
        for name, columns in sampled.items()
        if name != "start"
    }
    over_own = {
        name: sampled[name][judged].over(sampled[start][judged]).test()
        for name, start in rows.starts.items()
        if start != "start"
    }
    protocol = _protocol(first) | shared.protocol
    decision = decide(
        {name: columns[judged] for name, columns in gains.items()},
        rows.criterion,
        _in_words(measure, protocol),
        _criterion_in_words(first, protocol),
        over_own,
        unadapted=rows.starts.values(),
        start_kept=not any(_adapted(run) for mine in runs.values() for run in mine),
    )
    decision, model = _advised(decision, runs)
    tested = list(sampled["start"])
    adjusted = {c: holm({name: found[c].p for name, found in gains.items()}) for c in tested}
    versus = {c: against_best({name: exact[name][c] for name in runs}) for c in tested}
    return Comparison(
        folder,
        judged,
        protocol,
        {name: _settings(mine[0]) for name, mine in runs.items()},
        {name: columns | rows.scores[name] for name, columns in exact.items()},
        gains,
        _by_row(adjusted),
        _by_row(versus),
        {name: ["/".join(run.folder.parts[-2:]) for run in mine] for name, mine in runs.items()},
        decision,
        model,
    )


@dataclass(frozen=True)
class _Rows:
    """What is known of every row before the tests: the candidates, and each start once.

    Attributes:
        scores: row -> column -> score of each seed, x 100.
        items: row -> what each test item came to, for each seed.
        criterion: row -> what chose its checkpoints, mean over the seeds; not of "start".
        starts: candidate -> the row of its start.
    """

    scores: dict[str, dict[str, list[float]]]
    items: dict[str, list[Items]]
    criterion: dict[str, float]
    starts: dict[str, str]

    @classmethod
    def of(cls, runs: Mapping[str, Sequence[Run]], shared: SharedItems) -> _Rows:
        rows = cls({}, {}, {}, {})
        known: dict[tuple[str, str], str] = {}
        for name, mine in runs.items():
            start = known.setdefault(_start(mine[0]), f"start of {name}" if known else "start")
            if start not in rows.scores:
                rows.scores[start] = _columns([_scores(mine[0], "start")])
                rows.items[start] = [shared.items(mine[0], "before")]
                if start != "start":
                    rows.criterion[start] = _criterion(mine[0], step=0)
            rows.scores[name] = _columns([_scores(run, "result") for run in mine])
            rows.items[name] = [shared.items(run, "after") for run in mine]
            rows.criterion[name] = float(np.mean([_criterion(run) for run in mine]))
            rows.starts[name] = start
        return rows


def _by_row(columns: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    rows = dict.fromkeys(row for found in columns.values() for row in found)
    return {row: {c: found[row] for c, found in columns.items() if row in found} for row in rows}


def _advised(decision: Decision, runs: Mapping[str, Sequence[Run]]) -> tuple[Decision, str | None]:
    """The decision, with a word where runs ship something else, and the model that it advises."""
    if decision.name is None:
        return decision, None
    adapted = decision.name in runs
    mine = runs[decision.name if adapted else decision.name.removeprefix("start of ")]
    shipping = [run for run in mine if bool((run.results or {})["model_step"]) == adapted]
    model = str(max(shipping, key=_criterion).model_folder) if shipping else None
    text = decision.text
    if not adapted and not shipping:
        encoder, pooling = _start(mine[0])
        text += f" Load it by isospace.load({encoder!r}, pooling={pooling!r})."
    elif adapted and len(shipping) < len(mine):
        text += f" {len(mine) - len(shipping)} of its {len(mine)} runs ship the start, which their"
        text += " own verdicts kept."
        if not shipping:
            seeds = [str(run.config.seed) for run in mine if _adapted(run)]
            text += " The adapted weights are in checkpoints/kept.safetensors of seed "
            text += f"{', '.join(seeds)}."
    return replace(decision, text=text), model


def _adapted(run: Run) -> bool:
    """Whether a run preferred a checkpoint to its start."""
    return bool((run.results or {})["choice"]["step"])


def _require_one_benchmark(runs: Collection[Run]) -> None:
    """Scores of other text, or of other test items, cannot be subtracted one by one."""
    by_benchmark: dict[tuple[str, str], Run] = {}
    for run in runs:
        results = run.results or {}
        by_benchmark.setdefault((results["corpus"]["digest"], results.get("benchmark", "")), run)
    if len(by_benchmark) > 1:
        one, other = list(by_benchmark.values())[:2]
        raise UserError(
            f"{one.folder} and {other.folder}: not trained and scored on the same text; it has "
            "changed since the comparison began. Remove the runs on the old text, or give another "
            "`output`"
        )


def _start(run: Run) -> tuple[str, str]:
    """Encoder and pooling, whether the pooling was asked for or is the encoder's own."""
    return run.config.model, (run.results or {})["pooling"]


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
    unseen = f" {protocol['unseen']}" if "unseen" in protocol else ""
    words = protocol["MRR"] if measure == "MRR" else f"STS average{unseen}"
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
    return float(
        next(evaluation for evaluation in results["evaluations"] if evaluation["step"] == wanted)[
            key
        ]
    )


def _criterion_in_words(run: Run, protocol: Mapping[str, str]) -> str:
    if (run.results or {})["choice"]["criterion"] == LABELS:
        return f"Spearman on {protocol['checkpoints'].removeprefix('labels: ')}"
    return "MRR of other held-out pairs"
