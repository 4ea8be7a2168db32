"""What the finished runs of a comparison say: scores, gains over a base model, a verdict."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from isospace.comparison.baselines import Baseline
from isospace.comparison.results import (
    ComparisonProtocol,
    ComparisonResults,
    ComparisonVerdict,
    RowGain,
    SeedScores,
)
from isospace.comparison.shared_items import SharedItems
from isospace.comparison.with_bm25 import bm25_rows, with_bm25_text
from isospace.errors import UserError
from isospace.evaluation.other_text import STS, gains_over
from isospace.evaluation.retrieval import Items
from isospace.evaluation.scores import BenchmarkScores
from isospace.evaluation.sts import PAPER_PROTOCOL
from isospace.statistics.choosing import ChosenAmong, choose, judge_chosen
from isospace.statistics.counts import number_of
from isospace.statistics.decision import differences, holm
from isospace.statistics.gains import Gain, gain
from isospace.statistics.influence import Scores
from isospace.statistics.verdict import VerdictKind, base_kept, counted, kind_of, reason
from isospace.training.run import Run
from isospace.training.selection import LABELS, LAST, PAIRS

_ROUNDING = 0.005
"""By so much, and one pair, reciprocal ranks of one encoder may differ between machines, on average
over the pairs; those of two encoders differ by more."""


def judge_runs(
    runs: Mapping[str, Sequence[Run]],
    measure: Literal["MRR", "Avg"],
    baselines: Mapping[str, Sequence[Baseline]] | None = None,
) -> ComparisonResults:
    """Compare finished runs with the base model of the first of them, and with each other.

    Runs from another encoder, or with another pooling or prompt, are compared with that base model
    as well: it is a row of its own, that can be what the verdict advises, and they have to gain
    over it too. Test pairs that stand among the labels which chose the checkpoints are left out of
    the gains.

    The row with the highest criterion, the score that chose its checkpoints, is judged once; how
    the others are tested (gains and differences, corrected by Holm) decides nothing. Baselines have
    no criterion: they are tested like the others, and are never what the verdict is about.

    Args:
        runs: name -> runs that differ in their seed alone.
        measure: what the verdict is about.
        baselines: name -> what encoders that were not trained here came to: one, or one a seed.

    Raises:
        UserError: the runs were not trained on one text and scored on the same items, the weights
            of a base model have changed between them, or the measure needs sets that were not
            scored, or of which the labels leave nothing.
    """
    baselines = baselines or {}
    _require_one_benchmark([run for seeds in runs.values() for run in seeds])
    first = next(iter(runs.values()))[0]
    for name, seeds in baselines.items():
        if any(one.about.benchmark != first.finished.benchmark for one in seeds):
            raise UserError(
                f"`baselines` {name}: was scored on other test items than the runs; remove its "
                "folder in baselines/, and it is scored again"
            )
    shared = SharedItems.of(first)
    shown = shared.shown(measure)
    if shown is None or measure not in _scores(first.finished.base):
        raise UserError(f"{first.folder}: no {measure}: {shared.why_incomplete}")
    _require_one_start([run for seeds in runs.values() for run in seeds])
    rows = _Rows.of(runs, shared)
    start = rows.tested["base model"]
    # A table names what is known first.
    tested = {"base model": start}
    tested |= {n: shared.scores([one.items for one in seeds]) for n, seeds in baselines.items()}
    tested |= rows.tested
    # Older runs know fewer.
    common = [c for c in start if all(c in columns for columns in tested.values())]
    states = {n: [one.about.scores for one in seeds] for n, seeds in baselines.items()}
    states |= rows.states
    items = {n: [one.items for one in seeds] for n, seeds in baselines.items()} | rows.items
    gains = {
        name: {column: gain(columns[column], start[column]) for column in common}
        for name, columns in tested.items()
        if name != "base model"
    }
    adjusted = {c: holm({name: found[c].p for name, found in gains.items()}) for c in common}
    plain = {name: _columns(list(map(_scores, seeds))) for name, seeds in states.items()}
    exact = {
        name: {c: list(map(float, 100 * scores.by_seed)) for c, scores in columns.items()}
        for name, columns in tested.items()
    }
    protocol = _protocol(first, shared)
    verdict = _Judge(runs, rows, shared, measure, protocol).verdict()
    with_bm25 = bm25_rows(states, items, shared)
    other = {n: [one.other_text for one in seeds] for n, seeds in baselines.items()}
    other |= rows.other_text
    other_text = _other_text_gains(other, tested, shared.shown("Avg") if measure == "MRR" else None)
    return ComparisonResults(
        measure=shown,
        protocol=protocol,
        settings={name: _settings(seeds[0]) for name, seeds in runs.items()},
        runs={
            name: tuple("/".join(run.folder.parts[-2:]) for run in seeds)
            for name, seeds in runs.items()
        },
        baselines={n: ", ".join(o.about.model for o in seeds) for n, seeds in baselines.items()},
        criterion=rows.criterion,
        scores={
            name: {c: SeedScores.of(seeds) for c, seeds in (exact[name] | plain[name]).items()}
            for name in exact
        },
        gains={
            name: {c: RowGain(found[c], adjusted[c][name]) for c in common}
            for name, found in gains.items()
        },
        differences={
            c: differences({name: tested[name][c] for name in (*baselines, *runs)}) for c in common
        },
        verdict=verdict,
        with_bm25=with_bm25,
        with_bm25_text=with_bm25_text(
            # Where the same pairs chose, BM25 is held against what they did not choose.
            with_bm25,
            items,
            shared,
            verdict.name if verdict.name and protocol.split else "base model",
        ),
        other_text=other_text,
    )


@dataclass(frozen=True)
class _Rows:
    """What is known of every row: the candidates, and each base model once.

    Attributes:
        states: row -> the scores of each seed.
        items: row -> what each test item came to, for each seed.
        other_text: row -> the same of other text than the corpus; empty of older runs.
        tested: row -> column -> scores with what each item contributed.
        criterion: row -> what chose its checkpoints, mean over the seeds; of "base model" only
            where it was one of those that it chose among.
        starts: candidate -> the row of its base model.
    """

    states: dict[str, list[BenchmarkScores]]
    items: dict[str, list[Items]]
    other_text: dict[str, list[Items]]
    tested: dict[str, dict[str, Scores]]
    criterion: dict[str, float]
    starts: dict[str, str]

    @classmethod
    def of(cls, runs: Mapping[str, Sequence[Run]], shared: SharedItems) -> _Rows:
        rows = cls({}, {}, {}, {}, {}, {})
        known: dict[tuple[str | None, ...], str] = {}
        for name, seeds in runs.items():
            first = seeds[0]
            start = known.setdefault(
                _prompted_start(first), f"base model of {name}" if known else "base model"
            )
            if start not in rows.states:
                rows.states[start] = [first.finished.base]
                rows.items[start] = [first.items("before")]
                rows.other_text[start] = [first.items("other_text_before")]
                if start != "base model" or first.finished.choice.criterion != LAST:
                    rows.criterion[start] = _criterion(first, step=0)
            rows.states[name] = [run.finished.adapted for run in seeds]
            rows.items[name] = [run.items("after") for run in seeds]
            rows.other_text[name] = [run.items("other_text_after") for run in seeds]
            rows.criterion[name] = float(np.mean([_criterion(run) for run in seeds]))
            rows.starts[name] = start
        rows.tested.update({name: shared.scores(items) for name, items in rows.items.items()})
        return rows


@dataclass(frozen=True)
class _Judge:
    """Choose a row by the criterion, which no test item is part of, and judge it once.

    Where the corpus has too few pairs to split, the same pairs have chosen the checkpoints and
    choose the row: then the interval holds for all of them at once.
    """

    runs: Mapping[str, Sequence[Run]]
    rows: _Rows
    shared: SharedItems
    measure: str
    protocol: ComparisonProtocol

    def verdict(self) -> ComparisonVerdict:
        criterion, chosen_by = self.rows.criterion, self.protocol.criterion
        words = _in_words(self.measure, self.protocol)
        order = list(criterion)
        name = order[choose([criterion[row] for row in order])]
        if name in self.runs and not any(map(_adapted, self.runs[name])):
            name = self.rows.starts[name]
        if name == "base model":
            kept = f"nothing is above it by {chosen_by}"
            if not any(_adapted(run) for seeds in self.runs.values() for run in seeds):
                kept = "every run preferred its base model to its checkpoints"
            text = base_kept(kept, words).text
            return ComparisonVerdict(VerdictKind.KEEP_BASE, None, text, None)

        seeds = self.runs.get(name, ())
        found = self._gain(self.rows.tested, name, "base model", seeds)
        kind, decisive, own = kind_of(found), found, self.rows.starts.get(name, "base model")
        text = f"{found} in {words}; {_seeds(found)}, {self._counted(found)}"
        if own != "base model":
            over_own = self._gain(self.rows.tested, name, own, seeds)
            text += f"; over its own base model {over_own}"
            if kind is VerdictKind.ADAPTED:
                kind, decisive = kind_of(over_own), over_own
                if kind is not VerdictKind.ADAPTED:
                    text += (
                        f", which alone has {self._gain(self.rows.tested, own, 'base model', ())}"
                    )
        others = [row for row in criterion if row != "base model"]
        if len(others) > 1:
            text += f"; highest of {len(others)} by {chosen_by}"
        text = f"{_head(kind, name, name in self.runs)}{text}{_reason(kind, decisive)}."
        words, model = self._model(name) if kind is VerdictKind.ADAPTED else ("", None)
        return ComparisonVerdict(kind, name, text + words, model)

    def _gain(
        self,
        tested: Mapping[str, Mapping[str, Scores]],
        name: str,
        over: str,
        runs: Sequence[Run],
    ) -> Gain:
        """Of one row, which `runs` made, over another, which all rows are compared with."""
        column = self.shared.shown(self.measure) or self.measure
        after, before = tested[name][column], tested[over][column]
        if self.measure != "MRR" or self.protocol.split:
            return gain(after, before)
        candidates = {over: before} | {row: tested[row][column] for row in tested}
        unseen = (len(candidates) - 1) * (self._evaluations() - 1)
        flattered = float(np.mean([_flattered(run) for run in runs] or [0.0]))
        among = ChosenAmong.named(candidates, name, unseen=unseen, flattered=flattered)
        return judge_chosen(among)

    def _counted(self, found: Gain) -> str:
        if self.measure == "MRR":
            return counted(found, "groups")
        return f"{number_of(found.items, 'pairs')} of {number_of(found.groups, 'sentences')}"

    def _evaluations(self) -> int:
        """Among how many checkpoints of each run the pairs have chosen, at most."""
        finished = [run.finished for seeds in self.runs.values() for run in seeds]
        chosen = [len(one.evaluations) - 1 for one in finished if one.choice.criterion == PAIRS]
        return max(chosen, default=1)

    def _model(self, name: str) -> tuple[str, str | None]:
        """The folder of the row that is advised, and what there is to say about it."""
        adapted = name in self.runs
        seeds = self.runs[name if adapted else name.removeprefix("base model of ")]
        shipping = [run for run in seeds if run.finished.ships_base != adapted]
        best = max(shipping, key=_criterion, default=None)
        if not adapted:
            if best is not None:
                return "", str(best.model_folder)
            encoder, pooling = _start(seeds[0])
            return f" Load it by isospace.load({encoder!r}, pooling={pooling!r}).", None
        words = ""
        if best is not None and len(seeds) > 1:
            # The mean of all seeds must not stand for the one that is shipped.
            own = self._gain_of_seed(name, seeds.index(best))
            words += (
                f" Its model, seed {best.config.seed} by the same, gains {100 * own.mean:+.2f} "
            )
            words += f"({own.interval})."
        if len(shipping) < len(seeds):
            words += (
                f" {len(seeds) - len(shipping)} of its {len(seeds)} runs ship the base model, which"
            )
            words += " their own verdicts kept."
        if best is None:
            numbers = [str(run.config.seed) for run in seeds if _adapted(run)]
            words += " The adapted weights are in checkpoints/kept.safetensors of seed "
            words += f"{', '.join(numbers)}."
        return words, None if best is None else str(best.model_folder)

    def _gain_of_seed(self, name: str, place: int) -> Gain:
        """Of one seed of a row over the base model, every run a candidate of its own."""
        single = {
            f"{row}/{number}": self.shared.scores([items])
            for row, seeds in self.rows.items.items()
            for number, items in enumerate(seeds)
        }
        return self._gain(single, f"{name}/{place}", "base model/0", [self.runs[name][place]])


def _head(kind: VerdictKind, name: str, adapted: bool) -> str:
    if kind is VerdictKind.ADAPTED:
        return f"Adapt with {name}: " if adapted else f"Take {name} as it is: "
    return f"{kind.value.capitalize()}: {name}, "


def _reason(kind: VerdictKind, found: Gain) -> str:
    if kind is VerdictKind.CANNOT_TELL and found.low <= 0 and found.seeds > 1:
        return "; more seeds or more pairs would tell"
    return reason(kind, found)


def _seeds(found: Gain) -> str:
    return "one seed" if found.seeds == 1 else f"mean of {found.seeds} seeds"


def _flattered(run: Run) -> float:
    """How far a run's gain is above what its verdict, which chose among checkpoints too, says."""
    results = run.finished
    gained, said = results.adapted.pairs.mrr - results.base.pairs.mrr, results.verdict.gain
    if said is None or said.candidates == 1 or not _adapted(run):
        return 0.0
    return max(0.0, gained - said.mean)


