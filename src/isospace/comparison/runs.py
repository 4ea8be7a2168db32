"""Compare finished runs: scores, gains over a base model, a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from isospace.comparison.results import (
    BM25Row,
    ComparisonProtocol,
    ComparisonResults,
    ComparisonVerdict,
    RowGain,
    SeedScores,
)
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.errors import UserError, number_of
from isospace.evaluation.benchmark import BASE, BenchmarkScores, PairScores
from isospace.evaluation.other_text import STS, gains_over
from isospace.evaluation.retrieval import Items
from isospace.evaluation.sts import PAPER_PROTOCOL, UnseenItems
from isospace.statistics.gains import Gain, Scores, gain
from isospace.statistics.selection import SelectedAmong, best_position, measured_gain
from isospace.statistics.verdict import (
    VerdictKind,
    base_kept,
    counted,
    differences,
    gain_sentence,
    holm,
    kind_of,
)
from isospace.system import typed_json
from isospace.system.files import read_arrays, write_arrays
from isospace.system.progress import Progress
from isospace.system.settings import to_dict
from isospace.training.prepare import Data
from isospace.training.results import BY_LABELS, BY_LAST, BY_PAIRS
from isospace.training.run import Run
from isospace.training.train import ModelScores

_PREFIX = "other_text/"
_SCORES, _ITEMS = "scores.json", "items.npz"


@dataclass(frozen=True)
class BaselineScores:
    """Contents of scores.json: `benchmark` and `weights` are hashes of test items and model."""

    model: str
    benchmark: str
    scores: BenchmarkScores
    weights: str
    format: int = 6


@dataclass(frozen=True)
class Baseline:
    """An encoder that a comparison scores and does not train.

    `items` are those of `Benchmark.items`, `other_text` those of `OtherText.items`. The folder of a
    baseline has both in items.npz, and `about` in scores.json, which is written last.
    """

    about: BaselineScores
    items: Items
    other_text: Items

    @classmethod
    def score(cls, model: str, data: Data, progress: Progress) -> Baseline:
        """Load an encoder with its own pooling, and score it."""
        try:
            encoder = load_encoder(model)
        except UserError as error:
            raise UserError(f"`baselines` {error}") from error
        found = ModelScores.of_base_model(encoder, data, progress)
        weights = weights_hash(encoder, *encoder.prompts.sides)
        about = BaselineScores(model, data.benchmark.digest(), found.measured.scores, weights)
        items = data.benchmark.items(found.measured)
        return cls(about, items, data.other_text.items(found.other_text))

    @property
    def outdated(self) -> bool:
        """True if the model has changed since it was scored; false if that is not known."""
        try:
            encoder = load_encoder(self.about.model)
        except UserError:  # the model is gone or damaged, but its scores are known
            return False
        return weights_hash(encoder, *encoder.prompts.sides) != self.about.weights

    @classmethod
    def read(cls, folder: Path) -> Baseline | None:
        """Read the files of `write`; `None` if there are none."""
        path = folder / _SCORES
        if not path.is_file():
            return None
        about = typed_json.read(path, BaselineScores, "scores of a model")
        items: tuple[Items, Items] = {}, {}
        for name, array in read_arrays(folder / _ITEMS).items():
            items[name.startswith(_PREFIX)][name.removeprefix(_PREFIX)] = array
        return cls(about, *items)

    def write(self, folder: Path) -> None:
        """Write both files, replacing those of another model."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _SCORES).unlink(missing_ok=True)
        other = {f"{_PREFIX}{name}": array for name, array in self.other_text.items()}
        write_arrays(folder / _ITEMS, **self.items, **other)
        typed_json.write(folder / _SCORES, self.about)


def named_models(baselines: Sequence[str]) -> dict[str, str]:
    """Parse NAME=MODEL texts into a dictionary from row names to models.

    >>> named_models(["glove=glove:vectors.txt", "flow=runs/flow"])
    {'glove': 'glove:vectors.txt', 'flow': 'runs/flow'}
    """
    models = dict(text.partition("=")[::2] for text in baselines)
    if not all(models) or not all(models.values()) or len(models) < len(baselines):
        raise UserError(
            f"`baselines` {' '.join(baselines)}: write NAME=MODEL for each, with different names"
        )
    return models


_ROUNDING = 0.005
"""Largest mean difference of one encoder's reciprocal ranks on two machines, but for one pair."""


