"""Folders of queries, documents and judgements in BEIR's layout.

- `corpus.jsonl`: `_id`, `text` and an optional `title`, which is put before the text.
- `queries.jsonl`: `_id` and `text`.
- `qrels/SPLIT.tsv`: query-id, corpus-id and score, with or without a header.

Each may be compressed (.gz, .zst, .xz). Published folders have flaws: those that BEIR's loader
accepts are counted, others are errors.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from isospace.corpus.characters import normalise
from isospace.corpus.records import read_rows
from isospace.corpus.sources import file_source
from isospace.corpus.streams import Source
from isospace.errors import UserError
from isospace.evaluation.ranking import JudgedQueries
from isospace.statistics.counts import number_of

logger = logging.getLogger(__name__)

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
    if len(grades) < 2:
        found = number_of(len(grades), "judged queries")
        raise UserError(f"{source.name}: {found}; expected two or more")
    if all(grade <= 0 for of in grades.values() for grade in of.values()):
        raise UserError(
            f"{source.name}: no grade is above 0, so no document is relevant to any query. Mend "
            "the grades"
        )
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
    for where, query, document, grade in _rows_of_judgements(source):
        if query not in queries:
            flaws[_MISSING].append(f"{where}: there is no query {query!r}")
            continue
        of = grades.setdefault(query, {})
        if document in of:
            flaws[_REPEATED].append(f"{where}: query {query!r}, document {document!r}")
        elif document not in documents:
            flaws[_MISSING].append(f"{where}: there is no document {document!r}")
        of[document] = grade
    if _MISSING in flaws and not any(key in documents for of in grades.values() for key in of):
        raise UserError(
            f"{flaws[_MISSING][0]}. Every other judgement names a missing query or document too"
        )
    return grades


def _rows_of_judgements(source: Source) -> Iterator[tuple[str, str, str, float]]:
    """Yield file and line, query, document and grade of each line, without a header."""
    for number, (line, row) in enumerate(read_rows(source)):
        where = f"{source.name}:{line}"
        cells = [str(cell).strip() for cell in row]
        if len(cells) != 3:
            raise UserError(
                f"{where}: {number_of(len(cells), 'fields')}; expected query, document and grade, "
                "separated by tabs"
            )
        try:
            grade = float(cells[-1])
        except ValueError:
            if number == 0:
                continue
            grade = math.nan
        if not math.isfinite(grade):
            raise UserError(
                f"{where}: the grade {cells[-1]!r} is not a number. Give one such as 0, 1 or 2"
            )
        yield where, cells[0], cells[1], grade
