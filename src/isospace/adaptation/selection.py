"""Score candidates on validation pairs, select one, test it, and write and show the results."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from isospace.adaptation.candidates import BASE_MODEL, Candidate, CandidateEncoders, Weights
from isospace.adaptation.cross_validation import CrossValidated
from isospace.adaptation.results import (
    CANDIDATES,
    CandidateScores,
    ChangedQuery,
    SearchResults,
)
from isospace.adaptation.task import Task
from isospace.adaptation.time_plan import Passes, TimePlan
from isospace.evaluation.benchmark import ADAPTED, HYBRID_BASE, SAME_PAIRS
from isospace.evaluation.hybrid import rank_baselines
from isospace.evaluation.other_text import CARRIED
from isospace.evaluation.retrieval import evaluate_retrieval, first_texts, mrr_scores
from isospace.statistics.gains import FEWEST_GROUPS, FloatArray, Gain, Scores, gain
from isospace.statistics.selection import SelectedAmong, best_position
from isospace.statistics.verdict import (
    GAIN_ERROR_SHARE,
    SMALLEST_GAIN,
    Verdict,
    VerdictKind,
    base_unless_adapted,
    error_share,
    pairs_needed,
    rounded,
)
from isospace.system import typed_json
from isospace.system.progress import Progress
from isospace.system.signals import StopRequest
from isospace.training.results import Choice, RunResults, TrainingFacts
from isospace.training.run import FinishedRun, Run
from isospace.training.train import ModelScores, run_results, show_verdict, write_run

FEWEST_OWN = 2 * FEWEST_GROUPS
"""Fewest own pairs that are advised: with fewer, hardly `FEWEST_GROUPS` groups change."""
SHOWN = 10
"""Number of queries that gained most, and of those that lost most."""


@dataclass(frozen=True)
class Search:
    """The values that every step of a search reads.

    `parts` cross-validates a small folder, and `began` is by the monotonic clock.
    """

    task: Task
    encoders: CandidateEncoders
    run: Run
    parts: CrossValidated | None
    began: float
    progress: Progress
    stop: StopRequest

    @cached_property
    def passes(self) -> Passes:
        """Tokens that trained weights process."""
        return Passes.count(self.task, self.encoders, queries=self.encoders.maps.queries_only)

    @property
    def seconds(self) -> float:
        """Seconds since the search began, or was resumed."""
        return time.monotonic() - self.began


@dataclass(frozen=True)
class FineTuned:
    """The result of a fine-tuning; `weights` and the time `plan` are `None` if there are none.

    If the test pairs select the checkpoint, `unseen` checkpoints were not kept, and
    `selection_bias` is the gain that comes only from this selection.
    """

    facts: TrainingFacts
    weights: Weights | None = None
    notes: tuple[str, ...] = ()
    selection_bias: float = 0.0
    unseen: int = 0
    plan: TimePlan | None = None


@dataclass(frozen=True)
class ValidationScores:
    """Scores of one candidate: on the validation pairs, and on each set of other text."""

    pairs: Scores
    other_text: dict[str, Scores]


def allowed_candidates(
    other_text: Mapping[Candidate, Mapping[str, Gain]], max_drop: float
) -> list[Candidate]:
    """Return the candidates that drop at most `max_drop` points (of 100) on other text.

    The limit applies to the measured change, and not to its confidence limit. Sets small enough to
    be encoded in seconds have wide intervals, so that hardly any candidate would pass.

    For the small sets that come with isospace the limit applies to their mean, because the worst of
    several noisy estimates looks worse than the true drop. For other sets it applies to each.

    `other_text` maps a candidate and a set to the gain over the base model on the set's validation
    part.
    """

    def worst(gains: Mapping[str, Gain]) -> float:
        carried = [one.mean for name, one in gains.items() if name in CARRIED]
        changes = [one.mean for name, one in gains.items() if name not in CARRIED]
        return min([*changes, sum(carried) / max(1, len(carried))])

    return [one for one, gains in other_text.items() if worst(gains) >= -max_drop / 100]


@dataclass(frozen=True)
class Tried:
    """The candidates tried so far, the base model first; `max_drop` as in `allowed_candidates`."""

    scores: Mapping[Candidate, ValidationScores]
    max_drop: float

    @property
    def base(self) -> ValidationScores:
        """The base model's scores."""
        return self.scores[BASE_MODEL]

    @property
    def mrr(self) -> dict[Candidate, float]:
        """Candidate -> MRR on the validation pairs."""
        return {candidate: found.pairs.mean for candidate, found in self.scores.items()}

    def gain(self, candidate: Candidate) -> Gain | None:
        """Return the gain of a candidate; `None` for the base model."""
        if candidate == BASE_MODEL:
            return None
        return gain(self.scores[candidate].pairs, self.base.pairs)

    def other_text(self, candidate: Candidate) -> dict[str, Gain]:
        """Return set of other text -> gain of a candidate."""
        own, base = self.scores[candidate].other_text, self.base.other_text
        return {name: gain(scores, base[name]) for name, scores in own.items()}

    @cached_property
    def allowed(self) -> list[Candidate]:
        """The candidates that drop at most `max_drop` points on other text."""
        gains = {one: self.other_text(one) for one in self.scores}
        return allowed_candidates(gains, self.max_drop)

    @property
    def selected(self) -> Candidate:
        """The allowed candidate with the highest validation MRR."""
        mrr = self.mrr
        return self.allowed[best_position([mrr[one] for one in self.allowed])]

    @property
    def error_share(self) -> float:
        """Ratio of the standard error of the selected candidate's gain to the base model's."""
        if self.selected == BASE_MODEL:
            return GAIN_ERROR_SHARE
        return error_share(self.scores[self.selected].pairs, self.base.pairs)

    def results(
        self, baselines: Mapping[str, Scores], selected: Candidate | None = None
    ) -> SearchResults:
        """Return the table of the candidates and baselines; `selected` is marked."""
        return SearchResults(
            tuple(
                CandidateScores(
                    one.name,
                    one.kind,
                    mrr,
                    self.gain(one),
                    self.other_text(one) if one != BASE_MODEL else {},
                    one in self.allowed,
                    one == selected,
                )
                for one, mrr in self.mrr.items()
            ),
            {name: gain(own, self.base.pairs) for name, own in baselines.items()},
        )


