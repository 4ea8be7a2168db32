"""A user's own data: files of pairs, scored pairs or labels, and folders of judged queries.

A header, jsonl objects or parquet give the columns of a file names, and the names tell its kind.
Without names two columns are pairs and three are scored pairs.

A folder has BEIR's layout, and each of its files may be compressed (.gz, .zst, .xz):

- `corpus.jsonl`: `_id`, `text` and an optional `title`, which is put before the text.
- `queries.jsonl`: `_id` and `text`.
- `qrels/SPLIT.tsv`: query-id, corpus-id and score, with or without a header.

Published folders have flaws: those that BEIR's loader accepts are counted, others are errors.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from isospace.config import DataKind, EvaluateConfig
from isospace.corpus.groups import group_key, unit_of
from isospace.corpus.records import GENERATED_BY, Cells, read_rows
from isospace.corpus.sources import Source, file_source
from isospace.errors import UserError, number_of
from isospace.evaluation.pairs import ScoredPairs, TextPairs
from isospace.evaluation.retrieval import JudgedQueries
from isospace.system.files import expanded
from isospace.system.progress import warn_once
from isospace.system.unicode import normalise

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
    for number, (line, row) in enumerate(read_rows(source)):
        where = f"{source.name}:{line}"
        cells = [str(cell).strip() for cell in row]
        if len(cells) != 3:
            raise UserError(
                f"{where}: {number_of(len(cells), 'fields')}; expected query, document and grade, "
                "separated by tabs"
            )
        query, document, cell = cells
        grade = _number(cell)
        if grade is None and number == 0 and query not in queries:
            continue  # a header
        if grade is None:
            raise UserError(
                f"{where}: the grade {cell!r} is not a number. Give one such as 0, 1 or 2"
            )
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


_FIRST = (
    "anchor", "query", "question", "premise", "sentence1", "text1", "first", "a", "summary",
    "title", "source",
)  # fmt: skip
_SECOND = (
    "positive", "document", "passage", "answer", "hypothesis", "sentence2", "text2", "second", "b",
    "body", "description",
)  # fmt: skip
_TEXT = ("text", "sentence", "content", "review", "body", "description")

COLUMNS: dict[DataKind, dict[str, tuple[str, ...]]] = {
    "scored": {
        "sentence1": ("sentence1", *_FIRST),
        "sentence2": ("sentence2", *_SECOND),
        "score": ("score", "gold", "label", "rating", "relatedness_score", "similarity"),
    },
    "labelled": {
        "text": (*_TEXT, *_FIRST),
        "label": ("label", "category", "class", "intent", "topic"),
    },
    "pairs": {"query": ("query", *_FIRST), "document": ("document", *_SECOND)},
}
"""Kind -> column -> accepted names of the column. If several names or kinds fit a file, the first
is used."""

_NAME_WORDS = 3  # a cell with more words is not a column name


@dataclass(frozen=True)
class LabelledSentences:
    """Sentences and their labels."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.texts)


Content: TypeAlias = TextPairs | ScoredPairs | LabelledSentences | JudgedQueries


@dataclass(frozen=True)
class OwnData:
    """A user's file or folder: its name, a description of the columns read, its content."""

    file: str
    columns: str
    content: Content

    def texts(self) -> list[str]:
        """Return the distinct texts of the file."""
        match self.content:
            case LabelledSentences(texts, _):
                found = texts
            case JudgedQueries(queries, documents):
                found = (*queries, *documents)
            case TextPairs(_, first, second):
                found = (*first, *second)
        return list(dict.fromkeys(found))


