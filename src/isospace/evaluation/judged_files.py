"""Folders of queries, documents and judgements, in BEIR's layout or with TREC's judgements.

- `corpus.jsonl`: `_id`, `text` and an optional `title`, which is put before the text.
- `queries.jsonl` (`_id`, `text`), or `queries.tsv` or `topics.tsv`: an id, a tab, the query.
- `qrels/SPLIT.tsv` (.txt, .jsonl) or `qrels.tsv` (.txt, .jsonl): `query-id, corpus-id, score`, with
  or without a header, as objects in jsonl; or TREC's `query 0 document grade`.

Each may be compressed (.gz, .zst, .xz).

Published folders have flaws. A flaw that trec_eval or BEIR's loader accepts is counted; other flaws
are errors.
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

_DOCUMENTS = ("corpus.jsonl",)
_QUERIES = ("queries.jsonl", "queries.tsv", "topics.tsv")
_JUDGEMENTS = (".tsv", ".txt", ".jsonl")
_COMPRESSED = ("", ".gz", ".zst", ".xz")
_COLUMNS = ("query-id", "corpus-id", "score")


_Flaws = defaultdict[str, list[str]]
"""Kind of an accepted flaw -> the places that have it, in order."""


def load_judged(
    folder: Path, split: str | None = None, ignore_identical_ids: bool = True
) -> JudgedQueries:
    """Read a folder; queries without a judgement are left out.

    Args:
        folder: the folder with the three files.
        split: name of the file in `qrels/`; default: test, else the only file.
        ignore_identical_ids: ignore the document that has the id of the query, unless it is judged
            relevant to that query. BEIR ignores such documents too.

    Raises:
        UserError: a file is missing or unreadable; there are several splits without test; a row has
            no id; a text or grade has a wrong type; all judgements name missing queries or
            documents; there are fewer than two judged queries or no relevant document. The message
            names file and line.
    """
    flaws: _Flaws = defaultdict(list)
    documents = _read_texts(_find(folder, _DOCUMENTS), "documents", flaws)
    queries = _read_texts(_find(folder, _QUERIES), "queries", flaws)
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
        what = "ignored, as in BEIR" if ignore_identical_ids else "ranked"
        notes.append(f"documents with the id of their query, {what}: {same:,}")
    return JudgedQueries(
        tuple(queries[key] for key in grades),
        tuple(documents.values()),
        tuple({places[key]: grade for key, grade in of.items()} for of in grades.values()),
        tuple(ignored) if ignore_identical_ids else (),
        Path(source.name).relative_to(folder).as_posix(),
        tuple(notes),
    )


def _find(folder: Path, names: tuple[str, ...]) -> Source:
    """Return the first of these files that is in the folder."""
    for name in names:
        for ending in _COMPRESSED:
            if (path := folder / f"{name}{ending}").is_file():
                return file_source(path)
    raise UserError(
        f"{folder}: no {' or '.join(names)}. Give a folder in BEIR's layout: corpus.jsonl, "
        "queries.jsonl and qrels/test.tsv"
    )


def _find_judgements(folder: Path, split: str | None) -> Source:
    """Return the judgements of a split; default: test, else the only file."""
    files: dict[str, Path] = {}
    for ending in (kind + compressed for kind in _JUDGEMENTS for compressed in _COMPRESSED):
        for path in sorted(folder.glob(f"qrels/*{ending}")):
            files.setdefault(path.name.removesuffix(ending), path)
        if (path := folder / f"qrels{ending}").is_file():
            files.setdefault("", path)
    if not files:
        return _find(folder, ("qrels/test.tsv", "qrels.tsv", "qrels.txt"))
    only = list(files) if len(files) == 1 else []
    for name in [split] if split else ["test", "", *only]:
        if name in files:
            return file_source(files[name])
    there = ", ".join(path.relative_to(folder).as_posix() for path in files.values())
    raise UserError(
        f"{folder}: no judgements of the split {split or 'test'}, but {there}. Name one of these "
        "with `split`"
    )


def _read_texts(source: Source, what: str, flaws: _Flaws) -> dict[str, str]:
    """Read the text of each id, with the title before it."""
    texts: dict[str, str] = {}
    for line, row in read_rows(source):
        where = f"{source.name}:{line}"
        if isinstance(row, dict):
            key, parts = row.get("_id"), [row.get("title"), row.get("text")]
        elif len(row) == 2:
            key, parts = row[0], [row[1]]
        else:
            raise UserError(f"{where}: {number_of(len(row), 'fields')}; expected an id and a text")
        if not isinstance(key, str | int) or not str(key).strip():
            raise UserError(f'{where}: "_id" is {key!r}; expected an id')
        if others := [part for part in parts if not isinstance(part, str | None)]:
            raise UserError(f"{where}: {others[0]!r} is not a text. Give a string")
        text, key = (
            " ".join(filter(None, (normalise(part or "").strip() for part in parts))),
            str(key),
        )
        if not text:
            flaws[f"{what} without a text, kept as empty texts"].append(f"{where}: {key!r}")
        if key.strip() in texts:
            flaws[f"{what} with a repeated id; the last one counts"].append(f"{where}: {key!r}")
        texts[key.strip()] = text
    return texts


def _read_judgements(
    source: Source, queries: dict[str, str], documents: dict[str, str], flaws: _Flaws
) -> dict[str, dict[str, float]]:
    """Return query -> document -> grade (by ids), without missing queries."""
    grades: dict[str, dict[str, float]] = {}
    missing = ""
    for where, query, document, grade in _rows_of_judgements(source):
        place = f"{where}: query {query!r}, document {document!r}"
        if query not in queries:
            missing = missing or f"{where}: there is no query {query!r}"
            flaws["judgements of missing queries, left out"].append(place)
            continue
        of = grades.setdefault(query, {})
        if document in of:
            same = of[document] == grade
            kind = "equal, counted once" if same else "with another grade, of which the last counts"
            flaws[f"repeated judgements {kind}"].append(place)
        elif document not in documents:
            missing = missing or f"{where}: there is no document {document!r}"
            flaws["judgements of missing documents, counted as not found"].append(place)
        of[document] = grade
    if missing and not any(document in documents for of in grades.values() for document in of):
        raise UserError(f"{missing}. Every other judgement names a missing query or document too")
    return grades


def _rows_of_judgements(source: Source) -> Iterator[tuple[str, str, str, float]]:
    """Yield file and line, query, document and grade of each line, without a header."""
    for number, (line, row) in enumerate(read_rows(source)):
        where = f"{source.name}:{line}"
        if isinstance(row, dict):
            if lacking := [column for column in _COLUMNS if column not in row]:
                raise UserError(f"{where}: no field {lacking[0]!r}; expected {', '.join(_COLUMNS)}")
            row = [row[column] for column in _COLUMNS]
        fields = row if len(row) > 2 else " ".join(map(str, row)).split()  # TREC has spaces
        cells = [str(field).strip() for field in fields]
        if len(cells) not in (3, 4):
            raise UserError(
                f"{where}: {number_of(len(cells), 'fields')}; expected query, document and "
                "grade, or TREC's query, 0, document and grade"
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
        yield where, cells[0], cells[-2], grade