def validate(search: Search, tried: Tried, more: Sequence[Candidate]) -> Tried:
    """Score more candidates on the validation items, show the scores, and add them to `tried`."""
    pairs, other_text = search.task.validation, search.task.data.other_text
    for candidate in more:
        encode = search.encoders.encode(candidate)
        if search.parts is None:
            found = mrr_scores(pairs, evaluate_retrieval(encode, pairs))
        else:
            found = search.parts.scores(candidate)
        scores = ValidationScores(found, other_text.measure(encode, "validation"))
        tried = replace(tried, scores={**tried.scores, candidate: scores})
        shown = [f"MRR {100 * scores.pairs.mean:.2f}"]
        if candidate != BASE_MODEL:
            changes = tried.other_text(candidate).items()
            shown += [f"{name} {100 * own.mean:+.2f}" for name, own in changes]
        words = f"{candidate.name}: {', '.join(shown)} on validation pairs"
        search.progress.line("tried", words)
    return tried


def try_closed_forms(search: Search) -> Tried:
    """Score the base model, and each map behind it, on the validation items."""
    tried = Tried({}, search.task.config.max_drop)
    return validate(search, tried, search.encoders.maps.before_training)


def validate_baselines(
    search: Search, weight: float, base: ModelScores | None
) -> dict[str, Scores]:
    """Score BM25 and BM25 + base model on the validation pairs; `base` has them if these test."""
    pairs = search.task.validation
    if base is None:
        bm25, hybrid = rank_baselines(search.encoders.encode(BASE_MODEL), pairs, weight)
    else:
        bm25, hybrid = base.measured.with_bm25.bm25, base.measured.with_bm25.hybrid
    return {"BM25": mrr_scores(pairs, bm25), HYBRID_BASE: mrr_scores(pairs, hybrid)}


