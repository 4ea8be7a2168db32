"""The prompts: a request, the types of queries, and examples of real queries.

A folder of prompts holds `request.txt`, the text of a request, and a file for each type of query.
The file is named after the type, and holds its description. A request asks for several types, one
query each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isospace.errors import UserError

DEFAULT = Path(__file__).parent / "templates"
TYPES_AT_ONCE = 3
"""Largest number of types in a request; other passages get the other types."""
EXAMPLES = 6
"""Largest number of examples of real queries in a request."""
_REQUEST = "request.txt"
_INTRODUCTION = "Write in the manner of these queries of real users, on other subjects:"
_AGAIN = "Answer with the JSON object alone, without any other text."


@dataclass(frozen=True)
class Prompts:
    """The parts of a request.

    Attributes:
        request: text with the placeholders {types}, {passage} and perhaps {examples}.
        types: name -> description, sorted by name.
        examples: queries of real users; empty if the user gave none.
    """

    request: str
    types: dict[str, str]
    examples: tuple[str, ...]
    seed: int

    @classmethod
    def read(cls, folder: Path, examples: Sequence[str], seed: int) -> Prompts:
        """Read a folder of prompts.

        Raises:
            UserError: a file is missing, empty or not UTF-8, or `request.txt` lacks a placeholder.
        """
        files = {path.name: _text(path) for path in sorted(folder.glob("*.txt"))}
        if _REQUEST not in files:
            raise UserError(f"`prompts` {folder}: no file {_REQUEST}. Give the text of a request")
        request = files.pop(_REQUEST)
        places = ["{types}", "{passage}", *(["{examples}"] if examples else [])]
        for place in places:
            if place not in request:
                raise UserError(
                    f"`prompts` {folder / _REQUEST}: no place {place}. Write it where the "
                    f"{place.strip('{}')} of a request should stand"
                )
        if not files:
            raise UserError(
                f"`prompts` {folder}: no type of query. Give a file for each type, such as "
                "keywords.txt, that describes the type"
            )
        types = {Path(name).stem.lower(): text for name, text in files.items()}
        return cls(request, types, tuple(examples), seed)

    @property
    def at_once(self) -> int:
        """Number of types, and so of queries, in a request."""
        return min(TYPES_AT_ONCE, len(self.types))

    @property
    def rounds(self) -> int:
        """Number of requests about one passage that cover all types."""
        return math.ceil(len(self.types) / self.at_once)

    def types_of(self, number: int) -> tuple[str, ...]:
        """Return the types of a request, by its number from 0.

        >>> prompts = Prompts("", dict.fromkeys("abcdef", ""), (), 0)
        >>> prompts.types_of(0), prompts.types_of(1), prompts.types_of(2)
        (('a', 'c', 'e'), ('b', 'd', 'f'), ('a', 'c', 'e'))
        """
        names, step = list(self.types), self.rounds
        first = number % step
        return tuple(names[(first + step * place) % len(names)] for place in range(self.at_once))

    def text(self, number: int, types: Sequence[str], passage: str, again: bool = False) -> str:
        """Return the text of a request.

        `again` marks a second request, after an unusable answer. The examples depend on `number`.
        """
        described = "\n".join(f'"{name}": {self.types[name]}' for name in types)
        shown = ""
        if self.examples:
            draw = np.random.default_rng([self.seed, number])
            places = draw.permutation(len(self.examples))[:EXAMPLES].tolist()
            shown = "\n".join([_INTRODUCTION, *(f"- {self.examples[place]}" for place in places)])
        # Insert the passage last, because it may contain a placeholder itself.
        text = self.request.replace("{types}", described).replace("{examples}", shown)
        text = text.replace("{passage}", passage)
        return f"{text}\n\n{_AGAIN}" if again else text


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"`prompts` {path}: cannot be read ({error}). Give UTF-8 text") from error
    if not text:
        raise UserError(f"`prompts` {path}: the file is empty. Write the prompt into it")
    return text
