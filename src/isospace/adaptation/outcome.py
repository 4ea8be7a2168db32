"""The end of a search: select a candidate, test it, and write and show the results."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from isospace.adaptation.candidates import BASE_MODEL, Candidate
from isospace.adaptation.fine_tune import FineTuned
from isospace.adaptation.results import ChangedQuery, SearchResults, write_results
from isospace.adaptation.scoring import Search, Tried, score_test
from isospace.evaluation.benchmark import ADAPTED, SAME_PAIRS
from isospace.evaluation.retrieval import first_texts
from isospace.statistics.gains import CONFIDENCE, FEWEST_GROUPS, FloatArray, Scores
from isospace.statistics.selection import SelectedAmong
from isospace.statistics.verdict import (
    POWER,
    SMALLEST_GAIN,
    Verdict,
    VerdictKind,
    base_unless_adapted,
    pairs_needed,
    rounded,
)
from isospace.training.card import has_query_map, write_query_map
from isospace.training.results import Choice, RunResults
from isospace.training.run import FinishedRun
from isospace.training.train import ModelScores, run_results, show_verdict, write_run

FEWEST_OWN = 2 * FEWEST_GROUPS
"""Fewest own pairs that are advised: with fewer, hardly `FEWEST_GROUPS` groups change."""
SHOWN = 10
"""Number of queries that gained most, and of those that lost most."""
_DEV_SETS = "dev sets of STS, which limit the drop"


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
    results = replace(results, labels=_DEV_SETS if data.other_text.dev else None)
    better, worse = _changed(search, tried, base, adapted)
    searched = replace(
        tried.results(baselines, selected),
        notes=(*notes, *_rejected_note(tried)),
        selected_on=f"{len(search.task.validation):,} {search.task.validation.name}",
        max_drop=config.max_drop,
        other_text=data.other_text.described,
        better=better,
        worse=worse,
        seconds=search.seconds,
    )
    encoder = search.encoders.shipped(selected)
    if has_query_map(encoder) and not results.ships_base:
        write_query_map(run.folder, encoder)
    write_results(run.folder, searched)
    write_run(run, results, encoder, data, base, adapted)
    shutil.rmtree(search.encoders.folder, ignore_errors=True)
    _show(search, searched, results)
    scores = [data.benchmark.pair_scores(one.measured.retrieval) for one in (base, adapted)]
    advised = advice(verdict, data.benchmark.pairs.unit, *scores)
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

    If the base model is kept, rejected candidates are included: the verdict then reports the best
    of all others.
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
    """Return the positions of the queries that gained most and lost most in reciprocal rank.

    Args:
        before: (query,) ranks by the first encoder.
        after: (query,) ranks by the second encoder.

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


def advice(verdict: Verdict, unit: str, before: Scores, after: Scores) -> str:
    """Return advice on data for a clearer verdict; empty if the verdict is clear.

    `unit` names the groups of pairs, in the plural; `before` and `after` are the scores of the
    base model and of the adapted model on the pairs.
    """
    found = verdict.gain
    if verdict.kind is VerdictKind.ADAPTED or (found is not None and found.high < SMALLEST_GAIN):
        return ""
    own_pairs = "pairs of your own, a query and its answer a line (`pairs` FILE)"
    if found is None:
        return (
            "no candidate beats the base model on these pairs; more text may help, or "
            f"{FEWEST_OWN} or more {own_pairs}"
        )
    difference = (after.values - before.values).mean(0)
    seen = max(abs(found.mean), SMALLEST_GAIN)
    both = stats.norm.isf((1 - CONFIDENCE) / 2) + stats.norm.isf(1 - POWER)
    own = max(FEWEST_OWN, (both * float(np.std(difference)) / seen) ** 2)
    groups = len(np.unique(before.groups))
    needed = groups * pairs_needed(found) / found.items
    if found.changed_groups < FEWEST_GROUPS:
        least = FEWEST_GROUPS * groups / max(1, found.changed_groups)
        needed = max(needed, min(least, FEWEST_GROUPS * groups))
    noun = "documents" if "documents" in unit else unit if groups < found.items else "pairs"
    more = f"to tell more, give about {rounded(math.ceil(needed))} {noun} like these {groups:,}"
    # Pairs need no second number of pairs, which another rule estimates.
    return more if noun == "pairs" else f"{more}, or about {rounded(own)} {own_pairs}"
