"""The prompts: a request, the types of queries, and examples of real queries.

A request asks for several types, one query each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TYPES = {
    "how-to-long": (
        "a task that somebody wants to do, in fifteen to thirty words, with what was "
        "already tried or what gets in the way"
    ),
    "how-to-short": (
        'a task that somebody wants to do, in at most eight words, such as "how to ..."'
    ),
    "keywords-long": ("six to ten keywords that describe a need in detail, not a sentence"),
    "keywords-short": ("two to four keywords, not a sentence"),
    "question-long": (
        "a question of fifteen to thirty words that first describes the situation of the "
        "person who asks"
    ),
    "question-short": ("a question of at most eight words"),
}
"""Type of query -> its description."""
TYPES_AT_ONCE = 3
"""Number of types in a request; other passages get the other types."""
ROUNDS = 2
"""Number of requests about one passage that cover all types."""
EXAMPLES = 6
"""Largest number of examples of real queries in a request."""
_REQUEST = """\
People search a collection of documents. Below is one passage of it. Write the search queries \
that this passage answers, one query of each of these types:

{types}

Rules:
- A query must make sense to somebody who has never seen the passage. It never says "this \
passage", "the text" or "the author".
- Do not copy the wording of the passage: use at least one important word that is not in it.
- Write in the language of the passage.

{examples}

Answer with one JSON object and nothing else. Its keys are the types above, and its values are \
the queries. If nobody would search for this passage, answer {}.

Passage:
{passage}"""
_INTRODUCTION = "Write in the manner of these queries of real users, on other subjects:"
_AGAIN = "Answer with the JSON object alone, without any other text."


def types_of(number: int) -> tuple[str, ...]:
    """Return the types of a request, by its number from 0.

    >>> types_of(0)
    ('how-to-long', 'keywords-long', 'question-long')
    """
    return tuple(TYPES)[number % ROUNDS :: ROUNDS]


@dataclass(frozen=True)
class Prompts:
    """The text of requests, with some of the `examples` of real queries, if there are any."""

    examples: tuple[str, ...]
    seed: int

    def text(self, number: int, types: Sequence[str], passage: str, again: bool = False) -> str:
        """Return the text of a request.

        `again` marks a second request, after an unusable answer. The examples depend on `number`.
        """
        described = "\n".join(f'"{name}": {TYPES[name]}' for name in types)
        shown = ""
        if self.examples:
            draw = np.random.default_rng([self.seed, number])
            places = draw.permutation(len(self.examples))[:EXAMPLES].tolist()
            shown = "\n".join([_INTRODUCTION, *(f"- {self.examples[place]}" for place in places)])
        # Insert the passage last, because it may contain a placeholder itself.
        text = _REQUEST.replace("{types}", described).replace("{examples}", shown)
        text = text.replace("{passage}", passage)
        return f"{text}\n\n{_AGAIN}" if again else text
