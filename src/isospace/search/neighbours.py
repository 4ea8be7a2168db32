"""The nearest sentences of a corpus to a query, for several models side by side.

SimCSE, WhitenedCSE and SimCSE++ show such lists for the captions of Flickr30k. The corpus is
encoded in slices, and only the best hits are kept, so memory does not grow with the corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from isospace.config import CorpusConfig
from isospace.corpus.corpus import Corpus, load_corpus
from isospace.corpus.lines import clean
from isospace.encoders.loading import load_encoder
from isospace.encoders.places import resolve
from isospace.encoders.pooling import PoolingName, Precision
from isospace.errors import UserError
from isospace.evaluation.pairs import PromptedEncoders
from isospace.operators.nearest import nearest, unit_rows
from isospace.search.embedder import require_k
from isospace.statistics.counts import number_of
from isospace.system.cache import cache_folder
from isospace.system.progress import Logged, Progress
from isospace.system.unicode import in_one_line

SLICE = 1 << 15
"""Maximal number of vectors in memory at once."""


@dataclass(frozen=True)
class Neighbour:
    """A sentence of the corpus and its cosine with the query."""

    text: str
    cosine: float


@dataclass(frozen=True)
class NeighbourLists:
    """The neighbours of each query under each model."""

    queries: tuple[str, ...]
    protocol: str
    lists: dict[str, list[list[Neighbour]]]

    def rows(self, query: int) -> list[dict[str, str]]:
        """Return the rows of a table with the lists of one query side by side."""
        depth = max(len(lists[query]) for lists in self.lists.values())
        rows = []
        for rank in range(depth):
            row = {"rank": str(rank + 1)}
            for model, lists in self.lists.items():
                neighbour = lists[query][rank]
                row[model] = f"{neighbour.cosine:.3f}  {in_one_line(neighbour.text)}"
            rows.append(row)
        return rows

    def to_json(self) -> dict[str, Any]:
        """Return all lists and the protocol as JSON."""
        queries = []
        for place, query in enumerate(self.queries):
            neighbours = {
                model: [asdict(neighbour) for neighbour in lists[place]]
                for model, lists in self.lists.items()
            }
            queries.append({"query": query, "neighbours": neighbours})
        return {"protocol": self.protocol, "queries": queries}


def find_neighbours(
    models: Sequence[str],
    corpus: Sequence[str],
    queries: Sequence[str],
    k: int = 10,
    precision: Precision = "float32",
    progress: Progress | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    pooling: PoolingName | None = None,
) -> NeighbourLists:
    """Return the nearest texts of a corpus to each query, for each of several models.

    The texts of the corpus are distinct, as those of `read_corpus`. Prompts and pooling are those
    of `load_encoder`, for all models.

    Raises:
        UserError: there is no model or no query, a query is empty, k is below 1, or a model cannot
            be loaded.
    """
    progress = progress or Logged()
    cleaned = checked_queries(models, queries, k)
    lists = {}
    for model in dict.fromkeys(models):
        encoder = load_encoder(model, pooling, None, query_prompt, document_prompt)
        if encoder.prompts.summary:
            progress.line("prompts", f"of {model}: {encoder.prompts.summary}")
        progress.line("encode", f"{number_of(len(corpus), 'texts')} by {model}")
        with progress.bar("encode", len(cleaned) + len(corpus)) as advance:
            embed = partial(encoder.embed, on_batch=advance, precision=precision)
            encode = PromptedEncoders.of_prompts(encoder.prompts, embed)
            lists[model] = nearest_texts(encode, cleaned, corpus, k)
    return NeighbourLists(cleaned, protocol(len(corpus)), lists)


def checked_queries(models: Sequence[str], queries: Sequence[str], k: int) -> tuple[str, ...]:
    """Return the cleaned queries; refuse bad arguments of `find_neighbours` before other work."""
    cleaned = tuple(map(clean, queries))
    require_k(k)
    if not models or not cleaned or not all(cleaned):
        raise UserError(
            f"models {', '.join(models) or 'none'}, queries {list(queries)}: give one or more "
            "models, and one or more queries that are not empty (`query`)"
        )
    for model in models:
        resolve(model)
    return cleaned


def nearest_texts(
    encode: PromptedEncoders, queries: Sequence[str], corpus: Sequence[str], k: int
) -> list[list[Neighbour]]:
    """Return the k texts with the highest cosine to each query, nearest first.

    A text equal to the query is left out. Texts with equal cosines keep the order of the corpus.
    Each text is encoded once.

    Returns:
        n lists of k neighbours (fewer if the corpus has fewer texts).
    """
    slices = (
        unit_rows(
            encode.documents([corpus[row] for row in range(start, min(start + SLICE, len(corpus)))])
        )
        for start in range(0, len(corpus), SLICE)
    )
    # One more than k, since the corpus may contain the query itself.
    nearest_rows = nearest(unit_rows(encode.queries(queries)), slices, k + 1)
    lists = []
    for query, near in zip(queries, nearest_rows, strict=True):
        pairs = zip(near.rows.tolist(), near.products.tolist(), strict=True)
        neighbours = [Neighbour(corpus[row], cosine) for row, cosine in pairs]
        lists.append([neighbour for neighbour in neighbours if neighbour.text != query][:k])
    return lists


def protocol(texts: int) -> str:
    """Return the description of the search.

    >>> protocol(2000)
    'cosine, 2,000 distinct texts, the query itself left out'
    """
    return f"cosine, {number_of(texts, 'distinct texts')}, the query itself left out"


def read_corpus(
    files: str | Sequence[str],
    column: str = "text",
    encoding: str = "utf-8",
    progress: Progress | None = None,
) -> Passages:
    """Read the distinct texts of files, or the passages of documents, cleaned, of any length.

    The arguments are fields of `CorpusConfig`.

    Raises:
        UserError: a file cannot be read, or the files contain no text.
    """
    progress = progress or Logged()
    config = CorpusConfig(
        (files,) if isinstance(files, str) else tuple(files),
        column,
        encoding=encoding,
        min_chars=1,
        passage_words=None,
        near_duplicates=False,
        held_out=0,
    )
    progress.line("reading", ", ".join(config.corpus))
    texts = Passages(load_corpus(config, cache_folder()))
    progress.line("corpus", number_of(len(texts), "distinct texts"))
    return texts


class Passages(Sequence[str]):
    """The passages of a corpus, read from disk, without titles and parts of passages."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus, self._rows = corpus, corpus.passages

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> str:  # type: ignore[override]  # no slices
        return self._corpus[self._rows[place]]