@dataclass(frozen=True)
class _Row:
    """One row of a comparison: a base model, a baseline or a candidate.

    `states`, `items` and `other_text` have an entry for each seed. Only a candidate has `runs`. The
    `criterion` is the mean score that selected the checkpoints; `None` if nothing selects the row.
    """

    name: str
    states: list[BenchmarkScores]
    items: list[Items]
    other_text: list[Items]
    scores: dict[str, Scores]
    runs: Sequence[Run] = ()
    criterion: float | None = None

    @property
    def adapted(self) -> bool:
        """True if a run of the row preferred a checkpoint to its base model."""
        return any(map(_adapted, self.runs))

    def by_seed(self) -> dict[str, list[float]]:
        """Return column -> score of each seed, x 100, for columns that all seeds have."""
        exact = {c: list(map(float, 100 * one.by_seed)) for c, one in self.scores.items()}
        states = list(map(_columns, self.states))
        common = [c for c in states[0] if all(c in state for state in states)]
        return exact | {c: [state[c] for state in states] for c in common}


def compare_runs(
    runs: Mapping[str, Sequence[Run]],
    measure: Literal["MRR", "Avg"],
    baselines: Mapping[str, Sequence[Baseline]] | None = None,
) -> ComparisonResults:
    """Compare finished runs with their base model, and with each other.

    All runs have one base model. Test pairs that are among the labels which selected the
    checkpoints are left out of the gains.

    The verdict is about the row with the highest criterion, the score that selected its
    checkpoints. The tests of the other rows, corrected by Holm, decide nothing.

    `runs` of a name differ in their seed alone; `baselines` of a name are one, or one a seed.
    """
    baselines = baselines or {}
    every = [run for seeds in runs.values() for run in seeds]
    _require_one_benchmark(every, baselines)
    first = every[0]
    shared = items_of_test(first)
    column = shared.shown(measure)
    if column is None or measure not in _columns(first.finished.base):
        raise UserError(f"{first.folder}: no {measure}: {shared.why_incomplete}")
    _require_one_base(every)
    candidates = _candidate_rows(runs, shared)
    scored = {name: _baseline_row(name, models, shared) for name, models in baselines.items()}
    rows = {BASE: candidates[BASE]} | scored | candidates
    others = [row for row in rows.values() if row.name != BASE]
    base, protocol = rows[BASE], _protocol(first, shared)
    common = [c for c in base.scores if all(c in row.scores for row in others)]
    gains = {row.name: {c: gain(row.scores[c], base.scores[c]) for c in common} for row in others}
    adjusted = {c: holm({name: found[c].p for name, found in gains.items()}) for c in common}
    verdict = _Selection(candidates, column, protocol).verdict()
    average = shared.shown("Avg") if measure == "MRR" else None
    return ComparisonResults(
        measure=column,
        protocol=protocol,
        settings={name: _settings(seeds[0]) for name, seeds in runs.items()},
        runs={
            name: tuple("/".join(run.folder.parts[-2:]) for run in seeds)
            for name, seeds in runs.items()
        },
        baselines={n: ", ".join(o.about.model for o in seeds) for n, seeds in baselines.items()},
        criterion={n: row.criterion for n, row in candidates.items() if row.criterion is not None},
        scores={
            row.name: {c: SeedScores.of_seeds(seeds) for c, seeds in row.by_seed().items()}
            for row in rows.values()
        },
        gains={
            name: {c: RowGain(found[c], adjusted[c][name]) for c in common}
            for name, found in gains.items()
        },
        differences=differences({n: rows[n].scores[column] for n in (*baselines, *runs)}),
        verdict=verdict,
        with_bm25=_bm25_rows(rows, shared),
        other_text={row.name: _other_text(row, base, average) for row in others},
    )


def items_of_test(run: Run) -> UnseenItems:
    """Return the test items of a finished run."""
    parts = {part: run.items(part) for part in ("group", "gold", "seen")}
    return UnseenItems.of_test_pairs(parts, run.finished.labels)


def _candidate_rows(runs: Mapping[str, Sequence[Run]], shared: UnseenItems) -> dict[str, _Row]:
    """Return the base model and the candidates by name."""
    first = next(iter(runs.values()))[0]
    selects = first.finished.training.choice.criterion != BY_LAST
    criterion = _criterion(first, step=0) if selects else None
    items, other_text = [first.items("before")], [first.items("other_text_before")]
    base = _Row(BASE, [first.finished.base], items, other_text, shared.scores(items), (), criterion)
    rows = {BASE: base}
    for name, seeds in runs.items():
        states = [run.finished.adapted for run in seeds]
        items = [run.items("after") for run in seeds]
        other_text = [run.items("other_text_after") for run in seeds]
        criterion = float(np.mean([_criterion(run) for run in seeds]))
        rows[name] = _Row(name, states, items, other_text, shared.scores(items), seeds, criterion)
    return rows