def load_own(path: Path | str, kind: DataKind | None = None, split: str | None = None) -> OwnData:
    """Read a user's file, or a folder of judged queries.

    `kind` is that of a file's rows (default: recognised by the columns), `split` that of a folder.

    Raises:
        UserError: the data cannot be read or scored; the message names file and line.
    """
    if (folder := expanded(path)).is_dir():
        judged = load_judged(folder, split)
        documents = number_of(len(judged.documents), "documents")
        found = f"{len(judged):,} judged queries of {judged.file}, {documents}"
        return OwnData(folder.name, found, judged)
    file = read_user_file(path, kind)
    columns = f"columns {', '.join(file.columns)}" if file.columns else "columns without names"
    parse: dict[DataKind, Callable[[UserFile], Content]] = {
        "pairs": _as_pairs,
        "scored": _as_scored_pairs,
        "labelled": _as_labelled,
    }
    return OwnData(file.path.name, columns, parse[file.kind](file))


def load_own_files(config: EvaluateConfig) -> list[OwnData]:
    """Read the files and folders of `own`; several of one name are named by their paths."""
    own = [load_own(path, config.kind, config.split) for path in config.own]
    names = [data.file for data in own]
    return [
        replace(data, file=path) if names.count(data.file) > 1 else data
        for path, data in zip(config.own, own, strict=True)
    ]


def load_pairs(path: Path | str, group: str | None = None) -> TextPairs:
    """Read a file of two columns: two texts that belong together.

    `group` is the name of another column, with the group of each pair.

    Raises:
        UserError: the file cannot be read, or has no such pairs; the message names file and line.
    """
    return _as_pairs(read_user_file(path, "pairs", group))


def load_scored_pairs(path: Path | str, trains: bool = False) -> ScoredPairs:
    """Read a file of three columns: sentence1, sentence2, score.

    Scores may have any range: only their order counts.

    Raises:
        UserError: as in `load_pairs`, or a score is not a finite number.
    """
    return _as_scored_pairs(read_user_file(path, "scored", trains=trains))


def _as_pairs(file: UserFile) -> TextPairs:
    first, second = file.texts(0), file.texts(1)
    if len(set(second)) < 2:
        raise UserError(
            f"{file.path}: all rows have the same second text, {second[0][:60]!r}, so there is "
            "nothing to search. Give two or more different texts"
        )
    unit = unit_of(file.group)
    return TextPairs(file.path.name, first, second, groups=file.groups, unit=unit)


def _as_scored_pairs(file: UserFile) -> ScoredPairs:
    first, second = file.texts(0), file.texts(1)
    gold = [parse_score(file.path, line, cells[2]) for line, cells in file.rows]
    if len(set(gold)) < 2:
        raise UserError(
            f"{file.path}: all rows have the score {gold[0]:g}. Give different scores, because "
            "only their order counts"
        )
    return ScoredPairs(file.path.name, first, second, np.array(gold), "own file")


def _as_labelled(file: UserFile) -> LabelledSentences:
    labels = tuple(_label(file.path, line, cells[1]) for line, cells in file.rows)
    counts = Counter(labels)
    if len(counts) < 2 or max(counts.values()) < 2:
        raise UserError(
            f"{file.path}: {number_of(len(counts), 'distinct labels')} in {len(labels)} rows. "
            "Give two or more labels, with several sentences each"
        )
    return LabelledSentences(file.texts(0), labels)


