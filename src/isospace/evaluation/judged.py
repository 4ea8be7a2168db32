"""Queries with graded judgements: folders in BEIR's layout, and measures of ranked lists.

- nDCG@10 (Järvelin & Kekäläinen 2002): the sum of grade / log2(1 + rank) over the first ten,
  divided by this sum for the best order of the judged documents. The gain is the grade, as in
  trec_eval.
- MRR@10: 1 / rank of the first relevant document, 0 below the tenth.
- R@k: the share of the relevant documents that are among the first k.

A document is relevant if its grade is above 0; documents without a judgement have grade 0. A judged
query without a relevant document has 0 in every measure, as in trec_eval and ir-measures. A query
without any judgement is left out. A judged document that is not in the corpus is never found. It
still counts as relevant and in the best order, as in trec_eval.

Documents that tie (within `nearest.TIE`) are in random order, and each measure is its mean over
these orders (McSherry & Najork 2008, ECIR, "Computing Information Retrieval Performance Measures
Efficiently in the Presence of Tied Scores"). So an encoder with one vector for all texts gets the
score of chance, and the order of the files does not matter.

A folder has BEIR's layout, and each of its files may be compressed (.gz, .zst, .xz):

- `corpus.jsonl`: `_id`, `text` and an optional `title`, which is put before the text.
- `queries.jsonl`: `_id` and `text`.
- `qrels/SPLIT.tsv`: query-id, corpus-id and score, with or without a header.

Flaws that BEIR's loader accepts are counted, others are errors.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.records import finite_number, read_rows
from isospace.corpus.sources import Source, file_source
from isospace.errors import UserError, number_of
from isospace.operators.nearest import TIE
from isospace.statistics.gains import FloatArray, Scores, mean_scores
from isospace.system.unicode import normalise

logger = logging.getLogger(__name__)

MEASURES = ("nDCG@10", "MRR@10", "R@1", "R@10", "R@100")
"""Measures in the order of tables; the first decides the verdict."""

_DEPTH = 10  # depth of nDCG and MRR
_RECALLS = {"R@1": 1, "R@10": 10, "R@100": 100}
_DEEPEST = 100
_DISCOUNTS = 1 / np.log2(np.arange(2, _DEPTH + 2))
# What the first n places give together, n = 0 to 10.
_DISCOUNTED = np.concatenate([[0.0], np.cumsum(_DISCOUNTS)])


@dataclass(frozen=True)
class JudgedQueries:
    """Queries, the documents that are ranked for each of them, and graded judgements.

    `judgements` have the grade of each judged document by its position; positions behind the last
    document refer to missing ones, which are never found. `ignored` has for each query the position
    of a document that is not ranked, or -1. `notes` are remarks for the protocol.
    """

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    judgements: tuple[Mapping[int, float], ...]
    ignored: tuple[int, ...] = ()
    file: str = ""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.queries)

    def measure(self, blocks: Iterable[tuple[int, NDArray[Any]]]) -> dict[str, Scores]:
        """Return every measure of the rankings, by scores (query, document) in blocks."""
        values = measure_ranking(self._without_ignored(blocks), self.judgements)
        groups = np.arange(len(self))
        return {name: mean_scores(of_queries[None], groups) for name, of_queries in values.items()}

    def _without_ignored(
        self, blocks: Iterable[tuple[int, NDArray[Any]]]
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Set the score of each query's ignored document to -inf."""
        for start, scores in blocks:
            for row, place in zip(scores, self.ignored[start:], strict=False):
                if place >= 0:
                    row[place] = -np.inf
            yield start, scores


def measure_ranking(
    blocks: Iterable[tuple[int, NDArray[Any]]], judgements: Sequence[Mapping[int, float]]
) -> dict[str, FloatArray]:
    """Return every measure of each query, `(query,)`, by scores (query, document) in blocks.

    Documents with -inf are not ranked.

    >>> scores = np.array([[0.9, 0.5, 0.1]])
    >>> found = measure_ranking([(0, scores)], [{1: 1.0}])
    >>> found["MRR@10"], found["R@1"], found["nDCG@10"].round(4)
    (array([0.5]), array([0.]), array([0.6309]))
    """
    values = {name: np.zeros(len(judgements)) for name in MEASURES}
    for start, block in blocks:
        for query, scores in enumerate(block, start):
            for name, value in _measure(scores, judgements[query]).items():
                values[name][query] = value
    return values


