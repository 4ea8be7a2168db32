"""Counts of generated queries: a typed JSON file beside the queries, and lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isospace.questions.filters import DEPTH
from isospace.statistics.counts import number_of

FORMAT = 1


def in_money(amount: float) -> str:
    """Return an amount of money as text.

    >>> in_money(0.0021), in_money(12.5)
    ('under 0.01', '12.50')
    """
    return f"{amount:,.2f}" if amount >= 0.01 else "under 0.01"


@dataclass(frozen=True)
class AskResults:
    """Counts of requests and queries.

    Attributes:
        model: the base model of the filters.
        prompts: hash of the prompts and examples.
        max_shared: largest share of words that a kept query shares with its passage.
        requests: outcome -> number of requests; see `answers.Fate`.
        kept_before: number of requests whose answers earlier commands had kept.
        written: number of queries that the language model wrote.
        near_duplicates: number of queries dropped as repetitions.
        copies: number of queries dropped as copies of their passage.
        not_found: number of queries dropped because they do not find their passage.
        kept: type -> number of queries in the file.
        shared_words: mean share of shared words of the queries in the file; `None` if it is empty.
        prompt_tokens: tokens that the server read, as it counts; 0 if it does not count.
        answer_tokens: tokens that the server wrote, as it counts.
        money: cost of the tokens by the user's prices; `None` without prices.
    """

    corpus: tuple[str, ...]
    llm: str
    model: str
    prompts: str
    seed: int
    max_shared: float
    requests: Mapping[str, int]
    retried: int
    kept_before: int
    written: int
    near_duplicates: int
    copies: int
    not_found: int
    kept: Mapping[str, int]
    shared_words: float | None
    prompt_tokens: int
    answer_tokens: int
    money: float | None
    format: int = FORMAT

    @property
    def lines(self) -> dict[str, str]:
        """Counts as lines for people: label -> text."""
        fates = [f"{count:,} {fate}" for fate, count in self.requests.items() if count]
        asked = f"{number_of(sum(self.requests.values()), 'requests')}: {', '.join(fates)}"
        if self.kept_before:
            asked += f"; {self.kept_before:,} were answered by earlier commands"
        tokens = f"{self.prompt_tokens:,} read, {self.answer_tokens:,} written"
        if self.money is not None:
            tokens += f"; {in_money(self.money)} by `price`"
        kept = sum(self.kept.values())
        dropped = [
            (self.near_duplicates, "near duplicates"),
            (self.copies, f"copies (over {100 * self.max_shared:g} % shared words)"),
            (self.not_found, f"not among the first {DEPTH} for their query"),
        ]
        reasons = ", ".join(f"{count:,} {what}" for count, what in dropped)
        types = ", ".join(f"{count:,} {name}" for name, count in self.kept.items())
        return {
            "asked": asked,
            "tokens": tokens,
            "dropped": f"{reasons}, of {number_of(self.written, 'queries')}",
            "queries": f"{kept:,} kept" + (f": {types}" if types else ""),
        }
