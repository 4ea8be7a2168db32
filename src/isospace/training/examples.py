"""Training examples: numbered texts, pairs of texts that belong together, queries from a file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.config import TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.corpus.groups import evenly, name_hash, near_clusters, repeating
from isospace.corpus.lines import Tokens, clean
from isospace.corpus.records import read_rows
from isospace.corpus.relations import FEW_PAIRS, RELATIONS, Related
from isospace.corpus.sources import file_source
from isospace.errors import TooLittle, UserError, number_of
from isospace.evaluation.own_data import COLUMNS, load_pairs, match_columns
from isospace.views import Vocabulary


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
    """Read the distinct queries of a file that may be trained on."""
    found = rows_of_queries(path)
    held = list(dict.fromkeys(_held_out(config, corpus)))
    refused = repeating((text for row in found for text in row if text), held)
    kept = [row for row in found if refused.isdisjoint(row)]
    return Queries(
        tuple(row for row in kept if row[1]),
        tuple(query for query, passage in kept if not passage),
        len(found) - len(kept),
    )


def rows_of_queries(path: Path) -> list[tuple[str, str]]:
    """Return the distinct (query, passage) rows of a file; a missing passage is empty.

    They are in the first two columns, or under names such as query and passage.
    """
    found: dict[tuple[str, str], None] = {}
    for line, row in read_rows(file_source(path), _is_header):
        cells = row
        if isinstance(row, dict):
            names = _columns(tuple(row))
            if names is None:
                raise UserError(
                    f"`queries` {path}:{line}: the columns are {', '.join(row)}. Name them "
                    "query, or query and passage"
                )
            cells = [row[name] for name in names]
        if len(cells) > 2 or not all(isinstance(cell, str | None) for cell in cells):
            values = f"`queries` {path}:{line}: {len(cells)} values"
            raise UserError(f"{values}, expected a query, or a query and its passage")
        query, passage = ([clean(cell or "") for cell in cells] + ["", ""])[:2]
        if query:
            found[query, passage] = None
    if not found:
        raise UserError(f"`queries` {path}: the file has no query. Give one query a row")
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


Rows = NDArray[np.int64]

SHORTEST_CROP, LONGEST_CROP = 0.1, 0.5
"""Length of a crop as a share of the passage's tokens before training cuts it (Izacard et al. 2022,
appendix). A share of a cut text would be only a few words."""


@dataclass(frozen=True)
class Texts:
    """Numbered texts: the lines of the corpus, then added texts of a file of queries.

    `origins` (text, m) has each text's document, if any, and a number that similar texts share.
    """

    corpus: Corpus
    added: tuple[str, ...]
    origins: Rows

    @classmethod
    def from_corpus(cls, corpus: Corpus) -> Texts:
        """Return the texts of a corpus."""
        return cls(corpus, (), _origins_of_lines(corpus))

    def __len__(self) -> int:
        return len(self.origins)

    def __iter__(self) -> Iterator[str]:
        return chain(self.corpus, self.added)

    def __getitem__(self, number: int) -> str:
        lines = len(self.corpus)
        return self.corpus[number] if number < lines else self.added[number - lines]

    @property
    def documents(self) -> Rows:
        """(text,) document of each text, or a number that similar texts share."""
        return self.origins[:, 0]

    @property
    def digest(self) -> str:
        """Digest of all texts."""
        if not self.added:
            return self.corpus.digest
        content = "\0".join(self.added).encode()
        return self.corpus.digest + blake2b(content, digest_size=8).hexdigest()


@functools.lru_cache(maxsize=1)
def _origins_of_lines(corpus: Corpus) -> Rows:
    """Return (line, m): each line's document, if any, and a number that similar texts share."""
    same = corpus.same[:, None]
    if corpus.related is None:
        return same
    documents = corpus.related.structure.documents[:, None]
    return np.concatenate([documents, 1 + documents.max(initial=-1) + same], axis=1)


def _origins_of_added(texts: Sequence[str], corpus: Corpus) -> Rows:
    """Return (text, m): origins of the first line with the same text, or new numbers."""
    origins = _origins_of_lines(corpus)
    # Of texts that are no line here, (nearly) equal ones are one document.
    fresh = 1 + int(origins.max()) + near_clusters(texts, np.arange(len(texts)))
    numbers: Rows = np.repeat(fresh[:, None], origins.shape[1], axis=1)
    waiting: dict[int, list[int]] = {}
    for place, text in enumerate(texts):
        waiting.setdefault(name_hash(text.casefold()), []).append(place)
    for line, text in enumerate(corpus):
        for place in waiting.pop(name_hash(text.casefold()), ()):
            numbers[place] = origins[line]
    return numbers


