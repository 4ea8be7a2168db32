"""The search: try candidates for an encoder and a text, select one, test it once.

The candidates go from cheap to dear: the base model; whitening, which needs no training; the
encoder fine-tuned through it; its weights merged with those of the base model. Each candidate is
scored on the validation pairs and on the validation part of other text. A candidate that drops too
much on other text is rejected. The best of the others is scored once on the test pairs.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from isospace.adaptation.adapt_config import AdaptConfig
from isospace.adaptation.advice import advice
from isospace.adaptation.changed import changed_places, changed_queries, first_texts
from isospace.adaptation.cross_validation import FOLD_SHARES, FOLDS, CrossValidated, Folds
from isospace.adaptation.encoder_states import EncoderStates
from isospace.adaptation.measuring import Passes, of_pairs, seconds_per_token
from isospace.adaptation.plan import EARLIEST, SPARE, Plan, counted_from
from isospace.adaptation.results import Best, Candidate, Candidates, Changed, write_candidates
from isospace.adaptation.states import (
    SHARES,
    START,
    Kind,
    State,
    allowed_states,
    by_kind,
    candidates,
)
from isospace.adaptation.times import Times
from isospace.config import TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.corpus.groups import SMALLEST_SPLIT
from isospace.corpus.overview import coverage, sample
from isospace.encoders.pooling import Precision
from isospace.errors import TooLittle, UserError
from isospace.evaluation.benchmark import BenchmarkResult
from isospace.evaluation.held_out import hard_pairs
from isospace.evaluation.hybrid import rank_baselines
from isospace.evaluation.pairs import PromptedEncoders
from isospace.evaluation.retrieval import evaluate_retrieval, mrr_scores
from isospace.evaluation.scores import ADAPTED, BASE, CORRECTED_NOTE, table_rows
from isospace.objectives import RankCSE, SimCSE
from isospace.statistics.choosing import ChosenAmong, added_by_choosing, choose
from isospace.statistics.counts import number_of
from isospace.statistics.gains import Gain, gain
from isospace.statistics.influence import Scores
from isospace.statistics.verdict import Verdict, VerdictKind, base_unless_adapted
from isospace.system.launch import launched
from isospace.system.progress import Logged, Progress
from isospace.system.run_folder import ADAPT_SETTINGS
from isospace.system.signals import StopRequest
from isospace.training.batches import Order
from isospace.training.examples import Examples
from isospace.training.finish import ModelScores, run_results, show_verdict, write_run
from isospace.training.fit import Fit
from isospace.training.lifecycle import start_or_resume, working_in
from isospace.training.lists import gives_cosines, require_scores
from isospace.training.prepare import Data, load_data, say_corpus
from isospace.training.queries import rows_of_queries
from isospace.training.query_map import write_query_map
from isospace.training.requirements import require_settings
from isospace.training.results import RunResults
from isospace.training.run import FinishedRun, Run, begun
from isospace.training.schedule import FEWEST_UPDATES, evaluation_steps
from isospace.training.selection import Choice
from isospace.training.step import Diverged

MOST_EPOCHS = 4.0
"""However much time there is, no example is seen more often."""
MOST_LATE = 0.25
"""Share of a budget in minutes by which so many may exceed it, as far as is known before them."""
SMALLER_BATCHES = (32, 16)
"""Of pairs, where the recipe's are too large for a few documents."""
MINED = 4
"""Texts of the corpus beside each list, for a teacher that does not score the whole batch."""
_KEPT = "candidates"  # in the folder of a run: vectors and times, until it is finished
_DEV_SETS = "dev sets of STS, which bound what may be lost"
_DROPOUT, _PAIRS = "dropout", "pairs"  # recipes
_SELECTED = "the selected candidate"  # of what is not shipped all the same


