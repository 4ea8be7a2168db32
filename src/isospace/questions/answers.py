"""Requests to a language model, and their answers, which are kept so that none is repeated.

The prompts: a request, the types of queries, and examples of real queries.

A request asks for several types, one query each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Literal

import numpy as np

from isospace.corpus.lines import clean
from isospace.evaluation.bm25 import bm25_terms
from isospace.system.endpoints import Answer, Endpoint, EndpointError
from isospace.system.files import hash_of, make_in_cache

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
class Request:
    """A request for queries of some types, by its number from 0.

    `shown` is the passage with its title and heading above it.
    """

    number: int
    types: tuple[str, ...]
    passage: str
    shown: str


@dataclass(frozen=True)
class Prompts:
    """The text of requests, with some of the `examples` of real queries, if there are any."""

    examples: tuple[str, ...]
    seed: int

    def text(self, request: Request, again: bool = False) -> str:
        """Return the text of a request; `again` marks the second, after an unusable answer."""
        described = "\n".join(f'"{name}": {TYPES[name]}' for name in request.types)
        shown = ""
        if self.examples:
            draw = np.random.default_rng([self.seed, request.number])
            places = draw.permutation(len(self.examples))[:EXAMPLES].tolist()
            shown = "\n".join([_INTRODUCTION, *(f"- {self.examples[place]}" for place in places)])
        # Insert the passage last, because it may contain a placeholder itself.
        text = _REQUEST.replace("{types}", described).replace("{examples}", shown)
        text = text.replace("{passage}", request.shown)
        return f"{text}\n\n{_AGAIN}" if again else text


Fate = Literal["answered", "refused", "broken", "empty"]
"""Outcome of a request. Refused: prose, or a blocked answer, instead of queries. Broken: JSON that
cannot be read or has other keys. Empty: no text or {}."""


class Archive:
    """A file of answers, keyed by a hash of server, model and request; threads may share it.

    Each line is an answer as JSON. A line that a kill cut off is skipped, and asked for again.
    """

    def __init__(self, path: Path) -> None:
        make_in_cache(path.parent)
        self._lock = Lock()
        self._answers: dict[str, Answer] = {}
        self._file = path.open("a+b")
        self._file.seek(0)
        for line in self._file:
            with suppress(ValueError, TypeError):
                key, *answer = json.loads(line)
                self._answers[key] = Answer(*answer)

    def get(self, key: str) -> Answer | None:
        """Return the answer with a key, or `None`."""
        return self._answers.get(key)

    def put(self, key: str, answer: Answer) -> None:
        """Write an answer; it survives a kill right after."""
        line = json.dumps([key, *astuple(answer)]).encode()
        with self._lock:
            self._answers[key] = answer
            self._file.write(b"\n" + line + b"\n")  # the line before may have been cut off
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(frozen=True)
class Reply:
    """The queries of one request, by type, and the tokens that the server counts."""

    fate: Fate
    queries: dict[str, str] = field(default_factory=dict)
    prompt_tokens: int = 0
    answer_tokens: int = 0


class Asker:
    """A client that asks a language model for queries; several threads may share it."""

    def __init__(self, endpoint: Endpoint, archive: Archive, prompts: Prompts) -> None:
        self._endpoint, self._archive, self._prompts = endpoint, archive, prompts
        self._answered = False
        self.stopped = False
        """Set to true to make no more requests."""

    def unanswered(self, requests: Sequence[Request]) -> dict[Request, str]:
        """Return request -> text for those whose answer the archive does not have."""
        texts = {request: self._prompts.text(request) for request in requests}
        known = self._archive.get
        return {request: text for request, text in texts.items() if known(self._key(text)) is None}

    def ask(self, request: Request) -> Reply:
        """Ask for the queries of a passage, and once more if the first answer is not usable.

        Raises:
            UserError: the server refuses all requests, or cannot be reached.
        """
        read = wrote = 0
        for again in (False, True):
            if self.stopped:
                raise InterruptedError
            answer = self._answer(self._prompts.text(request, again))
            read, wrote = read + answer.prompt_tokens, wrote + answer.answer_tokens
            fate, queries = read_answer(answer.text, request.types)
            if answer.refused:
                return Reply("refused", {}, read, wrote)
            if queries is not None:
                break
        return Reply(fate, queries or {}, read, wrote)

    def _key(self, text: str) -> str:
        return hash_of(f"{self._endpoint.address}\0{text}".encode("utf-8", "surrogatepass"))

    def _answer(self, text: str) -> Answer:
        key = self._key(text)
        answer = self._archive.get(key)
        if answer is None:
            try:
                answer = self._endpoint.complete([{"role": "user", "content": text}])
                self._answered = True
            except EndpointError as error:
                if error.status not in (400, 422) or not self._answered:
                    raise
                answer = Answer("", 0, 0, refused=True)
            self._archive.put(key, answer)
        return answer


def read_answer(text: str, types: Sequence[str]) -> tuple[Fate, dict[str, str] | None]:
    """Read the queries from an answer, which may have other text around its JSON.

    Returns:
        The outcome of the request, and type -> query; `None` if a second request may help.

    >>> read_answer('<think>{x}</think>Here: {"How to": "reset it", "title": "x"}', ["how-to"])
    ('answered', {'how-to': 'reset it'})
    >>> read_answer("{}", ["how-to"]), read_answer("I cannot help with that.", ["how-to"])
    (('empty', {}), ('refused', None))
    """
    text = text.rpartition("</think>")[2].strip()
    if not text:
        return "empty", None
    start = text.find("{")
    if start < 0:
        return "refused", None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return "broken", None
    if not found:
        return "empty", {}
    named = {"-".join(key.lower().replace("_", " ").split()): one for key, one in found.items()}
    values = {name: clean(named[name]) for name in types if isinstance(named.get(name), str)}
    queries = {name: query for name, query in values.items() if bm25_terms(query)}
    return ("answered", queries) if queries else ("broken", None)
