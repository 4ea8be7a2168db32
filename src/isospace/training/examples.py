"""What a run trains on: lines of a corpus, or pairs of lines that belong together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.config import TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.corpus.dedup import near_clusters, without_words_of
from isospace.corpus.examples import evenly
from isospace.corpus.related import FEW_PAIRS, Related
from isospace.corpus.relations import RELATIONS
from isospace.corpus.staging import name_hash
from isospace.corpus.tokens import Tokens
from isospace.errors import TooLittle, UserError
from isospace.statistics.counts import number_of
from isospace.training.queries import Queries, read_queries
from isospace.training.similar import Rows, Similar
from isospace.views import Vocabulary

SHORTEST_CROP, LONGEST_CROP = 0.1, 0.5
"""Of the tokens of a passage, as far as the encoder can read it (Izacard et al. 2022, appendix). Of
the beginning to which a training cuts texts they would be a few words."""
_UNDER_TITLES = ("title-passage", "heading-section")


@dataclass(frozen=True)
class Examples:
    """What is drawn from, each example once an epoch.

    Attributes:
        rows: (example, text) lines of the corpus, or of `shortened` and `added` behind them; the
            second text of a query is -1 until it is `answered`.
        origins: (example, n) numbers of the documents of its texts, where they are of documents,
            and of the texts themselves, equal where these (nearly) repeat each other; a batch has
            one of them in one example only. `None` where batches are drawn freely.
        cropped: (example,) whether a crop of each text is drawn in its place; `None`: of none.
        shortened: (n, 2) pairs of lines: a title and the passage without whose words it is read.
        similar: what groups like texts in a batch; `None` where nothing does.
        summary: what the examples are, in words.
        added: texts of a file of queries.
        of_added: (text, n) for each of these numbers as in `_origins_of_lines`.
    """

    rows: Rows
    origins: Rows | None = None
    cropped: NDArray[np.bool_] | None = None
    shortened: Rows = field(default_factory=lambda: np.empty((0, 2), np.int64))
    similar: Similar | None = None
    summary: str = ""
    added: tuple[str, ...] = ()
    of_added: Rows = field(default_factory=lambda: np.empty((0, 1), np.int64))

    @classmethod
    def of_lines(cls, anchors: Rows, texts: int = 1) -> Examples:
        """Examples of consecutive lines, from these on."""
        return cls(anchors[:, None] + np.arange(texts))

    @classmethod
    def of(cls, config: TrainConfig, corpus: Corpus) -> Examples:
        """What the settings train on of a corpus.

        Raises:
            UserError: there are no pairs where they are wanted; `TooLittle` for less than a batch.
        """
        if config.views == "dropout":
            found = cls.of_lines(corpus.train_rows, config.objective.texts)
            if config.objective.texts == 1 or config.objective.reads_labels:
                return found
            # A hard negative may be many rows' own: it is right for none of them.
            return replace(found, origins=_of_texts(_origins_of_lines(corpus), found.rows[:, :2]))
        if corpus.related is not None:
            pairs = _of_relations(config, corpus, corpus.related)
        elif config.text.columns:
            rows = cls.of_lines(corpus.train_rows, 2).rows
            pairs = cls(rows, _of_texts(_origins_of_lines(corpus), rows))
        elif config.queries is not None:
            nothing = np.empty((0, 2), np.int64)
            pairs = cls(nothing, nothing)
        else:
            raise UserError(
                f"`views` {config.views}: lines of text form no pairs. Give documents, or name "
                "the columns of pairs (`columns` ANCHOR POSITIVE)"
            )
        found = pairs
        if config.views == "both":
            of_columns = bool(config.text.columns)
            found = pairs._with_singles(
                corpus, np.unique(pairs.rows) if of_columns else corpus.train_rows
            )
        if config.queries is not None:
            found = found._with_queries(corpus, read_queries(config.queries, config, corpus))
        if len(found) < config.batch_size:
            of = f" ({found.summary})" if found.summary else ""
            raise TooLittle(
                fewer_than_a_batch(f"{number_of(len(found), 'pairs')}{of}", config.batch_size)
            )
        return found

    def __len__(self) -> int:
        return len(self.rows)

    def mean_tokens(self, tokens: Sequence[Tokens], longest: int | None = None) -> float:
        """Tokens in the texts of an example, on average; each text counts once, a crop as such.

        `longest`: to how many tokens texts and crops are cut that are not cut yet.
        """
        most = np.inf if longest is None else longest
        total = 0.0
        for of_text, rows in zip(tokens, self.rows.T, strict=True):
            lengths = of_text.lengths[rows]
            read = np.minimum(lengths, most)
            if self.cropped is not None:
                read = np.where(self.cropped, _mean_crop(lengths, most), read)
            total += float(read.mean())
        return total

    def _with_singles(self, corpus: Corpus, lines: Rows) -> Examples:
        """With every text that may be trained on, on these lines, beside itself."""
        summary = filter(None, [number_of(len(lines), "single texts"), self.summary])
        return self._and(np.stack([lines, lines], 1), corpus, ", ".join(summary))

    def _with_queries(self, corpus: Corpus, queries: Queries) -> Examples:
        """With these queries, and where there are some their passages."""
        added = tuple(dict.fromkeys([*chain.from_iterable(queries.pairs), *queries.alone]))
        first = len(corpus) + len(self.shortened)
        line = {text: first + place for place, text in enumerate(added)}
        pairs = [(line[query], line[passage]) for query, passage in queries.pairs]
        pairs += [(line[query], -1) for query in queries.alone]
        rows = np.array(pairs, np.int64).reshape(-1, 2)
        summary = filter(None, [self.summary, queries.summary])
        whole = replace(self, added=added, of_added=_origins_of_added(added, corpus))
        return whole._and(rows, corpus, ", ".join(summary))

    def _and(self, rows: Rows, corpus: Corpus, summary: str) -> Examples:
        """With these pairs of lines of `texts`, too, none of them a crop."""
        cropped = self.cropped
        if cropped is not None:
            cropped = np.concatenate([cropped, np.zeros(len(rows), bool)])
        known = np.where(rows < 0, rows[:, :1], rows)  # what is missing keeps nothing apart
        origins = np.concatenate([self.origins, _of_texts(self._origins(corpus), known)])
        rows = np.concatenate([self.rows, rows])
        return replace(self, rows=rows, origins=origins, cropped=cropped, summary=summary)

    def where(self, keep: NDArray[np.bool_]) -> Examples:
        """Keep the examples that `keep`, (example,), is true of, with what is said of each."""
        origins = None if self.origins is None else self.origins[keep]
        cropped = None if self.cropped is None else self.cropped[keep]
        return replace(self, rows=self.rows[keep], origins=origins, cropped=cropped)

    @property
    def waiting(self) -> bool:
        """Whether there are queries whose second text is to be found."""
        return bool((self.rows < 0).any())

    def answered(self, corpus: Corpus, best: Callable[[Rows], Rows]) -> Examples:
        """With the second texts that were missing.

        Args:
            corpus: as for `of`.
            best: (query,) lines of queries to the lines that answer them.
        """
        missing = self.rows[:, -1] < 0
        rows = self.rows.copy()
        rows[missing, -1] = best(rows[missing, 0])
        return replace(self, rows=rows, origins=_of_texts(self._origins(corpus), rows))

    def texts(self, corpus: Corpus) -> Iterator[str]:
        """The lines that `rows` are of."""
        behind = range(len(corpus), len(corpus) + len(self.shortened) + len(self.added))
        return chain(corpus, (self.text(corpus, line) for line in behind))

    def text(self, corpus: Corpus, line: int) -> str:
        """One of `texts`."""
        if line < len(corpus):
            return corpus[line]
        place = line - len(corpus)
        if place >= len(self.shortened):
            return self.added[place - len(self.shortened)]
        title, passage = self.shortened[place].tolist()
        return without_words_of(corpus[title], corpus[passage])

    def related_texts(self, corpus: Corpus, most: int) -> tuple[list[str], list[str]]:
        """Return the two sides of at most `most` pairs, spread evenly over those there are.

        Pairs of equal texts, crops and queries without an answer are left out: of these no two
        texts are known that differ and belong together.
        """
        rows = self.rows if self.cropped is None else self.rows[~self.cropped]
        rows = rows[(rows[:, 0] != rows[:, 1]) & (rows[:, 1] >= 0)]
        taken = rows[evenly(len(rows), most), :2].tolist()
        first, second = ([self.text(corpus, row[side]) for row in taken] for side in (0, 1))
        return first, second

    def numbers(self, corpus: Corpus) -> Rows:
        """(line,) of `texts`: the document of each, or a number that (nearly) equal texts share."""
        return self._origins(corpus)[:, 0]

    def _origins(self, corpus: Corpus) -> Rows:
        """(line, n) of `texts`, as those of the corpus have them."""
        own = _origins_of_lines(corpus)
        parts = [own, own[self.shortened[:, 1]], self.of_added.reshape(-1, own.shape[1])]
        origins: Rows = np.concatenate(parts)
        return origins

    def digest(self, corpus: Corpus) -> str:
        """Identifies `texts`."""
        if not len(self.shortened) and not self.added:
            return corpus.digest
        behind = self.shortened.tobytes() + "\0".join(self.added).encode()
        return corpus.digest + blake2b(behind, digest_size=8).hexdigest()


def fewer_than_a_batch(found: str, size: int) -> str:
    """Say that the texts to train on fill no batch."""
    return (
        f"{found} to train on, fewer than a batch of {size}. Give more text, or set a smaller "
        "`batch_size`"
    )


@functools.lru_cache(maxsize=1)
def _origins_of_lines(corpus: Corpus) -> Rows:
    """(line, n) the document of each line, if any, and a number that (nearly) equal texts share."""
    same = corpus.same[:, None]
    if corpus.related is None:
        return same
    documents = corpus.related.structure.documents[:, None]
    return np.concatenate([documents, 1 + documents.max(initial=-1) + same], axis=1)


def _of_texts(numbers: Rows, rows: Rows) -> Rows:
    """(example, text * n) of (line, n) numbers and (example, text) lines."""
    found: Rows = numbers[rows].reshape(len(rows), rows.shape[1] * numbers.shape[1])
    return found


def _origins_of_added(texts: Sequence[str], corpus: Corpus) -> Rows:
    """(text, n) the numbers of the first line that has each text, or some of its own."""
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


def _of_relations(config: TrainConfig, corpus: Corpus, related: Related) -> Examples:
    """The pairs of the relations of documents."""
    judge = None if config.pairs else corpus.pairs.relation
    counts = related.counts()
    names: tuple[str, ...] = config.relations
    if not names:
        others = [name for name in RELATIONS if counts[name] >= FEW_PAIRS and name != judge]
        names = tuple(others or filter(None, [judge]))
    rows, bare, crops = [], [], []
    for name in names:
        pairs = related.to_train(name)
        rows.append(pairs)
        bare.append(np.full(len(pairs), config.without_title_words and name in _UNDER_TITLES))
        crops.append(np.full(len(pairs), name == "crops"))
    lines = np.concatenate([np.empty((0, 2), np.int64), *rows])
    origins = _of_texts(_origins_of_lines(corpus), lines)
    without = np.flatnonzero(np.concatenate([np.empty(0, bool), *bare]))
    shortened = lines[without]
    lines[without, 1] = len(corpus) + np.arange(len(without))
    summary = ", ".join(f"{counts[name]:,} {name}" for name in names) or "no relation has 100 pairs"
    if judge:
        summary += f"; {judge} judges" + (" too" if judge in names else "")
    crops_of = np.concatenate([np.empty(0, bool), *crops])
    return Examples(
        lines, origins, crops_of if crops_of.any() else None, shortened, summary=summary
    )


def _mean_crop(lengths: Rows, most: float) -> NDArray[np.float64]:
    """(text,) mean length of the crops of texts of these lengths, of which `most` tokens are read.

    Up to the share at which a crop is as long as that, it grows with the share; from there on not.
    """
    full = np.clip(most / np.maximum(lengths, 1), SHORTEST_CROP, LONGEST_CROP)
    below = lengths * (full**2 - SHORTEST_CROP**2) / 2
    above = np.where(full < LONGEST_CROP, np.minimum(most, lengths) * (LONGEST_CROP - full), 0.0)
    found: NDArray[np.float64] = (below + above) / (LONGEST_CROP - SHORTEST_CROP)
    return found


def crop(
    ids: NDArray[Any], random: np.random.Generator, vocabulary: Vocabulary, before: int = 0
) -> NDArray[Any]:
    """A run of tokens inside the special ones (independent cropping, Izacard et al. 2022).

    Args:
        ids: (token,) of a text.
        random: which draws the run.
        vocabulary: which tokens are special.
        before: tokens of the text's prompt, with what opens it; they stay.
    """
    inner = vocabulary.inner(ids)
    first = max(inner.start, before)
    words = ids[first : inner.stop]
    share = random.uniform(SHORTEST_CROP, LONGEST_CROP)
    length = max(1, round(share * len(words)))
    start = int(random.integers(len(words) - length + 1)) if len(words) else 0
    return np.concatenate([ids[:first], words[start : start + length], ids[inner.stop :]])