@dataclass(frozen=True)
class Examples:
    """The examples of a training; each is drawn once an epoch.

    Attributes:
        rows: (example, text) numbers of the texts of each example.
        source: the texts with these numbers, if they are from a corpus.
        origins: (example, n) of `Texts.origins`, none of which two examples of a batch share.
        cropped: (example,) true if random crops replace the texts.
        unanswered: (example,) true for a query without a passage yet; its row has the query twice.
        summary: a description for people.
    """

    rows: Rows
    source: Texts | None = None
    origins: Rows | None = None
    cropped: NDArray[np.bool_] | None = None
    unanswered: NDArray[np.bool_] | None = None
    summary: str = ""

    @classmethod
    def from_lines(cls, anchors: Rows, count: int = 1, source: Texts | None = None) -> Examples:
        """Return examples of `count` lines from each of `anchors` on."""
        return cls(anchors[:, None] + np.arange(count), source)

    @classmethod
    def from_corpus(cls, config: TrainConfig, corpus: Corpus) -> Examples:
        """Return the examples of a corpus that the settings train on."""
        texts = Texts.from_corpus(corpus)
        if config.views == "dropout":
            found = cls.from_lines(corpus.train_rows, config.objective.texts, texts)
            if config.objective.texts == 1 or config.objective.reads_labels:
                return found
            # Several rows may share a hard negative, because it is the right text of none.
            return replace(found, origins=_of_texts(texts.origins, found.rows[:, :2]))
        if corpus.related is not None:
            found = _of_relations(config, corpus, corpus.related)
        elif config.text.columns:
            found = cls.from_lines(corpus.train_rows, 2, texts)
            found = replace(found, origins=_of_texts(texts.origins, found.rows))
        elif config.queries is not None:
            nothing = np.empty((0, 2), np.int64)
            found = cls(nothing, texts, nothing)
        else:
            raise UserError(
                f"`views` {config.views}: lines of text form no pairs. Give documents, or name "
                "the columns of pairs (`columns` ANCHOR POSITIVE)"
            )
        if config.views == "both":
            # Each text is also paired with itself.
            alone = np.unique(found.rows) if config.text.columns else corpus.train_rows
            summary = number_of(len(alone), "single texts")
            found = found._and(np.stack([alone, alone], 1), summary, first=True)
        if config.queries is not None:
            found = found._with_queries(read_queries(config.queries, config, corpus))
        return found

    @property
    def texts(self) -> Texts:
        """The texts to which the numbers in `rows` refer."""
        assert self.source is not None  # of a corpus
        return self.source

    def __len__(self) -> int:
        return len(self.rows)

    def mean_tokens(self, tokens: Sequence[Tokens], longest: float = np.inf) -> float:
        """Return the mean number of tokens of an example, its texts and crops cut to `longest`."""
        total = 0.0
        for of_text, rows in zip(tokens, self.rows.T, strict=True):
            lengths = of_text.lengths[rows]
            read = np.minimum(lengths, longest)
            if self.cropped is not None:
                read = np.where(self.cropped, _mean_crop(lengths, longest), read)
            total += float(read.mean())
        return total

    def _with_queries(self, queries: Queries) -> Examples:
        added = tuple(dict.fromkeys([*chain.from_iterable(queries.pairs), *queries.alone]))
        number = {text: len(self.texts) + place for place, text in enumerate(added)}
        pairs = [(number[query], number[passage]) for query, passage in queries.pairs]
        pairs += [(number[query], number[query]) for query in queries.alone]
        rows = np.array(pairs, np.int64).reshape(-1, 2)
        origins = _origins_of_added(added, self.texts.corpus)
        source = replace(self.texts, added=added, origins=np.append(self.texts.origins, origins, 0))
        found = replace(self, source=source)._and(rows, queries.summary)
        if not queries.alone:
            return found
        unanswered = np.arange(len(found)) >= len(found) - len(queries.alone)
        return replace(found, unanswered=unanswered)

    def _and(self, rows: Rows, summary: str, first: bool = False) -> Examples:
        """Return these examples and uncropped others; `first` puts the others' summary first."""
        assert self.origins is not None
        cropped = self.cropped
        if cropped is not None:
            cropped = np.concatenate([cropped, np.zeros(len(rows), bool)])
        parts = (summary, self.summary) if first else (self.summary, summary)
        return replace(
            self,
            rows=np.concatenate([self.rows, rows]),
            origins=np.concatenate([self.origins, _of_texts(self.texts.origins, rows)]),
            cropped=cropped,
            summary=", ".join(filter(None, parts)),
        )

    def long_enough(self, config: TrainConfig, lengths: Rows) -> Examples:
        """Return the examples whose first text has the tokens that the objective needs.

        `lengths` is (text,), in tokens.
        """
        needed = config.objective.tokens_needed
        if not needed:
            return self
        found = self.where(lengths[self.rows[:, 0]] >= needed)
        if len(found) < config.batch_size:
            raise TooLittle(
                f"`corpus` {' '.join(config.text.corpus)}: {len(found)} of {len(self)} texts have "
                f"the {needed} tokens that this objective needs, fewer than a batch of "
                f"{config.batch_size}. Give longer passages (`passage_words`), or set shorter spans"
            )
        return found

    def where(self, keep: NDArray[np.bool_]) -> Examples:
        """Return the examples for which `keep` (example,) is true."""
        columns = {
            name: column[keep]
            for name in ("rows", "origins", "cropped", "unanswered")
            if (column := getattr(self, name)) is not None
        }
        return replace(self, **columns)

    @property
    def pairs(self) -> Rows:
        """(pair, 2) first and last text of all examples that are not unanswered."""
        rows = self.rows if self.unanswered is None else self.rows[~self.unanswered]
        return rows[:, [0, -1]]

    def answered(self, best: Callable[[Rows], Rows]) -> Examples:
        """Return the examples with passages for the queries that had none."""
        assert self.unanswered is not None
        rows = self.rows.copy()
        rows[self.unanswered, -1] = best(rows[self.unanswered, 0])
        origins = _of_texts(self.texts.origins, rows)
        return replace(self, rows=rows, origins=origins, unanswered=None)

    def related_texts(self, most: int) -> tuple[list[str], list[str]]:
        """Return the two sides of at most `most` pairs of two different texts, spread evenly."""
        rows = self.rows if self.cropped is None else self.rows[~self.cropped]
        rows = rows[rows[:, 0] != rows[:, 1], :2]  # a query without an answer is on both sides
        kept = self._differing(rows[evenly(len(rows), most)])
        if len(kept) < most < len(rows):
            rows = self._differing(rows)
            kept = rows[evenly(len(rows), most)]
        first, second = ([self.texts[row] for row in side] for side in kept.T.tolist())
        return first, second

    def _differing(self, pairs: Rows) -> Rows:
        """Return the pairs (n, 2) whose two texts differ."""
        differ = [self.texts[first] != self.texts[second] for first, second in pairs.tolist()]
        return pairs[np.array(differ, bool)]