def _baseline_row(name: str, models: Sequence[Baseline], shared: UnseenItems) -> _Row:
    states, items = [one.about.scores for one in models], [one.items for one in models]
    other_text = [one.other_text for one in models]
    return _Row(name, states, items, other_text, shared.scores(items))


@dataclass(frozen=True)
class _Selection:
    """The verdict in one score on the row that the criterion selects.

    If the corpus has too few pairs to split, the same pairs selected the checkpoints and select the
    row. The interval then holds for all rows at once.
    """

    rows: Mapping[str, _Row]
    column: str
    protocol: ComparisonProtocol

    def verdict(self) -> ComparisonVerdict:
        row, words = self._selected(), self._protocol_in_words()
        if row.name == BASE:
            kept = f"nothing is above it by {self.protocol.criterion}"
            if not any(one.adapted for one in self.rows.values()):
                kept = "every run preferred its base model to its checkpoints"
            text = base_kept(kept, words).text
            return ComparisonVerdict(VerdictKind.KEEP_BASE, None, text, None)
        found = self._gain(row)
        kind = kind_of(found)
        head = f"{kind.value.capitalize()}: {row.name}, "
        if kind is VerdictKind.ADAPTED:
            head = f"Adapt with {row.name}: "
        seeds = "one seed" if found.seeds == 1 else f"mean of {found.seeds} seeds"
        count = f"{seeds}, {self._counted(found)}"
        others = sum(one.criterion is not None for one in self.rows.values() if one.name != BASE)
        if others > 1:
            count += f"; highest of {others} by {self.protocol.criterion}"
        text = gain_sentence(head, found, words, count)
        advice, model = self._model(row) if kind is VerdictKind.ADAPTED else ("", None)
        return ComparisonVerdict(kind, row.name, text + advice, model)

    def _selected(self) -> _Row:
        """Return the row to test: the base model, or a candidate of which a run was adapted."""
        rows = [row for row in self.rows.values() if row.criterion is not None]
        row = rows[best_position([row.criterion or 0.0 for row in rows])]
        return row if row.adapted else self.rows[BASE]

    def _protocol_in_words(self) -> str:
        unseen = f" {self.protocol.unseen}" if self.protocol.unseen else ""
        words = self.protocol.pairs if self.column == "MRR" else f"STS average{unseen}"
        labels = self.protocol.labels
        return f"{words}, dev-selected on {labels}" if labels else words

    def _gain(self, row: _Row) -> Gain:
        """Return the gain of a candidate over the base model."""
        scores = {name: one.scores[self.column] for name, one in self.rows.items()}
        if self.column != "MRR" or self.protocol.split:
            return measured_gain(scores[row.name], scores[BASE])
        finished = [run.finished.training for one in self.rows.values() for run in one.runs]
        tried = [len(one.evaluations) - 1 for one in finished if one.choice.criterion == BY_PAIRS]
        among = SelectedAmong.named(
            scores,
            row.name,
            unseen=(len(scores) - 1) * (max(tried, default=1) - 1),
            selection_bias=float(np.mean([_selection_bias(run) for run in row.runs])),
        )
        return measured_gain(scores[row.name], scores[BASE], among)

    def _counted(self, found: Gain) -> str:
        if self.column == "MRR":
            return counted(found, "groups")
        return f"{number_of(found.items, 'pairs')} of {number_of(found.groups, 'sentences')}"

    def _model(self, row: _Row) -> tuple[str, str | None]:
        """Return the sentences about the advised model, and its folder."""
        seeds, words = row.runs, ""
        shipping = [run for run in seeds if not run.finished.ships_base]
        best = max(shipping, key=_criterion, default=None)
        if best is not None and len(seeds) > 1:
            seed = best.config.seed
            words += f" The model is that of seed {seed}, the best by {self.protocol.criterion}."
        if len(shipping) < len(seeds):
            words += f" {len(seeds) - len(shipping)} of its {len(seeds)} runs ship the base model, "
            words += "which their own verdicts kept."
        if best is None:
            numbers = ", ".join(str(run.config.seed) for run in seeds if _adapted(run))
            words += f" The adapted weights are in checkpoints/kept.safetensors of seed {numbers}."
        return words, None if best is None else str(best.model_folder)


def _selection_bias(run: Run) -> float:
    """Return what the selection of a checkpoint by the test pairs added to a run's gain."""
    results = run.finished
    gained, said = results.adapted.pairs.mrr - results.base.pairs.mrr, results.verdict.gain
    if said is None or said.candidates == 1 or not _adapted(run):
        return 0.0
    return max(0.0, gained - said.mean)