def score_test(search: Search, candidate: Candidate, tried: Tried, weight: float) -> ModelScores:
    """Score a candidate on the test items; each part of a small folder selects among `tried`."""
    data, encode = search.task.data, search.encoders.encode(candidate)
    if search.parts is None:
        return ModelScores.measure(encode, data, weight)
    selected = search.parts.selected(candidate, tried.allowed)
    measured = search.parts.measured(selected, data.benchmark, encode, weight)
    return ModelScores(measured, data.other_text.measure(encode, measured=measured))


def score_test_pairs(search: Search, candidate: Candidate, tried: Tried) -> Scores:
    """Return a candidate's scores on the test pairs alone; arguments as for `score_test`."""
    pairs = search.task.data.benchmark.pairs
    if search.parts is not None:
        selected = search.parts.selected(candidate, tried.allowed)
        return search.parts.selected_scores(selected)
    return mrr_scores(pairs, evaluate_retrieval(search.encoders.encode(candidate), pairs))


def finish(
    search: Search,
    tried: Tried,
    baselines: Mapping[str, Scores],
    tuned: FineTuned,
    base: ModelScores,
    weight: float,
    notes: Sequence[str],
) -> FinishedRun:
    """Select a candidate, test it, write the run, and show the verdict."""
    config, data, run = search.task.config, search.task.data, search.run
    selected, adapted, kept = tried.selected, base, None
    if selected == BASE_MODEL:
        kept = _why_base(config.max_drop)
    else:
        adapted = score_test(search, selected, tried, weight)
    among = None if data.benchmark.split else _among(tried, selected, tuned)
    verdict = data.benchmark.verdict(base.measured, adapted.measured, kept, among)
    verdict = base_unless_adapted(verdict)
    choice = _choice(tuned.facts.choice, selected, verdict, config.max_drop)
    results = run_results(
        run.config,
        data,
        replace(tuned.facts, choice=choice, seconds=search.seconds),
        tuned.facts.choice.step if selected.share else 0,
        base,
        adapted,
        verdict,
        "" if selected in (BASE_MODEL, Candidate(1.0)) else selected.name,
        among,
    )
    better, worse = _changed(search, tried, base, adapted)
    searched = replace(
        tried.results(baselines, selected),
        notes=(*notes, *_rejected_note(tried)),
        selected_on=f"{len(search.task.validation):,} {search.task.validation.name}",
        other_text=data.other_text.described,
        better=better,
        worse=worse,
        seconds=search.seconds,
    )
    encoder = search.encoders.shipped(selected)
    typed_json.write(run.folder / CANDIDATES, searched)
    write_run(run, results, encoder, data, base, adapted)
    shutil.rmtree(search.encoders.folder, ignore_errors=True)
    _show(search, searched, results)
    advised = advice(verdict, data.benchmark.pairs.unit)
    show_verdict(run, results, search.progress, advised)
    return FinishedRun(run, results)


def _why_base(max_drop: float) -> str:
    return (
        "no candidate both beats the base model on the validation pairs and drops at most "
        f"{max_drop:g} points on other text"
    )


def _rejected_note(tried: Tried) -> list[str]:
    """Return a note on the best candidate on the validation pairs if its drop rejected it."""
    mrr = tried.mrr
    best = max(mrr, key=lambda candidate: mrr[candidate])
    if mrr[best] <= mrr[tried.selected]:
        return []
    lost = ", ".join(f"{n} {100 * one.mean:+.2f}" for n, one in tried.other_text(best).items())
    return [
        f"The best candidate on the validation pairs drops more than {tried.max_drop:g} points on "
        f"other text: {best.name}, {100 * (mrr[best] - mrr[BASE_MODEL]):+.2f} points on the "
        f"validation pairs; {lost}."
    ]


def _among(tried: Tried, selected: Candidate, tuned: FineTuned) -> SelectedAmong:
    """Return the candidates among which the test pairs selected.

    If the base model is kept, rejected ones are included: the verdict reports the best of all.
    """
    return SelectedAmong.named(
        {candidate: found.pairs for candidate, found in tried.scores.items()},
        selected,
        allowed=None if selected == BASE_MODEL else tried.allowed,
        unseen=tuned.unseen,
        selection_bias=tuned.selection_bias if selected.share else 0.0,
    )


