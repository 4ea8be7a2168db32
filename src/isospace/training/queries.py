"""Training queries from a file: logged by people, or written by another program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isospace.config import TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.corpus.dedup import near_duplicates
from isospace.corpus.lines import clean
from isospace.corpus.records import read_rows
from isospace.corpus.sources import file_source
from isospace.errors import UserError
from isospace.evaluation.own_data import COLUMNS, load_pairs, match_columns
from isospace.statistics.counts import number_of


@dataclass(frozen=True)
class Queries:
    """The cleaned queries of a file, without those that repeat held-out text."""

    pairs: tuple[tuple[str, str], ...]
    alone: tuple[str, ...]
    left_out: int

    @property
    def summary(self) -> str:
        """The counts, as text."""
        parts = [
            (len(self.pairs), "pairs of a query and its passage"),
            (len(self.alone), "queries without a passage"),
            (self.left_out, "rows left out because of held-out text"),
        ]
        return ", ".join(number_of(count, what) for count, what in parts if count)


def read_queries(path: Path, config: TrainConfig, corpus: Corpus) -> Queries:
    """Read the distinct queries of a file that may be trained on.

    A row has a query and optionally its passage: in the first two columns, or under names such as
    query and passage.

    Raises:
        UserError: the file cannot be read, has other columns, or has no query; the message names
            its line.
    """
    found = rows_of_queries(path)
    held = list(dict.fromkeys(_held_out(config, corpus)))
    texts = [*held, *dict.fromkeys(text for row in found for text in row if text)]
    earlier = near_duplicates(texts, np.arange(len(texts)), len(held))
    repeats = (earlier >= 0) & (earlier < len(held))
    refused = {*held, *(texts[place] for place in np.flatnonzero(repeats).tolist())}
    kept = [row for row in found if refused.isdisjoint(row)]
    return Queries(
        tuple(row for row in kept if row[1]),
        tuple(query for query, passage in kept if not passage),
        len(found) - len(kept),
    )


def rows_of_queries(path: Path, setting: str = "queries") -> list[tuple[str, str]]:
    """Return the distinct (query, passage) rows of a file; a missing passage is empty."""
    found: dict[tuple[str, str], None] = {}
    for line, row in read_rows(file_source(path), _is_header):
        cells = row
        if isinstance(row, dict):
            names = _columns(tuple(row))
            if names is None:
                raise UserError(
                    f"`{setting}` {path}:{line}: the columns are {', '.join(row)}. Name them "
                    "query, or query and passage"
                )
            cells = [row[name] for name in names]
        if len(cells) > 2 or not all(isinstance(cell, str | None) for cell in cells):
            raise UserError(
                f"`{setting}` {path}:{line}: {len(cells)} values, expected a query, or a query "
                "and its passage"
            )
        query, passage = ([clean(cell or "") for cell in cells] + ["", ""])[:2]
        if query:
            found[query, passage] = None
    if not found:
        raise UserError(f"`{setting}` {path}: the file has no query. Give one query a row")
    return list(found)


def _held_out(config: TrainConfig, corpus: Corpus) -> list[str]:
    texts = corpus.held_out()
    texts += [text for pair in (*corpus.pairs.dev, *corpus.pairs.test) for text in pair]
    if corpus.related is not None:
        texts += [corpus[line] for line in np.flatnonzero(corpus.related.held).tolist()]
    if config.pairs is not None:
        own = load_pairs(config.pairs, config.text.group)
        texts += map(clean, (*own.first, *own.second))
    return texts


def _columns(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names of the query and passage columns, or `None` if there is no query column."""
    if len(names) == 1:
        return names if names[0].strip().lower() in COLUMNS["pairs"]["query"] else None
    return match_columns("pairs", names)


def _is_header(cells: Sequence[str]) -> bool:
    """Return true if the first line names the columns; a single name could also be a query."""
    if len(cells) == 1:
        return cells[0].strip().lower() == "query"
    return _columns(tuple(cells)) is not None