def _adapted(run: Run) -> bool:
    """Whether a run preferred a checkpoint to its base model."""
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
            "changed between them. Leave out the runs on the old text: remove them, or give "
            "another `output`"
        )


def _require_one_start(runs: Collection[Run]) -> None:
    """Refuse starts of one name that found other ranks: the folder was rewritten in between."""
    firsts: dict[tuple[str | None, ...], tuple[Run, np.ndarray]] = {}
    for run in runs:
        ranks = run.items("before")["MRR"]
        first, expected = firsts.setdefault(_prompted_start(run), (run, ranks))
        if np.abs(ranks - expected).mean() > _ROUNDING + 1 / len(ranks):
            raise UserError(
                f"{first.folder} and {run.folder}: their base models differ, though "
                f"both are called {run.config.model}: untrained, one has an MRR of "
                f"{100 * expected.mean():.2f} and the other of {100 * ranks.mean():.2f}, and the "
                "ranks differ. Remove the runs from the old one, or name the other base model "
                "otherwise (`model`) and give another `output`"
            )


def _prompted_start(run: Run) -> tuple[str | None, ...]:
    """What makes a base model another one: encoder, pooling and prompts."""
    return *_start(run), run.config.query_prompt, run.config.document_prompt


def _start(run: Run) -> tuple[str, str]:
    """Encoder and pooling, whether the pooling was asked for or is the encoder's own."""
    return run.config.model, run.finished.pooling