def _measure(scores: NDArray[Any], grades: Mapping[int, float]) -> dict[str, float]:
    """Measure one query: scores (document,)."""
    relevant = {place: grade for place, grade in grades.items() if grade > 0}
    if not relevant:
        return {}
    gains = np.array(list(relevant.values()))
    own = np.array([scores[place] if place < len(scores) else -np.inf for place in relevant])
    better, tied = _places(scores, own)
    last = better + tied  # the places after `better`, up to this one, are shared

    def within(k: int) -> FloatArray:
        return np.asarray((np.minimum(last, k) - np.minimum(better, k)) / tied)

    discounts = _DISCOUNTED[np.minimum(last, _DEPTH)] - _DISCOUNTED[np.minimum(better, _DEPTH)]
    ideal = np.sort(gains)[::-1][:_DEPTH] @ _DISCOUNTS[: len(gains)]
    first = int(np.argmax(own))
    as_good = int((own >= own[first] - TIE).sum())
    recalls = {name: float(within(k).mean()) for name, k in _RECALLS.items()}
    return {
        "nDCG@10": float(gains @ (discounts / tied) / ideal),
        "MRR@10": _first_reciprocal(int(better[first]), int(tied[first]), as_good),
    } | recalls


def _places(scores: NDArray[Any], own: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count for each score in `own` the better documents, and the tied ones including itself.

    Counts of better documents are exact up to `_DEEPEST`, as no measure looks at lower ranks.
    """
    near = scores
    if len(scores) > _DEEPEST:
        # Include what ties with the last place that counts, and what ties with such a document.
        near = scores[scores >= np.partition(scores, -_DEEPEST)[-_DEEPEST] - 2 * TIE]
    ascending = np.sort(near)
    worse_or_tied = np.searchsorted(ascending, own + TIE, side="right")
    worse = np.searchsorted(ascending, own - TIE, side="left")
    better = np.where(own > -np.inf, len(near) - worse_or_tied, _DEEPEST)
    return better, np.maximum(1, worse_or_tied - worse)


def _first_reciprocal(better: int, tied: int, relevant: int) -> float:
    """Return the mean of 1 / rank of the first relevant document among those that tie."""
    total, chance = 0.0, relevant / tied  # probability of this place in the tie
    for place in islice(range(tied - relevant + 1), max(0, _DEPTH - better)):
        total += chance / (better + place + 1)
        chance *= (tied - place - relevant) / max(1, tied - place - 1)
    return total


_COMPRESSED = ("", ".gz", ".zst", ".xz")
_REPEATED = "repeated ids and judgements, of which the last counts"
_MISSING = "judgements of missing queries (left out) or documents (counted as not found)"

_Flaws = defaultdict[str, list[str]]
"""Kind of an accepted flaw -> the places that have it, in order."""


def load_judged(folder: Path, split: str | None = None) -> JudgedQueries:
    """Read a folder; queries without a judgement are left out.

    A document with the id of the query is ignored, as in BEIR, unless it is judged relevant to that
    query. `split` is the name of the file in `qrels/`; default: test, else the only file.
    """
    flaws: _Flaws = defaultdict(list)
    documents = _read_texts(_find(folder, "corpus.jsonl"), flaws)
    queries = _read_texts(_find(folder, "queries.jsonl"), flaws)
    source = _find_judgements(folder, split)
    grades = _read_judgements(source, queries, documents, flaws)
    if not any(
        grade > 0 and key in documents for of in grades.values() for key, grade in of.items()
    ):
        first = next(iter(flaws[_MISSING]), f"{source.name}: no grade is above 0")
        raise UserError(f"{first}. No query has a relevant document in {folder}: check the ids")
    if len(grades) < 2:
        found = number_of(len(grades), "judged queries")
        raise UserError(f"{source.name}: {found}; expected two or more")
    places = {key: place for place, key in enumerate(documents)}
    for key in dict.fromkeys(key for of in grades.values() for key in of):
        places.setdefault(key, len(places))  # missing documents come after the others
    ignored = [
        places[query] if query in documents and of.get(query, 0) <= 0 else -1
        for query, of in grades.items()
    ]
    notes = []
    for kind, where in flaws.items():
        notes.append(f"{kind}: {len(where):,}")
        logger.warning("%s. %s", where[0], notes[-1])
    if same := sum(place >= 0 for place in ignored):
        notes.append(f"documents with the id of their query, ignored, as in BEIR: {same:,}")
    return JudgedQueries(
        tuple(queries[key] for key in grades),
        tuple(documents.values()),
        tuple({places[key]: grade for key, grade in of.items()} for of in grades.values()),
        tuple(ignored),
        Path(source.name).relative_to(folder).as_posix(),
        tuple(notes),
    )


def _find(folder: Path, name: str) -> Source:
    """Return a file of the folder, which may be compressed."""
    for ending in _COMPRESSED:
        if (path := folder / f"{name}{ending}").is_file():
            return file_source(path)
    raise UserError(
        f"{folder}: no {name}. Give a folder in BEIR's layout: corpus.jsonl, queries.jsonl and "
        "qrels/test.tsv"
    )


def _find_judgements(folder: Path, split: str | None) -> Source:
    """Return the judgements of a split; default: test, else the only file."""
    paths = [path for end in _COMPRESSED for path in sorted(folder.glob(f"qrels/*.tsv{end}"))]
    files = {path.name.partition(".tsv")[0]: path for path in reversed(paths)}
    name = split or ("test" if len(files) != 1 else next(iter(files)))
    if not files or name in files:
        return _find(folder, f"qrels/{name}.tsv")
    there = ", ".join(sorted(path.relative_to(folder).as_posix() for path in paths))
    raise UserError(
        f"{folder}: no judgements of the split {name}, but {there}. Name one of these with `split`"
    )


def _read_texts(source: Source, flaws: _Flaws) -> dict[str, str]:
    """Read the text of each id, with the title before it."""
    texts: dict[str, str] = {}
    for line, row in read_rows(source):
        where = f"{source.name}:{line}"
        if not isinstance(row, dict):
            raise UserError(f'{where}: expected an object with "_id" and "text"')
        key, parts = row.get("_id"), [row.get("title"), row.get("text")]
        if not isinstance(key, str | int) or not str(key).strip():
            raise UserError(f'{where}: "_id" is {key!r}; expected an id')
        if others := [part for part in parts if not isinstance(part, str | None)]:
            raise UserError(f"{where}: {others[0]!r} is not a text. Give a string")
        key = str(key).strip()
        if key in texts:
            flaws[_REPEATED].append(f"{where}: {key!r}")
        texts[key] = " ".join(filter(None, (normalise(part or "").strip() for part in parts)))
    return texts


def _read_judgements(
    source: Source, queries: dict[str, str], documents: dict[str, str], flaws: _Flaws
) -> dict[str, dict[str, float]]:
    """Return query -> document -> grade (by ids), without missing queries."""
    grades: dict[str, dict[str, float]] = {}
    for number, (line, row) in enumerate(read_rows(source)):
        where = f"{source.name}:{line}"
        cells = [str(cell).strip() for cell in row]
        if len(cells) != 3:
            raise UserError(
                f"{where}: {number_of(len(cells), 'fields')}, expected query, document and grade"
            )
        query, document, cell = cells
        grade = finite_number(cell)
        if grade is None and number == 0 and query not in queries:
            continue  # a header
        if grade is None:
            raise UserError(f"{where}: the grade {cell!r} is not a number")
        if query not in queries:
            flaws[_MISSING].append(f"{where}: there is no query {query!r}")
            continue
        of = grades.setdefault(query, {})
        if document in of:
            flaws[_REPEATED].append(f"{where}: query {query!r}, document {document!r}")
        elif document not in documents:
            flaws[_MISSING].append(f"{where}: there is no document {document!r}")
        of[document] = grade
    return grades