def _label(path: Path, line: int, cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # a table with gaps holds whole numbers as 1.0
    usable = isinstance(cell, str | int) or (isinstance(cell, float) and math.isfinite(cell))
    label = str(cell).strip() if usable else ""
    if not label:
        raise UserError(f"{path}:{line}: {cell!r} is not a label. Give a word or a number")
    return label


@dataclass(frozen=True)
class UserFile:
    """Rows of a file: line number (parquet: row number) and cells of each.

    `columns` are the names of the columns that were read, in the order of `COLUMNS[kind]`; empty if
    the file has no names.
    """

    path: Path
    kind: DataKind
    columns: tuple[str, ...]
    rows: list[tuple[int, list[Any]]]
    group: str | None = None
    groups: tuple[str, ...] | None = None

    def texts(self, column: int) -> tuple[str, ...]:
        """Return the texts of a column."""
        return tuple(text_cell(self.path, line, cells[column]) for line, cells in self.rows)


def read_user_file(
    path: Path | str, kind: DataKind | None = None, group: str | None = None, trains: bool = False
) -> UserFile:
    """Read a file of pairs, scored pairs or labelled sentences.

    Columns that the kind does not need are ignored, except `group`: it names the group of each row.
    Text is UTF-8. Rows written by a language model (`GENERATED_BY`) are left out, unless the file
    is for training alone (`trains`).
    """
    path = expanded(path)
    source = file_source(path)
    # A first row with the name `group` is a header, even if its other names are unknown.
    rows = list(read_rows(source, lambda cells: group in cells or _is_header(cells)))
    if not trains:
        rows = _own_rows(path, rows)
    groups = None if group is None else _take_groups(path, rows, group)
    named = ((line, tuple(row)) for line, row in rows if isinstance(row, dict))
    line, names = next(named, (1, ()))
    if len(rows) < 2:
        raise UserError(f"{path}: {number_of(len(rows), 'rows')}, expected at least two")
    if not names and source.format != "jsonl":
        _require_no_header(f"{path}:{rows[0][0]}", _values(rows[0][1]))
    kind = kind or _recognise(path, names, [row for _, row in rows])
    columns = _columns_to_read(f"{path}:{line}", kind, names)
    cells = [(line, _cells(path, line, row, kind, columns)) for line, row in rows]
    return UserFile(path, kind, columns, cells, group, groups)


def _own_rows(path: Path, rows: list[tuple[int, Cells]]) -> list[tuple[int, Cells]]:
    """Return the rows that no language model wrote, without the column `GENERATED_BY`."""
    own = []
    for line, row in rows:
        if not (isinstance(row, dict) and row.pop(GENERATED_BY, None)):
            own.append((line, row))
    if not own and rows:
        raise UserError(
            f"{path}: a language model wrote all of its {number_of(len(rows), 'queries')}, and "
            "nothing is measured with generated queries. Train on them with `queries`"
        )
    if left_out := len(rows) - len(own):
        warn_once(
            logger,
            f"{path}: {number_of(left_out, 'generated queries')} left out, as nothing is measured "
            "with them",
        )
    return own


def text_cell(path: Path, line: int, cell: Any) -> str:
    """Return a text with its characters normalised and its white space folded."""
    text = " ".join(normalise(cell).split()) if isinstance(cell, str) else ""
    if not text:
        raise UserError(f"{path}:{line}: {cell!r} is not a text. Give a string")
    return text


def parse_score(path: Path, line: int, cell: Any) -> float:
    """Parse a gold score as a finite number."""
    score = _number(cell)
    if score is None:
        raise UserError(f"{path}:{line}: the score {cell!r} is not a number. Give one like 3.8")
    return score


def _take_groups(path: Path, rows: list[tuple[int, Cells]], group: str) -> tuple[str, ...]:
    """Remove the column `group` from the rows, and return the group of each row."""
    groups = []
    for line, row in rows:
        if not isinstance(row, dict):
            raise UserError(
                f'{path}:{line}: no column "{group}", because the columns have no names. Name '
                f"them in a first line, or in jsonl by keys: query, document, {group}"
            )
        if group not in row:
            raise UserError(
                f'{path}:{line}: no column "{group}". Columns: {", ".join(map(str, row))}. '
                "Name one with `group`"
            )
        # The NUL keeps a line number apart from the group names in the file.
        groups.append(group_key(row.pop(group)) or f"\0{line}")
    return tuple(groups)


def _is_header(cells: Sequence[str]) -> bool:
    return not any(_number(cell) is not None for cell in cells) and any(
        match_columns(kind, cells) for kind in COLUMNS
    )


def _require_no_header(where: str, first: Sequence[str]) -> None:
    """Refuse a first row that looks like a header of which only some names are known."""
    names = {name for columns in COLUMNS.values() for known in columns.values() for name in known}
    known = [cell for cell in first if cell.strip().lower() in names and len(cell.strip()) > 1]
    if known and all(0 < len(c.split()) <= _NAME_WORDS and _number(c) is None for c in first):
        raise UserError(
            f"{where}: {', '.join(first)} look like column names, but {', '.join(known)} alone do "
            f"not say what the file holds. Rename them to {_kinds_in_words()}. If they are a row, "
            "add a line of such names above it"
        )


def _recognise(path: Path, names: Sequence[str], rows: Sequence[Cells]) -> DataKind:
    """Return the kind of data by the columns' names, or their number."""
    labelled, scored, pairs = (
        match_columns(kind, names) for kind in ("labelled", "scored", "pairs")
    )
    # A title, a text and a label are no pair with a score.
    if labelled and (scored is None or labelled[0].strip().lower() in _TEXT):
        return "labelled"
    width = len(rows[0])
    if scored or (width == 3 and not pairs):
        return "scored"
    if pairs:
        return "pairs"
    if width != 2:
        given = f" ({', '.join(names)})" if names else ""
        raise UserError(
            f"{path}: {number_of(width, 'columns')}{given}; expected {_kinds_in_words()}, "
            "in this order or under these names"
        )
    for place, which in enumerate(("first", "second")):
        column = [str(_values(row)[place]) for row in rows if len(row) == 2]
        if 2 * len(set(column)) <= len(column):
            raise UserError(
                f"{path}: unclear whether the {which} column holds labels or texts. Name the "
                "columns (text, label) in a first line, or in jsonl by keys; or set `kind` "
                "labelled or `kind` pairs"
            )
    return "pairs"


def _kinds_in_words() -> str:
    return ", or ".join(f"{kind} ({', '.join(columns)})" for kind, columns in COLUMNS.items())


def match_columns(kind: DataKind, names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of the kind's columns in order, or `None` if a column is missing."""
    columns: list[str] = []
    for known in COLUMNS[kind].values():
        free = {name.strip().lower(): name for name in reversed(names) if name not in columns}
        name = next((free[name] for name in known if name in free), None)
        if name is None:
            return None
        columns.append(name)
    return tuple(columns)


def _columns_to_read(where: str, kind: DataKind, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the columns to read; empty if the file has no names."""
    if not names:
        return ()
    if kind == "pairs" and match_columns("scored", names):
        raise UserError(
            f"{where}: the columns {', '.join(names)} say scored pairs. Give two columns of texts "
            "that belong together"
        )
    if columns := match_columns(kind, names):
        return columns
    if len(names) != len(COLUMNS[kind]):
        given = f"{number_of(len(names), 'columns')} ({', '.join(names)})"
        raise UserError(f"{where}: {given}; {_expected(kind)}")
    return names


def _expected(kind: DataKind) -> str:
    return f"expected {len(COLUMNS[kind])} ({', '.join(COLUMNS[kind])})"


def _cells(path: Path, line: int, row: Cells, kind: DataKind, columns: Sequence[str]) -> list[Any]:
    if isinstance(row, dict) and columns:
        missing = [name for name in columns if name not in row]
        if missing:
            expected = ", ".join(columns)
            raise UserError(f"{path}:{line}: no field {missing[0]!r}; expected {expected}")
        return [row[name] for name in columns]
    if len(row) != len(COLUMNS[kind]):
        raise UserError(f"{path}:{line}: {number_of(len(row), 'columns')}; {_expected(kind)}")
    return _values(row)


def _values(row: Cells) -> list[Any]:
    return list(row.values()) if isinstance(row, dict) else row


def _number(cell: Any) -> float | None:
    """Return a cell as a finite number, or `None`."""
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if isinstance(cell, bool) or not math.isfinite(number) else number