def adapt(
    config: AdaptConfig | None = None,
    resume: Path | str | None = None,
    progress: Progress | None = None,
) -> FinishedRun:
    """Search for the best encoder, and write the folder of a run with it.

    Args:
        config: the settings of a new search.
        resume: the folder of one to go on with, instead of `config`; candidates that are there are
            not made again. A finished one gives its results.
        progress: where it is shown; default: the log.

    Raises:
        UserError: bad input; refused before the work starts. `TooLittle` where it is the text, so
            that the base model is best kept.
        Stopped: a signal (then `Interrupted`), a full disk, or a loss that diverged.
    """
    started, shown = time.monotonic(), progress or Logged()

    def search(config: AdaptConfig, run: Run | None, stop: StopRequest) -> FinishedRun:
        return _Search(config, shown, stop, started).go(run)

    return start_or_resume(config, resume, _settings, search)


def _settings(run: Run) -> AdaptConfig:
    """The settings of a search to resume.

    Raises:
        UserError: it is a run of train, or its settings are damaged.
    """
    if not (run.folder / ADAPT_SETTINGS).is_file():
        raise UserError(f"{run.folder}: a run of train. Continue it with {run.to_resume[0]}")
    return AdaptConfig.read(run.folder / ADAPT_SETTINGS)


@dataclass(frozen=True)
class _Choosing:
    """A state on the validation items.

    Attributes:
        scores: MRR of the pairs.
        other_text: set -> gain over the base model on its validation part.
    """

    scores: Scores
    other_text: dict[str, Gain]


