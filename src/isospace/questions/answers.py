"""Requests to a language model, and their answers, which are kept so that none is repeated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Literal

from isospace.corpus.lines import clean
from isospace.evaluation.bm25 import bm25_terms
from isospace.questions.prompts import Prompts
from isospace.system.cache import make_in_cache
from isospace.system.endpoints import Answer, Endpoint, EndpointError
from isospace.system.files import hash_of

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

    def is_kept(self, text: str) -> bool:
        """Return true if the archive has the answer to a request."""
        return self._archive.get(self._key(text)) is not None

    def ask(self, number: int, types: Sequence[str], passage: str) -> Reply:
        """Ask for the queries of a passage, and once more if the first answer is not usable.

        Raises:
            UserError: the server refuses all requests, or cannot be reached.
        """
        read = wrote = 0
        for again in (False, True):
            if self.stopped:
                raise InterruptedError
            answer = self._answer(self._prompts.text(number, types, passage, again))
            read, wrote = read + answer.prompt_tokens, wrote + answer.answer_tokens
            fate, queries = read_answer(answer.text, types)
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
