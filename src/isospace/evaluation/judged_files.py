"""A folder of queries, documents and judgements, in BEIR's layout or with TREC's judgements.

- `corpus.jsonl`: `_id`, `text` and perhaps `title`, which stands before the text.
- `queries.jsonl` (`_id`, `text`), or `queries.tsv` or `topics.tsv`: an id, a tab, the query.
- `qrels/test.tsv` or `qrels.tsv` under `query-id, corpus-id, score`, or `qrels.txt`: TREC's
  `query 0 document grade`, without a header. Either kind of line is known in each of the files.

Each may be compressed (.gz, .zst, .xz).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from isospace.corpus.records import read_rows
from isospace.corpus.sources import Source, file_source
from isospace.errors import UserError
from isospace.evaluation.ranking import JudgedQueries
from isospace.statistics.counts import number_of

_DOCUMENTS = ("corpus.jsonl",)
_QUERIES = ("queries.jsonl", "queries.tsv", "topics.tsv")
_JUDGEMENTS = ("qrels/test.tsv", "qrels.tsv", "qrels.txt", "qrels/test.txt")
_ENDINGS = ("", ".gz", ".zst", ".xz")
_HEADER = ["query-id", "corpus-id", "score"]


def load_judged(folder: Path) -> JudgedQueries:
    """Read a folder; queries that nobody judged are left out.

    Raises:
        UserError: naming file and line: a file that is missing or cannot be read, a row without an
            id or a text, an id or a judgement twice, a grade that is no number, judgements of what
            is not there, fewer than two judged queries, or no relevant document.
    """
    documents_source, queries_source = _find(folder, _DOCUMENTS), _find(folder, _QUERIES)
    documents = _read_texts(documents_source)
    queries = _read_texts(queries_source)
    places = {key: place for place, key in enumerate(documents)}
    judged: dict[str, dict[int, float]] = {}
    source = _find(folder, _JUDGEMENTS)
    unknown: list[str] = []
    for where, query, document, grade in _read_judgements(source):
        for key, known, others in (
            (query, queries, queries_source),
            (document, places, documents_source),
        ):
            if key not in known:
                unknown.append(f"{where}: {key!r} is not in {Path(others.name).name}")
                break
        else:
            grades = judged.setdefault(query, {})
            if places[document] in grades:
                raise UserError(f"{where}: query {query!r} and document {document!r} stand twice")
            grades[places[document]] = grade
    if unknown:
        raise UserError(
            f"{unknown[0]}; {len(unknown):,} of the judgements are of ids that are not there"
        )
    if len(judged) < 2:
        found = number_of(len(judged), "judged queries")
        raise UserError(f"{source.name}: {found}; expected two or more")
    if all(grade <= 0 for grades in judged.values() for grade in grades.values()):
        raise UserError(
            f"{source.name}: no document is relevant to any query, as no grade is above 0"
        )
    return JudgedQueries(
        tuple(queries[key] for key in judged),
        tuple(documents.values()),
        tuple(judged.values()),
    )


def _find(folder: Path, names: tuple[str, ...]) -> Source:
    """The first of these files that the folder has."""
    for name in names:
        for ending in _ENDINGS:
            if (path := folder / f"{name}{ending}").is_file():
                return file_source(path)
    raise UserError(
        f"{folder}: no {' or '.join(names)}. Expected a folder in BEIR's layout: corpus.jsonl, "
        "queries.jsonl and qrels/test.tsv"
    )


def _read_texts(source: Source) -> dict[str, str]:
    """Id -> text, with the title before it."""
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
        if other := next((part for part in parts if not isinstance(part, str | None)), None):
            raise UserError(f"{where}: expected a text, found {other!r}")
        text = " ".join(part.strip() for part in parts if part and part.strip())
        if not text:
            raise UserError(f"{where}: {str(key)!r} has no text")
        if str(key).strip() in texts:
            raise UserError(f"{where}: the id {str(key)!r} stands twice")
        texts[str(key).strip()] = text
    return texts


def _read_judgements(source: Source) -> Iterator[tuple[str, str, str, float]]:
    """Place, query, document and grade of each line."""
    for number, (line, row) in enumerate(read_rows(source)):
        fields = row if len(row) > 2 else " ".join(map(str, row)).split()  # TREC's have spaces
        cells = [str(field).strip() for field in fields]
        if number == 0 and cells == _HEADER:
            continue
        where = f"{source.name}:{line}"
        if len(cells) not in (3, 4):
            raise UserError(
                f"{where}: {number_of(len(cells), 'fields')}; expected query, document and "
                "grade, or TREC's query, 0, document and grade"
            )
        yield where, cells[0], cells[-2], _grade(where, cells[-1])


def _grade(where: str, cell: str) -> float:
    try:
        grade = float(cell)
    except ValueError:
        grade = math.nan
    if not math.isfinite(grade):
        raise UserError(f"{where}: the grade {cell!r} is no number; expected one such as 0, 1 or 2")
    return grade