class _Search:
    """One search: everything loaded, then `go`."""

    def __init__(
        self, config: AdaptConfig, progress: Progress, stop: StopRequest, started: float
    ) -> None:
        self.config, self.progress, self._stop, self._started = config, progress, stop, started
        _require_one_process()
        self.training, self.data, self.notes, self.folds = _recipe(config)
        self._read = time.monotonic()  # when the text was read
        corpus = self.data.corpus
        say_corpus(corpus, config.pairs is not None or self.folds is not None, progress)
        if self.folds is not None:
            progress.line("test pairs", self.folds.described)
            self.notes.append(self.folds.note)
        self.other_text = self.data.other_text
        progress.line("checked on", self.other_text.described)
        if unbounded := [
            name for name in self.other_text.judges if name not in self.other_text.chooses
        ]:
            self.notes.append(
                f"What is lost on {', '.join(unbounded)} is measured and not bounded: it takes "
                f"{SMALLEST_SPLIT} held-out pairs, of several groups, for some of them to choose."
            )
        self.benchmark, held_out = self.data.benchmark, self.data.held_out
        own = self.benchmark.pairs
        if self.benchmark.split and self.folds is None:
            own = hard_pairs(corpus, held_out)
        self.choosers = own.grouped()
        parts = self.folds.corpora if self.folds else ()
        self.states = EncoderStates(self.training, corpus, parts, config.queries_only)
        read = coverage(self.states.encoder, sample(corpus))
        if read.same:
            raise TooLittle(
                f"{config.model}: to its tokenizer all of this text is the same: "
                f"{read.warning or 'give texts that differ'}"
            )
        if warning := read.warning:
            cause = warning.partition(". ")[0]  # without the advice
            self.notes.append(f"{cause[:1].upper()}{cause[1:]}.")
        self._tried: dict[State, _Choosing] = {}
        self._judged: dict[State, ModelScores] = {}
        self._steps: list[int] = []
        """The checkpoint that each training kept, of those that are not left out."""
        self._unseen = 0
        """Evaluations of trainings not kept, where validation pairs are test pairs too."""
        self._plan: Plan | None = None
        """Of minutes that this session began to use."""
        self._flattered: list[float] = []
        """What choosing among them has added to the gain of each training."""

    def go(self, run: Run | None) -> FinishedRun:
        """Search, select, test, write; or go on with what was stopped."""
        if run is None:
            settings = replace(self.training, output=self.config.output)
            run = Run.create(settings, "adapt", self.config.to_json())
        self.run = run
        self._times = Times(run.folder / _KEPT, self._started)
        self._crossed: CrossValidated | None = None
        if self.folds is not None:
            kept = run.folder / _KEPT
            self._crossed = CrossValidated(self.folds, self.states, kept, self.progress)
        with working_in(run.folder, run.how_to_resume):
            return self._finish(self._search())

    def _search(self) -> Fit:
        """Make every candidate, and score it on the validation pairs; return the first training."""
        # What was stopped has used up other minutes: it goes on as it was planned.
        by_clock = self.config.budget[1] == "minutes" and not self.run.last_checkpoint.is_file()
        by_clock = by_clock and not self.config.queries_only
        first = self._fit(self.training)
        if by_clock:
            self._plan = self._first_plan(first)
        if not self.config.queries_only and (warning := self._foreseen(first)):
            self.progress.line("budget", warning)
        if self._crossed is not None:
            with self._timed(BASE):
                self._crossed.score(candidates([0.0], self.states.maps))
        self._try(START)
        with self._timed(BASE):
            encode = self._encode(START)
            self._weight = self.benchmark.choose_weight(encode, self.data.held_out)
            start = self._judge(START).measured
            bm25, hybrid = start.with_bm25.bm25, start.with_bm25.hybrid
            if self._crossed is None:
                bm25, hybrid = rank_baselines(encode, self.choosers, self._weight)
            self._baselines = {
                "BM25": mrr_scores(self.choosers, bm25),
                f"{BASE} + BM25": mrr_scores(self.choosers, hybrid),
            }
        self.progress.table("before training, x 100", table_rows("", {BASE: start.scores}))
        self.progress.line("pairs", self.benchmark.detectable_gain(start))
        self._try(*(State(0.0, change) for change in self.states.maps))
        fit = self._train(first, by_clock)
        if self.states.trained and self._crossed is not None:
            self._cross_validate(self._crossed, fit.loop.total_steps)
        elif self.states.trained:
            self._try_trained()
        return fit

    @property
    def _trained(self) -> State:
        """The fine-tuned weights, behind them the map that they were trained through."""
        return State(1.0, self.states.through)

    def _cross_validate(self, crossed: CrossValidated, updates: int) -> None:
        """Fine-tune once more without each part of the documents, and try what comes of it."""
        seeds = range(self.training.seed, self.training.seed + len(self.states.trained))
        settings = [replace(self.training, seed=seed) for seed in seeds]
        states = candidates(FOLD_SHARES, self.states.maps)
        if self.states.through is not None:  # weights that never were without a map
            states = [state for state in states if state.change is not None]
        with self._timed(self._trained.kind):
            crossed.train(settings, self.data, updates, self._stop, self.run.how_to_resume)
            crossed.score(states)
        self._try(*states)

    def _try_trained(self) -> None:
        """Try the fine-tuned weights, then merged weights as long as these find more.

        All candidates have the map that training went through. The best of them is then tried with
        the other maps. With a budget of minutes, each merge but the first needs time that is left.
        A candidate that drops too much does not end the search: merging may reduce the drop.
        """
        steps = [self._trained]
        self._try(*steps)
        for share in SHARES:
            further = len(steps) > 1
            if further and self._plan and not self._plan.allows_another(time.monotonic()):
                self.notes.append("The minutes allowed for no further way back to the base model.")
                break
            at, nearer = steps[-1], State(share, self.states.through)
            self._try(nearer)
            steps.append(nearer)
            mrr, allowed = self._mrr(), self._allowed()
            if at in allowed and mrr[nearer] <= mrr[at]:
                break
        share = Kind("", tuple(steps)).best(self._mrr(), self._allowed()).share
        others = (State(share, change) for change in self.states.maps)
        self._try(*(state for state in others if state not in steps))

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Note what a kind of candidate takes."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._times.add(name, time.monotonic() - started)

    def _encode(self, state: State) -> PromptedEncoders:
        return self.states.encode(state, self.run.folder / _KEPT)

    def _try(self, *states: State) -> None:
        """Measure candidates on the validation items."""
        for state in states:
            self._measure(state)

    def _measure(self, state: State) -> None:
        """Measure a candidate on the validation items."""
        with self._timed(state.kind):
            encode = self._encode(state)
            if self._crossed is None:
                scores = mrr_scores(self.choosers, evaluate_retrieval(encode, self.choosers))
            else:
                scores = self._crossed.scores(state)
            found = self.other_text.measure(encode, "choose")
        if state == START:
            self._base_other_text = found
        gains = {name: gain(own, self._base_other_text[name]) for name, own in found.items()}
        self._tried[state] = _Choosing(scores, gains)
        shown = [f"MRR {100 * scores.mean:.2f}"]
        if state != START:
            shown += [f"{name} {100 * own.mean:+.2f}" for name, own in gains.items()]
        self.progress.line("tried", f"{state.words}: {', '.join(shown)} on validation pairs")

    def _judge(self, state: State) -> ModelScores:
        """Measure a state on the test items."""
        if state not in self._judged:
            encode = self._encode(state)
            if self._crossed is None:
                self._judged[state] = ModelScores.measure(encode, self.data, self._weight)
            else:
                measured = self._crossed.measured(
                    self._of_parts(state), self.benchmark, encode, self._weight
                )
                found = self.other_text.measure(encode, measured=measured)
                self._judged[state] = ModelScores(measured, found)
        return self._judged[state]

    def _of_parts(self, state: State) -> list[State]:
        """Return the candidate that stands for a state in each part of the documents."""
        assert self._crossed is not None
        return [START] * FOLDS if state == START else self._crossed.selected(self._allowed())

    def _mrr(self) -> dict[State, float]:
        return {state: found.scores.mean for state, found in self._tried.items()}

    def _allowed(self) -> list[State]:
        """Return the candidates whose drop on the validation part of other text is small enough."""
        other_text = {state: found.other_text for state, found in self._tried.items()}
        return allowed_states(other_text, self.config.max_drop)

    def _fit(self, settings: TrainConfig) -> Fit:
        """Load a training."""
        with self._timed(self._trained.kind):
            # What finds less than the base model may find more half-way back to it.
            fit = Fit(
                settings,
                self.progress,
                self._stop,
                self.data,
                start_competes=False,
                due=partial(self._due, settings.evaluations),
                vectors=self.run.folder / _KEPT,
            )
            self.states.put_behind(fit.encoder)
        return fit

    def _foreseen(self, fit: Fit) -> str | None:
        """Say before anything is measured that the budget allows no fine-tuning."""
        (amount, unit), plan, loop = self.config.budget, self._plan, fit.loop
        if self.run.last_checkpoint.is_file() or _most_updates(fit) < FEWEST_UPDATES:
            return None
        if plan is not None:
            measuring = (plan.choosing + plan.judging) * plan.token  # of the base model
            late = time.monotonic() + measuring + SPARE * plan.takes(FEWEST_UPDATES) - plan.until
            too_little, enough = late > MOST_LATE * 60 * amount, math.ceil(amount + late / 60)
        else:
            enough = math.ceil(FEWEST_UPDATES * loop.tokens_per_step * self.config.seeds)
            too_little = unit == "tokens" and amount < enough
        if not too_little:
            return None
        return (
            f"{number_of(amount, unit)} {'seem' if plan else 'are'} too few to fine-tune; "
            f"{'about ' if plan else ''}{enough:,} would do. Post-processing is tried all the same."
        )

    def _train(self, loaded: Fit, by_clock: bool) -> Fit:
        """Train once for each seed, as long as the budget allows.

        Args:
            loaded: the first training.
            by_clock: whether the budget is of minutes that this session began to use.

        Returns:
            The first training that is kept; where none is, the first.
        """
        first: Fit | None = None
        updates, exhausted = 0, True
        for number in range(self.config.seeds):
            settings = replace(self.training, seed=self.training.seed + number)
            run = self._run_of(number, settings)
            fit = self._fit(settings) if number else loaded
            with self._timed(self._trained.kind), fit.holding(run, self.run.how_to_resume):
                fit.begin()
                if number and by_clock and self._plan:
                    self._plan = self._plan.for_the_next()
                updates = self._updates(fit, updates)
                fit.measure_start(updates)
                if updates:
                    self._go(fit)
            if not updates:
                first = first or fit
                break
            self._keep(fit)
            # Of those that are kept; the others hold weights and moments that nothing needs.
            if first is None or (fit.choice.step and not first.choice.step):
                first = fit
            exhausted = exhausted and fit.loop.total_steps == _most_updates(fit)
        assert first is not None
        if exhausted and first.loop.total_steps:
            self.notes.append(f"Each training ends after {MOST_EPOCHS:g} passes over its examples.")
        return first

    def _due(self, evaluations: int, updates: int, last: int) -> list[int]:
        """The updates after which a training is evaluated."""
        if self._plan is not None:
            return self._plan.due(updates, last)
        return evaluation_steps(updates, evaluations, EARLIEST, last)

    def _keep(self, fit: Fit) -> None:
        """Note what a training ended with."""
        if fit.choice.step:
            self.states.trained.append(self.states.read_trained(fit.run.kept_weights))
            self._steps.append(fit.choice.step)
        else:
            self.notes.append(f"A training was left out: {fit.choice.reason}.")
        if tried := fit.tried:  # of fewer pairs, and among fewer texts, than a candidate is
            self._unseen += len(tried.keys() - {0, fit.choice.step})
            if fit.choice.step:
                self._flattered.append(added_by_choosing(list(tried.values())))

    def _go(self, fit: Fit) -> None:
        """Train; what diverges ends with the best evaluation before that."""
        timed = 0  # after which update it was timed last what a token takes

        def planned() -> int:
            nonlocal timed
            assert self._plan is not None
            token = self._plan.token
            if fit.evaluated != timed:
                timed, token = fit.evaluated, self._seconds_per_token("float32")
            self._plan = self._plan.seen(fit.paces.update, fit.paces.evaluation, token)
            updates = self._plan.updates(time.monotonic(), fit.loop.step, fit.evaluated)
            return max(updates, FEWEST_UPDATES)

        try:
            fit.go(planned if self._plan else None)
        except Diverged as error:
            self.notes.append(
                f"A training diverged at update {error.step} ({error.term} {error.value:g}) and "
                "ended there."
            )

    def _run_of(self, number: int, settings: TrainConfig) -> Run:
        """The folder of a training: the first has the run's."""
        folder = self.run.folder / "seeds" / str(number)
        if not number:
            return self.run
        return Run(folder) if begun(folder) else Run.create(replace(settings, output=folder))

    def _first_plan(self, fit: Fit) -> Plan:
        """What the minutes that are left are to be used for."""
        budget = 60 * self.config.budget[0]
        passes = Passes.of(self.states, self.data, self.choosers, fit.training.config)
        token = evaluating = self._seconds_per_token("float32")
        if fit.accelerator.mixed_precision == "bf16":
            evaluating = self._seconds_per_token("bf16")
        trainings, choosing = self.config.seeds, passes.choosing
        if self.folds is not None:  # each part has its trainings, its pairs and its maps
            pairs = sum(of_pairs(self.states.encoder, part) for part in self.folds.of_part)
            trainings *= 1 + FOLDS
            choosing += pairs - passes.pairs + FOLDS * passes.mapped
        return Plan(
            until=counted_from(self._started, self._read, budget) + budget,
            update=fit.loop.seconds_per_step(),
            evaluation=passes.evaluation * evaluating,
            choosing=choosing,
            judging=passes.judging,
            token=token,
            trainings=trainings,
            evaluations=fit.training.config.evaluations,
            most=_most_updates(fit),
        )

    def _seconds_per_token(self, precision: Precision) -> float:
        return seconds_per_token(self.states.encoder, self.choosers.second, precision)

    def _updates(self, fit: Fit, before: int) -> int:
        """How many updates a training begins with; 0 where there is no time for any.

        Without a plan it is as many as `before`, where there was a training before.
        """
        if self.config.queries_only:
            return 0
        (amount, unit), plan = self.config.budget, self._plan
        loop, most = fit.loop, _most_updates(fit)
        if most < FEWEST_UPDATES:
            self.notes.append(
                f"Nothing was trained: {len(fit.training.batches.examples):,} examples are too few "
                f"for {FEWEST_UPDATES} updates of {loop.sentences_per_step} in {MOST_EPOCHS:g} "
                "passes."
            )
            return 0
        enough, late = 0, math.inf
        if fit.begun is not None:
            updates = fit.begun
        elif plan is not None:
            now = time.monotonic()
            updates = plan.updates(now)
            late = now + SPARE * plan.takes(FEWEST_UPDATES) - plan.until
            enough = math.ceil(amount + late / 60)
        else:
            each = loop.tokens_per_step * self.config.seeds
            updates = before or min(int(amount / each), most)
            enough = math.ceil(FEWEST_UPDATES * each)
        if updates >= FEWEST_UPDATES:
            return updates
        if late <= MOST_LATE * 60 * amount and not before:
            self.notes.append(
                f"A budget of about {number_of(enough, unit)} seemed to be needed for "
                f"{FEWEST_UPDATES} updates; they were made all the same."
            )
            return FEWEST_UPDATES
        self.notes.append(
            f"Nothing {'more ' if before else ''}was trained: a budget of "
            f"{number_of(amount, unit)} is too little for {FEWEST_UPDATES} updates of "
            f"{loop.tokens_per_step:,.0f} tokens"
            f"{', besides measuring' if unit == 'minutes' else ''}"
            f"{f'; about {enough:,} would do' if enough and not before else ''}."
        )
        return 0

    def _finish(self, fit: Fit) -> FinishedRun:
        """Choose, judge, write."""
        allowed = self._allowed()
        mrr = self._mrr()
        chosen = allowed[choose([mrr[state] for state in allowed])]
        before, after = self._judge(START), self._judge(chosen)
        among = None if self.benchmark.split else self._among(chosen, allowed)
        kept = self._none_better if chosen == START else None
        verdict = self.benchmark.verdict(before.measured, after.measured, kept, among)
        verdict = base_unless_adapted(verdict)
        trainings = len(self.states.trained)
        plain = chosen == START or (chosen == State(1.0) and self.config.seeds == 1)
        made = "" if plain else chosen.words
        if chosen.share and trainings > 1:
            made += f", averaged over {trainings} trainings"
        step = self._steps[0] if chosen.share else 0
        results = run_results(fit, step, before, after, verdict, made, _SELECTED, among)
        results = replace(
            results,
            config=self.run.config.to_dict(),
            choice=self._choice(fit.choice, chosen, verdict),
            labels=_DEV_SETS if self.other_text.dev else None,
            seconds=self._times.whole,
        )
        better, worse = self._changed(chosen, before.measured, after.measured)
        best = max(mrr, key=lambda state: mrr[state])
        if mrr[best] > mrr[chosen]:
            lost = self._tried[best].other_text.items()
            self.notes.append(
                f"On other text the best drops more than {self.config.max_drop:g} points: "
                f"{best.words}, {100 * (mrr[best] - mrr[START]):+.2f} points on validation pairs; "
                f"{', '.join(f'{name} {100 * one.mean:+.2f}' for name, one in lost)}."
            )
        kinds = by_kind(self._tried)
        searched = Candidates(
            tuple(self._candidate_of(state, allowed) for kind in kinds for state in kind.states),
            tuple(self._best_of(kind.best(mrr, allowed), chosen) for kind in kinds),
            {name: scores.mean for name, scores in self._baselines.items()},
            tuple(self.notes),
            f"{len(self.choosers):,} {self.choosers.name}",
            self.config.max_drop,
            self.other_text.described,
            better,
            worse,
            self._times.whole,
            {
                name: gain(scores, self._tried[START].scores)
                for name, scores in self._baselines.items()
            },
        )
        encoder = self.states.shipped(chosen, self._encode(chosen))
        if encoder.prompts.routed and not results.ships_base:
            write_query_map(self.run.folder, encoder)
        write_candidates(self.run.folder, searched)
        write_run(self.run, results, encoder, self.data, before, after)
        shutil.rmtree(self.run.folder / _KEPT, ignore_errors=True)
        self._show(searched, results)
        scores = [self.benchmark.pair_scores(one.measured.retrieval) for one in (before, after)]
        advised = advice(verdict, self.benchmark.pairs.unit, *scores)
        show_verdict(self.run, results, self.progress, advised)
        return FinishedRun(self.run, results)

    def _best_of(self, state: State, chosen: State) -> Best:
        found = self._tried[state]
        return Best(
            state.kind,
            state.words,
            state == chosen,
            found.scores.mean,
            None if state == START else gain(found.scores, self._tried[START].scores),
            {} if state == START else found.other_text,
            self._times.kinds[state.kind],
        )

    def _candidate_of(self, state: State, allowed: Sequence[State]) -> Candidate:
        found = self._tried[state]
        change = {name: one.mean for name, one in found.other_text.items()}
        return Candidate(state.words, state.kind, found.scores.mean, change, state in allowed)

    def _among(self, chosen: State, allowed: Sequence[State]) -> ChosenAmong:
        """What the test pairs have chosen the state among.

        Where the base model is kept the best of all others is told, whether it could be taken or
        not.
        """
        scores = {state: found.scores for state, found in self._tried.items()}
        flattered = float(np.mean(self._flattered or [0.0])) if chosen.share else 0.0
        return ChosenAmong.named(
            scores,
            chosen,
            allowed=None if chosen == START else allowed,
            unseen=self._unseen,
            selection_bias=flattered,
        )

    @property
    def _none_better(self) -> str:
        """Say why the base model is kept, where it is."""
        return (
            "no candidate finds more of the validation pairs and drops at most "
            f"{self.config.max_drop:g} points on other text"
        )

    def _choice(self, trained: Choice, chosen: State, verdict: Verdict) -> Choice:
        """What was kept of the (first) training; where the base model is shipped, why."""
        if verdict.kind is not VerdictKind.KEEP_BASE:
            return trained
        reason = f"the base model: {self._none_better}"
        if chosen != START:
            reason = (
                "the base model, because of the verdict; selected on the validation pairs: "
                f"{chosen.words}"
            )
        return replace(trained, step=0, value=trained.base_value, reason=reason)

    def _changed(
        self, chosen: State, before: BenchmarkResult, after: BenchmarkResult
    ) -> tuple[tuple[Changed, ...], tuple[Changed, ...]]:
        """Ten queries that gained most, ten that lost most."""
        if chosen == START:
            return (), ()
        pairs = self.benchmark.pairs
        ranks = before.retrieval.ranks, after.retrieval.ranks
        better, worse = changed_places(*ranks)
        first = [
            first_texts(self._encode(state), pairs, better + worse)
            if self._crossed is None
            else self._crossed.first_texts(self._of_parts(state), better + worse)
            for state in (START, chosen)
        ]
        return (
            changed_queries(pairs, better, ranks, [own[: len(better)] for own in first]),
            changed_queries(pairs, worse, ranks, [own[len(better) :] for own in first]),
        )

    def _show(self, searched: Candidates, results: RunResults) -> None:
        """Show the candidates, the one that was selected, and its scores on the test pairs."""
        self.progress.table("candidates, on the validation pairs, x 100", searched.rows())
        for sentence in searched.notes:
            self.progress.line("note", sentence)
        selected = searched.selected.name
        if results.ships_base and not searched.best[0].selected:
            selected += "; the base model is kept all the same, because of the verdict"
        self.progress.line("selected", selected)
        states, after = {BASE: results.base}, f"{ADAPTED}{results.not_shipped}"
        if not searched.best[0].selected:
            states[after] = results.adapted
        judging = "the test pairs"
        if not self.benchmark.split:
            judging += f", which are the validation pairs too ({CORRECTED_NOTE})"
        rows = table_rows("", states, results.over_base(after))
        self.progress.table(f"before and after, on {judging}", rows)
        folder = self.run.folder
        if self.config.queries_only and not results.ships_base:
            self.progress.line("deploy", "keep the index; encode queries with this model")
        self.progress.line("took", f"{searched.seconds:.0f} s; everything is in {folder}")