def _choice(trained: Choice, selected: Candidate, verdict: Verdict, max_drop: float) -> Choice:
    if verdict.kind is not VerdictKind.KEEP_BASE:
        return trained
    reason = f"the base model: {_why_base(max_drop)}"
    if selected != BASE_MODEL:
        reason = (
            "the base model, because of the verdict; selected on the validation pairs: "
            f"{selected.name}"
        )
    return replace(trained, step=0, reason=reason)


def _changed(
    search: Search, tried: Tried, base: ModelScores, adapted: ModelScores
) -> tuple[tuple[ChangedQuery, ...], tuple[ChangedQuery, ...]]:
    """Return the ten queries that gained most, and the ten that lost most."""
    selected = tried.selected
    if selected == BASE_MODEL:
        return (), ()
    pairs, parts = search.task.data.benchmark.pairs, search.parts
    ranks = base.measured.retrieval.ranks, adapted.measured.retrieval.ranks
    better, worse = changed_places(*ranks)
    first = [
        first_texts(search.encoders.encode(candidate), pairs, better + worse)
        if parts is None
        else parts.first_texts(parts.selected(candidate, tried.allowed), better + worse)
        for candidate in (BASE_MODEL, selected)
    ]
    found = tuple(
        ChangedQuery(
            pairs.first[place],
            pairs.second[place],
            (float(ranks[0][place]), float(ranks[1][place])),
            (before, after),
        )
        for place, before, after in zip(better + worse, *first, strict=True)
    )
    return found[: len(better)], found[len(better) :]


def changed_places(before: FloatArray, after: FloatArray) -> tuple[list[int], list[int]]:
    """Return the positions of the queries that gained and lost most, from ranks (query,).

    >>> changed_places(np.array([1.0, 9.0, 2.0]), np.array([4.0, 1.0, 2.0]))
    ([1], [0])
    """
    change = 1 / after - 1 / before
    order = np.argsort(-change, kind="stable")
    better = [int(place) for place in order[:SHOWN] if change[place] > 0]
    worse = [int(place) for place in order[::-1][:SHOWN] if change[place] < 0]
    return better, worse


def _show(search: Search, searched: SearchResults, results: RunResults) -> None:
    progress, benchmark = search.progress, search.task.data.benchmark
    progress.table("candidates, on the validation pairs, x 100", searched.rows())
    for sentence in searched.notes:
        progress.line("note", sentence)
    selected = searched.selected.name
    if results.ships_base and not searched.base.selected:
        selected += "; because of the verdict, the run keeps the base model"
    progress.line("selected", selected)
    tested_on = "the test pairs"
    if not benchmark.split:
        tested_on += f", which are the validation pairs too ({SAME_PAIRS})"
    rows = results.before_and_after(f"{ADAPTED}{results.not_shipped}")
    progress.table(f"before and after, on {tested_on}", rows)
    if search.task.config.queries_only and not results.ships_base:
        progress.line("deploy", "keep the index; encode queries with this model")
    progress.line("took", f"{searched.seconds:.0f} s; everything is in {search.run.folder}")


def advice(verdict: Verdict, unit: str) -> str:
    """Return advice on data for a clearer verdict; empty if the verdict is clear.

    `unit` names the groups of pairs, in the plural.
    """
    found = verdict.gain
    if verdict.kind is VerdictKind.ADAPTED or (found is not None and found.high < SMALLEST_GAIN):
        return ""
    own = f"{FEWEST_OWN} or more pairs of your own, a query and its answer a line (`pairs` FILE)"
    if found is None:
        return f"no candidate beats the base model on these pairs; more text may help, or {own}"
    groups = found.groups
    needed = groups * pairs_needed(found) / found.items
    if found.changed_groups < FEWEST_GROUPS:
        least = FEWEST_GROUPS * groups / max(1, found.changed_groups)
        needed = max(needed, min(least, FEWEST_GROUPS * groups))
    noun = "documents" if "documents" in unit else unit if groups < found.items else "pairs"
    more = f"to tell more, give about {rounded(math.ceil(needed))} {noun} like these {groups:,}"
    return more if noun == "pairs" else f"{more}, or {own}"