def related_texts(config: TrainConfig, corpus: Corpus, most: int) -> tuple[list[str], list[str]]:
    """Return `Examples.related_texts`; no pairs if the settings or the text give none."""
    lines = corpus.related is None and not config.text.columns and config.queries is None
    if lines or config.views == "dropout":
        return [], []
    return Examples.from_corpus(config, corpus).related_texts(most)


def _of_texts(numbers: Rows, rows: Rows) -> Rows:
    """Return (example, text * n): the numbers (text, n) of each example's texts."""
    return numbers[rows].reshape(len(rows), rows.shape[1] * numbers.shape[1])


def _of_relations(config: TrainConfig, corpus: Corpus, related: Related) -> Examples:
    tested = None if config.pairs else corpus.pairs.relation
    counts = related.counts()
    names: tuple[str, ...] = config.relations
    if not names:
        others = [name for name in RELATIONS if counts[name] >= FEW_PAIRS and name != tested]
        names = tuple(others or filter(None, [tested]))
    found = [related.to_train(name) for name in names]
    sizes, nothing = [len(pairs) for pairs in found], np.empty((0, 2), np.int64)
    rows = np.concatenate([nothing, *found])
    crops = np.repeat(np.array([name == "crops" for name in names], bool), sizes)
    texts = Texts.from_corpus(corpus)
    origins = _of_texts(texts.origins, rows)
    summary = ", ".join(f"{counts[name]:,} {name}" for name in names) or "no relation has 100 pairs"
    if tested:
        summary += f"; test pairs: {tested}" + (", also trained on" if tested in names else "")
    return Examples(rows, texts, origins, crops if crops.any() else None, summary=summary)


def _mean_crop(lengths: Rows, most: float) -> NDArray[np.float64]:
    """Return (text,) the mean length of crops, of which at most `most` tokens are read."""
    # A crop grows with its share of the text until it has `most` tokens.
    full = np.clip(most / np.maximum(lengths, 1), SHORTEST_CROP, LONGEST_CROP)
    below = lengths * (full**2 - SHORTEST_CROP**2) / 2
    above = np.where(full < LONGEST_CROP, np.minimum(most, lengths) * (LONGEST_CROP - full), 0.0)
    return (below + above) / (LONGEST_CROP - SHORTEST_CROP)


def crop(
    ids: NDArray[Any], random: np.random.Generator, vocabulary: Vocabulary, before: int = 0
) -> NDArray[Any]:
    """Draw consecutive tokens of a text (Izacard et al. 2022); the first `before` tokens stay."""
    inner = vocabulary.inner(ids)
    first = max(inner.start, before)
    words = ids[first : inner.stop]
    share = random.uniform(SHORTEST_CROP, LONGEST_CROP)
    length = max(1, round(share * len(words)))
    start = int(random.integers(len(words) - length + 1)) if len(words) else 0
    return np.concatenate([ids[:first], words[start : start + length], ids[inner.stop :]])
