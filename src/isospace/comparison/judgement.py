"""What the finished runs of a comparison say together: scores, gains over a start, a verdict."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from isospace.comparison.results import (
    ComparisonProtocol,
    ComparisonResults,
    ComparisonVerdict,
    RowGain,
    SeedScores,
)
from isospace.comparison.shared_items import Items, SharedItems
from isospace.errors import UserError
from isospace.evaluation.benchmark import BenchmarkScores
from isospace.evaluation.sts import PAPER_PROTOCOL
from isospace.statistics.decision import Decision, against_best, decide, holm
from isospace.training.run import Run
from isospace.training.selection import LABELS, LAST, PAIRS


def judge_runs(
    runs: Mapping[str, Sequence[Run]], measure: Literal["MRR", "Avg"]
) -> ComparisonResults:
    """Compare finished runs with the start of the first of them, and with each other.

    Runs from another encoder or with another pooling are compared with that start as well: it is a
    row of its own, that can be what the verdict advises, and they have to gain over it too. Test
    pairs that stand among the labels which chose the checkpoints are left out of the gains.

    Args:
        runs: name -> runs that differ in their seed alone.
        measure: what the verdict is about.

    Raises:
        UserError: the runs were not trained on one text and scored on the same items, or the
            measure needs sets that were not scored, or of which the labels leave nothing.
    """
    _require_one_benchmark([run for seeds in runs.values() for run in seeds])
    first = next(iter(runs.values()))[0]
    shared = SharedItems.of(first)
    judged = shared.shown(measure)
    if judged is None or measure not in _scores(first.finished.start):
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
    protocol = _protocol(first, shared)
    decision = decide(
        {name: columns[judged] for name, columns in gains.items()},
        rows.criterion,
        _in_words(measure, protocol),
        _criterion_in_words(first, protocol),
        over_own,
        unadapted=rows.starts.values(),
        start_kept=not any(_adapted(run) for seeds in runs.values() for run in seeds),
    )
    tested = list(sampled["start"])
    adjusted = {c: holm({name: gain[c].p for name, gain in gains.items()}) for c in tested}
    versus_best = {c: against_best({name: exact[name][c] for name in runs}) for c in tested}
    return ComparisonResults(
        measure=judged,
        protocol=protocol,
        settings={name: _settings(seeds[0]) for name, seeds in runs.items()},
        runs={
            name: tuple("/".join(run.folder.parts[-2:]) for run in seeds)
            for name, seeds in runs.items()
        },
        scores={
            name: {
                c: SeedScores.of(seeds) for c, seeds in (exact[name] | rows.scores[name]).items()
            }
            for name in exact
        },
        gains={
            name: {c: RowGain(gain[c], adjusted[c][name], versus_best[c].get(name)) for c in tested}
            for name, gain in gains.items()
        },
        verdict=_advised(decision, runs),
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
        for name, seeds in runs.items():
            first = seeds[0]
            start = known.setdefault(_start(first), f"start of {name}" if known else "start")
            if start not in rows.scores:
                rows.scores[start] = _columns([_scores(first.finished.start)])
                rows.items[start] = [shared.items(first, "before")]
                if start != "start":
                    rows.criterion[start] = _criterion(first, step=0)
            rows.scores[name] = _columns([_scores(run.finished.result) for run in seeds])
            rows.items[name] = [shared.items(run, "after") for run in seeds]
            rows.criterion[name] = float(np.mean([_criterion(run) for run in seeds]))
            rows.starts[name] = start
        return rows


def _advised(decision: Decision, runs: Mapping[str, Sequence[Run]]) -> ComparisonVerdict:
    """The decision, with a word where runs ship something else, and the model that it advises."""
    if decision.name is None:
        return ComparisonVerdict(decision.verdict, decision.text, None)
    adapted = decision.name in runs
    seeds = runs[decision.name if adapted else decision.name.removeprefix("start of ")]
    shipping = [run for run in seeds if run.finished.ships_start != adapted]
    model = str(max(shipping, key=_criterion).model_folder) if shipping else None
    text = decision.text
    if not adapted and not shipping:
        encoder, pooling = _start(seeds[0])
        text += f" Load it by isospace.load({encoder!r}, pooling={pooling!r})."
    elif adapted and len(shipping) < len(seeds):
        text += f" {len(seeds) - len(shipping)} of its {len(seeds)} runs ship the start, which "
        text += "their own verdicts kept."
        if not shipping:
            numbers = [str(run.config.seed) for run in seeds if _adapted(run)]
            text += " The adapted weights are in checkpoints/kept.safetensors of seed "
            text += f"{', '.join(numbers)}."
    return ComparisonVerdict(decision.verdict, text, model)


def _adapted(run: Run) -> bool:
    """Whether a run preferred a checkpoint to its start."""
    return run.finished.choice.step > 0


def _require_one_benchmark(runs: Collection[Run]) -> None:
    """Scores of other text, or of other test items, cannot be subtracted one by one."""
    by_benchmark: dict[tuple[str, str], Run] = {}
    for run in runs:
        results = run.finished
        by_benchmark.setdefault((results.corpus.digest, results.benchmark), run)
    if len(by_benchmark) > 1:
        one, other = list(by_benchmark.values())[:2]
        raise UserError(
            f"{one.folder} and {other.folder}: not trained and scored on the same text; it has "
            "changed since the comparison began. Remove the runs on the old text, or give another "
            "`output`"
        )


def _start(run: Run) -> tuple[str, str]:
    """Encoder and pooling, whether the pooling was asked for or is the encoder's own."""
    return run.config.model, run.finished.pooling


def _settings(run: Run) -> dict[str, Any]:
    settings = run.config.to_dict()
    return {name: value for name, value in settings.items() if name not in ("seed", "output")}


def _scores(scores: BenchmarkScores) -> dict[str, float]:
    """One state's scores, x 100: MRR, recall, and the papers' row where there is data."""
    columns = {"MRR": 100 * scores.pairs.mrr, "R@1": 100 * scores.pairs.recall[1]}
    return columns if scores.sts is None else columns | scores.sts.known()


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    return {column: [row[column] for row in rows] for column in rows[0]}


def _protocol(run: Run, shared: SharedItems) -> ComparisonProtocol:
    results = run.finished
    return ComparisonProtocol(
        pairs=results.verdict.protocol,
        sts=PAPER_PROTOCOL if results.result.sts else None,
        checkpoints=f"labels: {results.labels}" if results.labels else results.choice.rule,
        labels=results.labels,
        unseen=shared.unseen_in_words,
    )


def _in_words(measure: str, protocol: ComparisonProtocol) -> str:
    unseen = f" {protocol.unseen}" if protocol.unseen else ""
    words = protocol.pairs if measure == "MRR" else f"STS average{unseen}"
    return f"{words}, dev-selected on {protocol.labels}" if protocol.labels else words


def _criterion(run: Run, step: int | None = None) -> float:
    """What chose the checkpoint, of the one that was kept or of `step`; never a test score.

    Where the last one was kept and nothing chose, the MRR of held-out pairs.
    """
    results = run.finished
    criterion = PAIRS if results.choice.criterion == LAST else results.choice.criterion
    return results.evaluation(results.choice.step if step is None else step)[criterion]


def _criterion_in_words(run: Run, protocol: ComparisonProtocol) -> str:
    if run.finished.choice.criterion == LABELS:
        return f"Spearman on {protocol.labels}"
    return "MRR of other held-out pairs"
