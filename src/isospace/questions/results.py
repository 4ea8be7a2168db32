"""Counts of generated queries: a typed JSON file beside the queries, and lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isospace.questions.filters import DEPTH, MAX_SHARED
from isospace.statistics.counts import number_of

FORMAT = 2


@dataclass(frozen=True)
class AskResults:
    """Counts of requests and queries.

    Attributes:
        model: the base model of the filters.
        requests: outcome -> number of requests; see `answers.Fate`.
        written: number of queries that the language model wrote.
        near_duplicates: number of queries dropped as repetitions.
        copies: number of queries dropped as copies of their passage.
        not_found: number of queries dropped because they do not find their passage.
        kept: type -> number of queries in the file.
        prompt_tokens: tokens that the server read, as it counts; 0 if it does not count.
        answer_tokens: tokens that the server wrote, as it counts.
    """

    corpus: tuple[str, ...]
    llm: str
    model: str
    seed: int
    requests: Mapping[str, int]
    written: int
    near_duplicates: int
    copies: int
    not_found: int
    kept: Mapping[str, int]
    prompt_tokens: int
    answer_tokens: int
    format: int = FORMAT

    @property
    def lines(self) -> dict[str, str]:
        """Counts as lines for people: label -> text."""
        fates = [f"{count:,} {fate}" for fate, count in self.requests.items() if count]
        asked = f"{number_of(sum(self.requests.values()), 'requests')}: {', '.join(fates)}"
        kept = sum(self.kept.values())
        dropped = [
            (self.near_duplicates, "near duplicates"),
            (self.copies, f"copies (over {100 * MAX_SHARED:g} % shared words)"),
            (self.not_found, f"not among the first {DEPTH} for their query"),
        ]
        reasons = ", ".join(f"{count:,} {what}" for count, what in dropped)
        types = ", ".join(f"{count:,} {name}" for name, count in self.kept.items())
        return {
            "asked": asked,
            "tokens": f"{self.prompt_tokens:,} read, {self.answer_tokens:,} written",
            "dropped": f"{reasons}, of {number_of(self.written, 'queries')}",
            "queries": f"{kept:,} kept" + (f": {types}" if types else ""),
        }
