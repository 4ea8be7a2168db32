"""What it will take to measure what is trained: tokens that pass the encoder, and their seconds.

Tokens and not characters, because a word of a language that the tokenizer hardly knows is many
tokens, and of a long text no more pass than the encoder reads.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from isospace.adaptation.encoder_states import Asked, EncoderStates
from isospace.config import TrainConfig
from isospace.corpus.dedup import without_words_of
from isospace.corpus.examples import evenly
from isospace.encoders.encoder import Encoder
from isospace.encoders.pooling import Precision
from isospace.encoders.prompts import Side
from isospace.evaluation.held_out import NOISY_SENTENCES
from isospace.evaluation.pairs import TextPairs
from isospace.evaluation.retrieval import Targets
from isospace.training.prepare import Data

_TIMED = 256  # texts by which the speed of encoding is measured; fewer fill no whole batches
_AT_ONCE = 4096  # texts whose tokens are in memory


@dataclass(frozen=True)
class Passes:
    """Tokens that pass the encoder from the first training to the end of a search, but to train.

    What was encoded of the base model before is kept, and does not pass again. It is a few more
    than will pass where pairs are so few that they choose and judge.

    Attributes:
        choosing: in float32: of any weights that are tried, what chooses.
        pairs: those of them that are of the corpus' own pairs.
        mapped: what maps are fitted on: a part of `choosing` where training goes through a map, as
            all that is trained then has one; else of `judging`.
        judging: in float32: of those that are selected, the test texts.
        evaluation: in the arithmetic of training: of one evaluation of one training. Every training
            evaluates the base model too, of which all but the noisy views are kept after the first.
    """

    choosing: int
    pairs: int
    mapped: int
    judging: int
    evaluation: int

    @classmethod
    def of(
        cls,
        states: EncoderStates,
        data: Data,
        choosers: TextPairs,
        config: TrainConfig,
    ) -> Passes:
        """Count them.

        Args:
            states: with the encoder whose tokenizer, limit and prompts all weights have.
            data: the test pairs, the validation pairs of other text, and what evaluations measure.
            choosers: validation pairs.
            config: of a training, with its `max_length`.
        """
        encoder, benchmark, other_text = states.encoder, data.benchmark, data.other_text
        own = of_pairs(encoder, choosers)
        choosing = own + sum(of_pairs(encoder, pairs) for pairs in other_text.chooses.values())
        choosing += sum(
            tokens_of(encoder, (None, (*dev.first, *dev.second))) for dev in other_text.dev
        )
        tests = [test for task in benchmark.tasks.values() for test in task.subsets.values()]
        bare = [text for pair in benchmark.pairs if (text := without_words_of(*pair)) != pair[1]]
        judging = of_pairs(
            encoder,
            benchmark.pairs,
            ("document", (*bare, *benchmark.sample)),
            (None, [text for test in tests for text in (*test.first, *test.second)]),
        )
        judging += sum(of_pairs(encoder, pairs) for pairs in other_text.judges.values())
        mapped = tokens_of(encoder, *states.fit_texts, max_length=config.max_length)
        held_out = data.held_out
        noisy = held_out.sentences[:NOISY_SENTENCES]
        evaluation = of_pairs(encoder, held_out.pairs)
        evaluation += tokens_of(encoder, ("document", held_out.sentences))
        evaluation += 2 * tokens_of(encoder, ("document", noisy), max_length=config.max_length)
        if states.through is None:
            judging += mapped
        else:
            choosing += mapped
        return cls(choosing, own, mapped, judging, evaluation)


def of_pairs(encoder: Encoder, pairs: TextPairs, *others: Asked) -> int:
    """Count the tokens of texts that find each other, and of the other texts of the call."""
    return tokens_of(
        encoder, ("query", pairs.first), ("document", Targets.of_pairs(pairs).texts), *others
    )


def tokens_of(encoder: Encoder, *asked: Asked, max_length: int | None = None) -> int:
    """Tokens that pass where texts are encoded by one call, each distinct one once by each prompt.

    Args:
        encoder: the encoder.
        asked: the texts, with their sides.
        max_length: where they are cut, in tokens; default: the encoder's own limit.
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
    """How long a token takes, by some of these documents.

    Args:
        encoder: the encoder.
        texts: one or more.
        precision: the arithmetic.
    """
    timed = [texts[place] for place in evenly(len(texts), _TIMED)]
    tokens = sum(map(len, encoder.tokens.ids(timed, side="document")))
    for _ in range(2):  # the first is half as slow again: it has memory to find
        started = time.monotonic()
        encoder.embed(timed, precision=precision, side="document")
    return (time.monotonic() - started) / max(1, tokens)
