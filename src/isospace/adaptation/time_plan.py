"""Plan for a budget of minutes: amount of measuring, and number of updates of a training.

The plan uses measured speeds. It is made before the work and updated during a training, because the
load of a laptop changes.

Work is counted in tokens and not in words. A word of a language that the tokenizer hardly knows has
many tokens, and the encoder cuts long texts.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice

from isospace.adaptation.adapt_config import AdaptConfig
from isospace.adaptation.candidate_encoders import CandidateEncoders
from isospace.config import TrainConfig
from isospace.corpus.dedup import without_words_of
from isospace.corpus.examples import evenly
from isospace.encoders.encoder import Encoder
from isospace.encoders.pooling import Precision
from isospace.encoders.prompts import Side
from isospace.evaluation.held_out import NOISY_SENTENCES
from isospace.evaluation.pairs import Asked, TextPairs
from isospace.evaluation.retrieval import Targets
from isospace.statistics.counts import number_of
from isospace.training.prepare import Data
from isospace.training.schedule import evaluation_steps
from isospace.whiten.fitting import FITTED_ON, MOST_PAIRS

EARLIEST = 24
"""Earliest update after which a training is evaluated. On some text, pairs teach most in so few
updates, and three times as many updates make the model worse than the base model."""
BETWEEN_EVALUATIONS = 5
"""Smallest ratio of training time between two evaluations to the time of one evaluation, except for
the last evaluation. An evaluation in the middle then takes a tenth of the training at most."""
MOST_READING = 0.5
"""Largest share of a budget in minutes that is counted for reading the text."""
MOST_LATE = 0.25
"""Largest share of a budget in minutes by which fine-tuning may be expected to exceed it."""
TRIED = 2
"""Number of weights that always get time for validation: the trained ones, and a first merge."""
SPARE = 1.1
"""Factor on timed work: processors slow down as they warm, and ranking, maps and files take
time."""
FITTING = 0.05
"""Largest share of a budget in minutes for encoding the pairs that maps are fitted on."""
FEWEST_FITTED, LEAST_SHARE = 300, 0.25
"""Fewest pairs to fit on, and smallest share of pairs to measure, however short the budget: 300
pairs give most of the gain of a map."""
_WARM, _TIMED = 32, 256  # texts encoded to warm up, and to time; small batches are slower
_AT_ONCE = 4096  # texts that are tokenized at a time, to limit memory


@dataclass(frozen=True)
class Amounts:
    """Amounts that a search measures, kept in the run's folder for a resumed run.

    Attributes:
        fitted_on: largest number of pairs on which maps are fitted.
        share: the share of the validation and test pairs, and of their passages, that is used.
        fine_tunes: true if fine-tuning is expected to fit the budget.
        enough: minutes that would allow fine-tuning, if the budget is too short; else 0.
        seconds: seconds of earlier sessions of a resumed run; a killed session adds none.
    """

    fitted_on: int = FITTED_ON
    share: float = 1.0
    fine_tunes: bool = True
    enough: int = 0
    seconds: float = 0.0
    format: int = 2

    @classmethod
    def planned(
        cls,
        passes: Passes,
        token: float,
        minutes: float,
        left: float,
        whole: bool,
    ) -> Amounts:
        """Plan the amounts that the minutes allow.

        Args:
            passes: the tokens to encode, with maps fitted on `FITTED_ON` pairs.
            token: seconds that the encoder takes per token.
            minutes: the budget.
            left: seconds left of the budget.
            whole: measure all pairs, however long it takes.

        >>> passes = Passes(
        ...     validating=2000, pairs=900, mapped=600, testing=1000, other_text=1000,
        ...     evaluation=10, trained=5000,
        ... )
        >>> Amounts.planned(passes, token=0.005, minutes=1, left=50, whole=False)
        Amounts(fitted_on=3000, share=1.0, fine_tunes=True, enough=0, seconds=0.0, format=2)
        >>> found = Amounts.planned(passes, token=0.02, minutes=1, left=50, whole=False)
        >>> found.fitted_on, round(found.share, 2), found.fine_tunes, found.enough
        (1909, 0.64, False, 4)
        """
        cost = SPARE * token
        late = cost * (passes.validating + passes.testing + passes.trained) - left
        fine_tunes = whole or late <= MOST_LATE * 60 * minutes
        enough = 0 if fine_tunes else math.ceil(minutes + late / 60)
        can_shrink = passes.validating + passes.testing - passes.other_text
        share = (left / max(cost, 1e-12) - passes.other_text) / max(can_shrink, 1)
        if share >= 1:
            affordable = FITTING * 60 * minutes * FITTED_ON / max(token * passes.mapped, 1e-9)
            return cls(int(min(max(FITTED_ON, affordable), MOST_PAIRS)), 1.0, fine_tunes, enough)
        fitted_on = max(FEWEST_FITTED, int(share * FITTED_ON))
        return cls(fitted_on, 1.0 if whole else max(share, LEAST_SHARE), fine_tunes, enough)

    def words(self, config: AdaptConfig) -> str:
        """Return a sentence on what a short budget leaves out; empty if it leaves out nothing."""
        if self.share == 1 and self.fitted_on >= FITTED_ON:
            return ""
        left = ""
        if self.share < 1:
            pairs = "validation pairs" if config.pairs else "validation and test pairs"
            left = f", and {100 * self.share:.0f} % of the {pairs} and of their passages are used"
        return (
            f"{number_of(*config.budget)}: maps are fitted on {self.fitted_on:,} pairs at most"
            f"{left}. A larger budget uses more."
        )


@dataclass(frozen=True)
class Passes:
    """Numbers of tokens that the encoder processes to score candidates.

    The numbers are slightly too high if the same pairs select and test.

    Attributes:
        validating: tokens of the validation items, to be encoded once for each weights tried.
        pairs: the part of `validating` that comes from the corpus' own pairs.
        mapped: tokens of the texts that maps are fitted on. They are part of `validating` if
            training goes through a map, because all trained weights then have one. Otherwise they
            are part of `testing`.
        testing: tokens of the test items, for the selected weights.
        other_text: the part of `validating` and `testing` that is other text, STS included.
        evaluation: tokens of one evaluation in a training.
        trained: tokens to validate `TRIED` trained weights, and to test one: of queries alone, if
            documents keep their vectors.
    """

    validating: int
    pairs: int
    mapped: int
    testing: int
    other_text: int
    evaluation: int
    trained: int

    @classmethod
    def joined(cls, several: Sequence[Passes], tokens: Sequence[float]) -> Passes:
        """Add the passes of several base models, in tokens of the first model.

        `tokens` are the seconds per token of each model.

        >>> one = Passes(100, 60, 30, 80, 20, 10, 280)
        >>> Passes.joined([one, one], [0.001, 0.01]).validating
        1100
        """
        times = [token / tokens[0] for token in tokens]
        return cls(
            **{
                field.name: round(
                    sum(
                        getattr(own, field.name) * by
                        for own, by in zip(several, times, strict=True)
                    )
                )
                for field in fields(cls)
            }
        )

    @classmethod
    def count(
        cls,
        encoders: CandidateEncoders,
        data: Data,
        validation: TextPairs,
        config: TrainConfig,
    ) -> Passes:
        """Count the tokens of a search.

        Args:
            encoders: holds the encoder, whose tokenizer, limit and prompts all candidates share.
            data: the test pairs, the validation pairs of other text, and the held-out text of
                evaluations.
            validation: the validation pairs.
            config: settings of a training; its `max_length` counts.
        """
        encoder, benchmark, other_text = encoders.encoder, data.benchmark, data.other_text
        own = of_pairs(encoder, validation)
        selecting = sum(of_pairs(encoder, pairs) for pairs in other_text.validation_pairs.values())
        selecting += sum(
            tokens_of(encoder, (None, (*dev.first, *dev.second))) for dev in other_text.dev
        )
        bare = [text for pair in benchmark.pairs if (text := without_words_of(*pair)) != pair[1]]
        testing = of_pairs(encoder, benchmark.pairs, ("document", (*bare, *benchmark.sample)))
        tests = [test for task in benchmark.tasks.values() for test in task.subsets.values()]
        others = tokens_of(
            encoder, (None, [text for test in tests for text in (*test.first, *test.second)])
        )
        others += sum(of_pairs(encoder, pairs) for pairs in other_text.test_pairs.values())
        mapped = tokens_of(encoder, *encoders.fit_texts, max_length=config.max_length)
        held_out = data.held_out
        noisy = held_out.sentences[:NOISY_SENTENCES]
        evaluation = of_pairs(encoder, held_out.pairs)
        evaluation += tokens_of(encoder, ("document", held_out.sentences))
        evaluation += 2 * tokens_of(encoder, ("document", noisy), max_length=config.max_length)
        through = encoders.through is not None
        validating = own + selecting + mapped * through
        testing += others + mapped * (not through)
        trained = TRIED * validating + testing
        if encoders.of_queries:
            sets = [validation, *other_text.validation_pairs.values()]
            trained = TRIED * tokens_of(encoder, *(("query", one.first) for one in sets))
            sets = [benchmark.pairs, *other_text.test_pairs.values()]
            trained += tokens_of(encoder, *(("query", one.first) for one in sets))
        return cls(
            validating=validating,
            pairs=own,
            mapped=mapped,
            testing=testing,
            other_text=selecting + others,
            evaluation=evaluation,
            trained=trained,
        )


def of_pairs(encoder: Encoder, pairs: TextPairs, *others: Asked) -> int:
    """Count the tokens of pairs and their other passages, and of the texts in `others`."""
    return tokens_of(
        encoder, ("query", pairs.first), ("document", Targets.of_pairs(pairs).texts), *others
    )


def tokens_of(encoder: Encoder, *asked: Asked, max_length: int | None = None) -> int:
    """Count the tokens of texts; a repeated text counts once for each prompt.

    Texts are cut to `max_length` tokens; default: the encoder's own limit.
    """
    by_prompt: dict[str, tuple[Side | None, dict[str, None]]] = {}
    for side, texts in asked:
        _, distinct = by_prompt.setdefault(encoder.prompts.for_side(side), (side, {}))
        distinct.update(dict.fromkeys(texts))
    count = 0
    for side, distinct in by_prompt.values():
        remaining = iter(distinct)
        while batch := list(islice(remaining, _AT_ONCE)):
            count += sum(map(len, encoder.tokens.ids(batch, max_length, side=side)))
    return count


def seconds_per_token(encoder: Encoder, texts: Sequence[str], precision: Precision) -> float:
    """Return the seconds that the encoder takes per token, timed on some of the texts."""
    timed = [texts[place] for place in evenly(len(texts), _TIMED)]
    tokens = sum(map(len, encoder.tokens.ids(timed, side="document")))
    encoder.embed(timed[:_WARM], precision=precision, side="document")  # allocates memory
    started = time.monotonic()
    encoder.embed(timed, precision=precision, side="document")
    return (time.monotonic() - started) / max(1, tokens)


@dataclass(frozen=True)
class TimePlan:
    """Plan of the remaining time of a search: the next training, and the work after it.

    Attributes:
        until: the time at which the search must end, in seconds by some clock.
        update: seconds per update.
        evaluation: seconds per evaluation.
        validating: tokens that are encoded to validate one candidate's weights.
        testing: tokens that are encoded to test the selected candidate.
        token: seconds per token.
        trainings: number of trainings, those of parts included; all get equally many updates.
        evaluations: number of evenly spaced evaluations of a training; a long training has more
            near its start.
        most: largest number of updates of a training.
    """

    until: float
    update: float
    evaluation: float
    validating: int
    testing: int
    token: float
    trainings: int
    evaluations: int
    most: int

    def takes(self, updates: int, done: int = 0, evaluated: int = 0) -> float:
        """Return the seconds of all remaining work, without a reserve.

        Args:
            updates: number of updates of each training.
            done: updates that the current training has done.
            evaluated: the update after which the current training was last evaluated.
        """
        usual = len(self.due(updates))
        own = sum(step > done for step in self.due(updates, evaluated))
        own += not done  # of the base model, whose vectors later trainings reuse
        training = (self.trainings * updates - done) * self.update
        evaluating = (own + (self.trainings - 1) * usual) * self.evaluation
        measuring = TRIED * self.validating + self.testing
        return training + evaluating + measuring * self.token

    def updates(self, now: float, done: int = 0, evaluated: int = 0) -> int:
        """Return the number of updates of each training that the time allows.

        Args:
            now: the current time, by the clock of `until`.
            done: as in `takes`.
            evaluated: as in `takes`.

        >>> plan = TimePlan(122, update=1, evaluation=5, validating=15, testing=10, token=0.5,
        ...     trainings=1, evaluations=2, most=400)
        >>> plan.updates(0), plan.updates(45, done=40, evaluated=38)
        (75, 85)
        """
        left = (self.until - now) / SPARE
        numbers = range(self.most + 1)
        fits = bisect_right(numbers, left, key=lambda number: self.takes(number, done, evaluated))
        return max(fits - 1, 0)

    def seen(self, update: float, evaluation: float | None, token: float) -> TimePlan:
        """Return the plan with measured seconds; `evaluation` is `None` before the first one."""
        if evaluation is None:
            evaluation = self.evaluation
        return replace(self, update=update, evaluation=evaluation, token=token)

    def allows_another(self, now: float) -> bool:
        """Return true if there is time to try another candidate, and to test the selected one."""
        return now + SPARE * (self.validating + self.testing) * self.token <= self.until

    def due(self, updates: int, last: int = 0) -> list[int]:
        """Return the updates after which a training is evaluated, those after `last` only.

        >>> plan = TimePlan(360, update=2.5, evaluation=14, validating=15, testing=10, token=0.5,
        ...     trainings=1, evaluations=2, most=400)
        >>> plan.due(50), plan.due(60), plan.due(60, last=20)
        ([50], [30, 60], [60])
        """
        if not updates:
            return []
        found = []
        for step in evaluation_steps(updates, self.evaluations, EARLIEST, last):
            between = (step - last) * self.update
            if step == updates or between >= BETWEEN_EVALUATIONS * self.evaluation:
                found.append(step)
                last = step
        return found


def counted_from(started: float, read: float, budget: float) -> float:
    """Return the time at which a budget begins; reading the text counts `MOST_READING` at most.

    All times are in seconds; `started` is the start of the command, `read` the end of the reading.

    >>> counted_from(0, 40, 360), counted_from(0, 600, 360)
    (0, 420.0)
    """
    return max(started, read - MOST_READING * budget)