def _adapted(run: Run) -> bool:
    """Return true if a run preferred a checkpoint to its base model."""
    return run.finished.training.choice.step > 0


def _bm25_rows(rows: Mapping[str, _Row], shared: UnseenItems) -> dict[str, BM25Row]:
    """Return the rows "BM25" and ROW + BM25, among which nothing is selected."""
    base = shared.ranked(rows[BASE].items, "MRR")
    found: dict[str, BM25Row] = {}
    for row in rows.values():
        known = [one.with_bm25 for one in row.states]
        if row.name == BASE:
            words = gain(shared.ranked(row.items, "BM25"), base)
            found["BM25"] = BM25Row(_pair_columns([known[0].bm25]), None, words)
        hybrid = shared.ranked(row.items, "fused")
        found[f"{row.name} + BM25"] = BM25Row(
            _pair_columns([one.hybrid for one in known]), known[0].weight, gain(hybrid, base)
        )
    return found


def _other_text(row: _Row, base: _Row, average: str | None) -> dict[str, Gain]:
    """Return the gain over the base model on each set of other text, which selects nothing.

    The items of other text lack STS: its average is the column `average`, `None` where the verdict
    is about it.
    """
    sts = {}
    if average is not None:
        sts[average.replace("Avg", STS)] = gain(row.scores[average], base.scores[average])
    return sts | gains_over(row.other_text, base.other_text[0])


def _pair_columns(seeds: Sequence[PairScores]) -> dict[str, SeedScores]:
    return {
        column: SeedScores.of_seeds([100 * one.values[column] for one in seeds])
        for column in seeds[0].values
    }


def _columns(scores: BenchmarkScores) -> dict[str, float]:
    """Return scores x 100: of the pairs, and the papers' row if there is data."""
    columns = {column: 100 * value for column, value in scores.pairs.values.items()}
    return columns if scores.sts is None else columns | scores.sts.paper_row


def _require_one_benchmark(
    runs: Sequence[Run], baselines: Mapping[str, Sequence[Baseline]]
) -> None:
    """Refuse scores of other text or other test items, which cannot be compared one by one."""
    first = runs[0].finished
    for run in runs:
        own = run.finished
        if (own.corpus.digest, own.benchmark) != (first.corpus.digest, first.benchmark):
            raise UserError(
                f"{runs[0].folder} and {run.folder}: the text changed between these runs. Remove "
                "the runs on the old text, or give another `output`"
            )
    for name, seeds in baselines.items():
        if any(one.about.benchmark != first.benchmark for one in seeds):
            raise UserError(f"`baselines` {name}: was scored on other items. Remove its folder")


def _require_one_base(runs: Sequence[Run]) -> None:
    """Refuse base models with different ranks, such as a folder that was rewritten in between."""
    first, expected = runs[0], runs[0].items("before")["MRR"]
    for run in runs:
        ranks = run.items("before")["MRR"]
        if np.abs(ranks - expected).mean() > _ROUNDING + 1 / len(ranks):
            raise UserError(
                f"{first.folder} and {run.folder}: these runs began with different encoders (MRR "
                f"{100 * expected.mean():.2f} and {100 * ranks.mean():.2f}). Remove the runs of one"
            )


def _settings(run: Run) -> dict[str, Any]:
    settings = to_dict(run.config)
    return {name: value for name, value in settings.items() if name not in ("seed", "output")}


def _protocol(run: Run, shared: UnseenItems) -> ComparisonProtocol:
    results = run.finished
    split = results.split or results.labels is not None
    criterion = f"validation MRR{'' if split else ' (of the test pairs)'}"
    if results.training.choice.criterion == BY_LABELS:
        criterion = f"Spearman on {results.labels}"
    return ComparisonProtocol(
        pairs=results.verdict.protocol,
        sts=PAPER_PROTOCOL if results.adapted.sts else None,
        checkpoints=f"labels: {results.labels}" if results.labels else results.training.choice.rule,
        labels=results.labels,
        unseen=shared.unseen_in_words,
        split=split,
        criterion=criterion,
    )


def _criterion(run: Run, step: int | None = None) -> float:
    """Return the score that selected the kept checkpoint, or that of `step`; never a test score.

    Where the last checkpoint was kept, it is the MRR of held-out pairs.
    """
    training = run.finished.training
    criterion = BY_PAIRS if training.choice.criterion == BY_LAST else training.choice.criterion
    return training.evaluation(training.choice.step if step is None else step)[criterion]
