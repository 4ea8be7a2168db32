"""Plan for a budget of minutes: amount of measuring, and number of updates of a training.

The plan uses measured speeds, and is updated during a training, because the load of a laptop
changes. Work is counted in tokens: a word of a language that the tokenizer hardly knows has many.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from isospace.adaptation.candidates import CandidateEncoders
from isospace.adaptation.cross_validation import FOLDS
from isospace.adaptation.fitting import FITTED_ON
from isospace.adaptation.task import Task
from isospace.config import AdaptConfig
from isospace.corpus.groups import evenly
from isospace.encoders.encoder import Encoder
from isospace.encoders.settings import Precision, Side
from isospace.errors import number_of
from isospace.evaluation.benchmark import NOISY_SENTENCES, HeldOut
from isospace.evaluation.pairs import Asked, TextPairs
from isospace.training.loop import evaluation_steps

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
"""Number of weights that get time for validation: the fine-tuned ones, and one merge. If that
leaves too little time to train, only the fine-tuned ones do (`TimePlan.tried`)."""
SPARE = 1.1
"""Factor on timed work: processors slow down as they warm, and ranking, maps and files take
time."""
FEWEST_FITTED, LEAST_SHARE = 300, 0.25
"""Fewest pairs to fit on, and smallest share of pairs to measure, however short the budget: 300
pairs give most of the gain of a map."""
_WARM, _TIMED, _TURNS = 32, 128, 3  # texts to warm up, texts of a timed turn, and turns
_AT_ONCE = 4096  # texts that are tokenized at a time, to limit memory


@dataclass(frozen=True)
class Amounts:
    """Amounts that a search measures, kept in the run's folder for a resumed run.

    `fitted_on` is the largest number of pairs on which maps are fitted, and `share` the share of
    the validation and test pairs, and of their passages, that is used.
    """

    fitted_on: int = FITTED_ON
    share: float = 1.0
    format: int = 5

    @classmethod
    def planned(cls, work: Sequence[tuple[float, Passes]], left: float, whole: bool) -> Amounts:
        """Plan the amounts that the seconds left allow; `whole` measures all pairs in any case.

        `work` has for each base model the seconds per token, and the tokens.

        >>> passes = Passes(validating=10, mapped=3, testing=5, other_text=5)
        >>> Amounts.planned([(1.0, passes)], left=50, whole=False)
        Amounts(fitted_on=3000, share=1.0, format=5)
        >>> found = Amounts.planned([(4.0, passes)], left=50, whole=False)
        >>> found.fitted_on, round(found.share, 2)
        (1909, 0.64)
        """
        scoring = sum(token * (own.validating + own.testing) for token, own in work)
        other_text = sum(token * own.other_text for token, own in work)
        share = (left / SPARE - other_text) / max(scoring - other_text, 1e-9)
        if share >= 1:
            return cls()
        fitted_on = max(FEWEST_FITTED, int(share * FITTED_ON))
        return cls(fitted_on, 1.0 if whole else max(share, LEAST_SHARE))

    def note(self, config: AdaptConfig) -> str:
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
    """Numbers of tokens to encode: slightly too high if the same pairs select and test.

    Attributes:
        validating: for each weights tried: the validation items, and the texts to fit maps on.
        mapped: the part of `validating` that maps are fitted on.
        testing: the test items, for the selected weights.
        other_text: the part of `validating` and `testing` that is other text, STS included.
    """

    validating: int
    mapped: int
    testing: int
    other_text: int

    @property
    def trained(self) -> int:
        """Tokens to validate `TRIED` trained weights, and to test one."""
        return TRIED * self.validating + self.testing

    @classmethod
    def count(cls, task: Task, encoders: CandidateEncoders, queries: bool = False) -> Passes:
        """Count the tokens of a search, or with `queries` those of its queries alone."""

        def tokens(*asked: Asked, max_length: int | None = None) -> int:
            kept = [one for one in asked if one[0] == "query" or not queries]
            return tokens_of(encoders.encoder, *kept, max_length=max_length)

        def of_sets(sets: Iterable[TextPairs]) -> int:
            return sum(tokens(*pairs.asked) for pairs in sets)

        other, benchmark = task.data.other_text, task.data.benchmark
        mapped = tokens(*encoders.fit_texts, max_length=task.training.max_length)
        if task.folds is not None:  # maps are fitted again without each part
            mapped *= 1 + FOLDS
        selecting = of_sets(other.validation_pairs.values())
        *own, sts = benchmark.asked
        others = of_sets(other.test_pairs.values()) + tokens(sts)
        return cls(
            validating=of_sets(task.ranked) + selecting + mapped,
            mapped=mapped,
            testing=tokens(*own) + others,
            other_text=selecting + others,
        )


def evaluation_tokens(encoder: Encoder, held_out: HeldOut, max_length: int | None) -> int:
    """Count the tokens of one evaluation in a training, which cuts texts to `max_length`."""
    noisy = held_out.sentences[:NOISY_SENTENCES]
    whole = tokens_of(encoder, *held_out.pairs.asked)
    whole += tokens_of(encoder, ("document", held_out.sentences))
    return whole + 2 * tokens_of(encoder, ("document", noisy), max_length=max_length)


def tokens_of(encoder: Encoder, *asked: Asked, max_length: int | None = None) -> int:
    """Count the tokens of texts, cut to `max_length`; equal texts count once for each prompt."""
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
    """Return the seconds that the encoder takes per token: the median of a few timed turns."""
    timed = [texts[place] for place in evenly(len(texts), _TIMED)]
    tokens = sum(map(len, encoder.tokens.ids(timed, side="document")))
    encoder.embed(timed[:_WARM], precision=precision, side="document")  # allocates memory
    seconds = []
    for _ in range(_TURNS):
        started = time.monotonic()
        encoder.embed(timed, precision=precision, side="document")
        seconds.append(time.monotonic() - started)
    return median(seconds) / max(1, tokens)


@dataclass(frozen=True)
class TimePlan:
    """Plan of the remaining time of a search: the next training, and the work after it.

    Attributes:
        until: the time at which the search must end, in seconds by some clock.
        update: seconds per update, as `evaluation` and `token`.
        validating: tokens that are encoded to validate one candidate's weights.
        testing: tokens that are encoded to test the selected candidate.
        trainings: number of trainings, those of parts included; all get equally many updates.
        evaluations: number of evenly spaced evaluations; a long training has more near its start.
        most: largest number of updates of a training.
        tried: number of weights whose validation gets time: `TRIED`, or 1 if time is short.
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
    tried: int = TRIED

    def takes(self, updates: int, done: int = 0, evaluated: int = 0) -> float:
        """Return the seconds of all remaining work, without a reserve, if trainings have `updates`.

        The current training has made `done`, and was last evaluated after `evaluated`.
        """
        usual = len(self.due(updates))
        own = sum(step > done for step in self.due(updates, evaluated))
        own += not done  # of the base model, whose vectors later trainings reuse
        training = (self.trainings * updates - done) * self.update
        evaluating = (own + (self.trainings - 1) * usual) * self.evaluation
        measuring = self.tried * self.validating + self.testing
        return training + evaluating + measuring * self.token

    def updates(self, now: float, done: int = 0, evaluated: int = 0) -> int:
        """Return the number of updates of each training that the time allows (see `takes`).

        >>> plan = TimePlan(122, update=1, evaluation=5, validating=15, testing=10, token=0.5,
        ...     trainings=1, evaluations=2, most=400)
        >>> plan.updates(0), plan.updates(45, done=40, evaluated=38)
        (75, 85)
        """
        left = (self.until - now) / SPARE
        numbers = range(self.most + 1)
        fits = bisect_right(numbers, left, key=lambda number: self.takes(number, done, evaluated))
        return max(fits - 1, 0)

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

    `started` is the start of the command, `read` the end of the reading, all in seconds.

    >>> counted_from(0, 40, 360), counted_from(0, 600, 360)
    (0, 420.0)
    """
    return max(started, read - MOST_READING * budget)
