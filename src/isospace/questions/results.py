"""The counts of generated queries: a typed JSON file beside them, and a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isospace.questions.filters import DEPTH
from isospace.statistics.counts import number_of

FORMAT = 1


def in_money(amount: float) -> str:
    """Write an amount of money.

    >>> in_money(0.0021), in_money(12.5)
    ('under 0.01', '12.50')
    """
    return f"{amount:,.2f}" if amount >= 0.01 else "under 0.01"


@dataclass(frozen=True)
class AskResults:
    """What became of requests and queries.

    Attributes:
        corpus: names of the text.
        llm: address and name of the language model.
        model: the base model of the filters.
        prompts: a hash of the prompts and examples.
        seed: of the selection.
        max_shared: limit of the shared words.
        requests: fate -> number of requests; see `answers.Fate`.
        retried: requests that were made a second time.
        kept_before: requests whose answers earlier commands had kept.
        written: queries that the language model wrote.
        near_duplicates: queries dropped as repetitions.
        copies: queries dropped as copies of their passage.
        not_found: queries dropped as they do not find their passage.
        kept: type -> number of queries in the file.
        shared_words: mean share of shared words, of the queries in the file; `None` without any.
        prompt_tokens: tokens that the server read, as it counts; 0 if it does not count.
        answer_tokens: tokens that it wrote.
        money: what they cost by the prices given; `None` without prices.
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
        """The counts as lines: label -> text."""
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
        told = ", ".join(f"{count:,} {what}" for count, what in dropped)
        types = ", ".join(f"{count:,} {name}" for name, count in self.kept.items())
        return {
            "asked": asked,
            "tokens": tokens,
            "dropped": f"{told}, of {number_of(self.written, 'queries')}",
            "queries": f"{kept:,} kept" + (f": {types}" if types else ""),
        }