def _most_updates(fit: Fit) -> int:
    """However much time there is."""
    return int(MOST_EPOCHS * fit.loop.updates_per_epoch)


def _require_one_process() -> None:
    if launched():
        raise UserError("adapt runs in one process; start it without a launcher, or use train")


def _recipe(config: AdaptConfig) -> tuple[TrainConfig, Data, list[str], Folds | None]:
    """How this text is trained on: by pairs of it where there are enough, else by dropout.

    Queries from a file are further pairs; text that has none trains by dropout beside them.
    """
    cosines = config.teacher is not None and gives_cosines(config.teacher)
    dropout, pairs = (_training(config, name, cosines) for name in (_DROPOUT, _PAIRS))
    smallest = replace(pairs if config.text.columns else dropout, batch_size=SMALLER_BATCHES[-1])
    require_settings(smallest)
    if config.queries is not None:  # of which the settings of dropout know nothing
        rows_of_queries(config.queries)
    try:
        data = load_data(smallest, other_text_selects=True)
    except TooLittle as error:
        raise TooLittle(_without_batches(error)) from error
    folds = None
    if config.pairs is None:
        folds = Folds.of(data.corpus, data.benchmark, config.text.test_relation)
    corpora = [data.corpus]
    if folds is not None:
        dropout, pairs = (replace(one, select="last") for one in (dropout, pairs))
        corpora += folds.corpora
        nothing = np.zeros(len(data.corpus.groups), dtype=bool)
        whole = data.corpus.holding_out(nothing, folds.relation)
        data = replace(data, corpus=whole, benchmark=folds.benchmark(data.benchmark))
    told: list[str] = []
    found, rest = None, "no pairs" if config.queries is None else "of pairs the queries' alone"
    if data.corpus.related is not None or config.text.columns:
        try:
            found = _in_batches(replace(pairs, queries=None), corpora)
        except TooLittle as error:
            told = [
                f"Two dropout views of each text train, and {rest}: "
                f"{_without_batches(error).partition('. ')[0]}."
            ]
    if config.queries is not None:
        found = _in_batches(pairs if found else replace(pairs, views="both"), corpora)
    found = found or _in_batches(dropout, corpora)
    require_scores(found, data.corpus)
    if found.batch_size < pairs.batch_size:
        told.append(
            f"Batches are of {found.batch_size} "
            f"{'texts' if found.views == 'dropout' else 'pairs'}, as the text makes too few larger "
            "ones."
        )
    return found, data, told, folds