def _settings(run: Run) -> dict[str, Any]:
    settings = run.config.to_dict()
    return {name: value for name, value in settings.items() if name not in ("seed", "output")}


def _scores(scores: BenchmarkScores) -> dict[str, float]:
    """One state's scores, x 100: of the pairs, and the papers' row where there is data."""
    columns = {column: 100 * value for column, value in scores.pairs.row().items()}
    return columns if scores.sts is None else columns | scores.sts.known()


def _other_text_gains(
    items: Mapping[str, Sequence[Items]],
    tested: Mapping[str, Mapping[str, Scores]],
    average: str | None,
) -> dict[str, dict[str, Gain]]:
    """Return row -> set -> gain over the row "base model".

    Nothing was chosen by these sets, so that their intervals need no correction. The average of STS
    is column `average` of `tested`, as the items of other text lack it; `None` where there is none,
    or the verdict is about it.
    """
    [start] = items["base model"]
    if not start:
        return {}
    found: dict[str, dict[str, Gain]] = {}
    for row, seeds in items.items():
        if row != "base model":
            sts = {}
            if average is not None:
                name = average.replace("Avg", STS)
                sts = {name: gain(tested[row][average], tested["base model"][average])}
            found[row] = sts | gains_over(seeds, start)
    return found


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Those that all seeds have; older runs have fewer."""
    common = [column for column in rows[0] if all(column in row for row in rows)]
    return {column: [row[column] for row in rows] for column in common}


def _protocol(run: Run, shared: SharedItems) -> ComparisonProtocol:
    results = run.finished
    split = results.split or results.labels is not None
    criterion = f"validation MRR{'' if split else ' (of the test pairs)'}"
    if results.choice.criterion == LABELS:
        criterion = f"Spearman on {results.labels}"
    return ComparisonProtocol(
        pairs=results.verdict.protocol,
        sts=PAPER_PROTOCOL if results.adapted.sts else None,
        checkpoints=f"labels: {results.labels}" if results.labels else results.choice.rule,
        labels=results.labels,
        unseen=shared.unseen_in_words,
        split=split,
        criterion=criterion,
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