def _without_batches(error: TooLittle) -> str:
    """What there is too little of, without advice to those who choose a batch."""
    return str(error).replace(", or train with a smaller `batch_size`", "")


def _training(config: AdaptConfig, recipe: str, cosines: bool) -> TrainConfig:
    """The settings of a recipe, whose training follows the teacher's ranking too, if there is one.

    Scores that are no cosines have units of their own: of them the order alone is followed.
    """
    settings = config.training(recipe)
    if config.teacher is None:
        return settings
    contrast = settings.objective
    assert isinstance(contrast, SimCSE)
    objective = RankCSE(
        head=contrast.head,
        temperature=contrast.temperature,
        variant="listnet" if cosines else "listmle",
        own_text="in" if settings.views == "pairs" else "out",
    )
    mined = 0 if cosines else MINED
    return replace(settings, objective=objective, teacher=config.teacher, mined=mined)


def _in_batches(pairs: TrainConfig, corpora: Sequence[Corpus]) -> TrainConfig:
    """With the largest of some sizes of a batch in which each of these corpora can train.

    `FEWEST_UPDATES` in `MOST_EPOCHS` passes are enough; of the smallest size one batch is.

    Raises:
        TooLittle: a corpus has no batch of the smallest.
    """
    sizes = dict.fromkeys([pairs.batch_size, *SMALLER_BATCHES])
    for size in sizes:
        settings = replace(pairs, batch_size=size)
        try:
            per_epoch = min(
                Order(Examples.from_corpus(settings, corpus), size, settings.seed).per_epoch
                for corpus in corpora
            )
        except TooLittle:
            if size == SMALLER_BATCHES[-1]:
                raise
            continue
        if MOST_EPOCHS * per_epoch >= FEWEST_UPDATES:
            break
    return settings
