"""A user's own data: files of pairs, triples, scored pairs or labels, folders of judged queries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from isospace.corpus.groups import unit_of
from isospace.errors import UserError
from isospace.evaluation.evaluate_config import DataKind
from isospace.evaluation.judged_files import load_judged
from isospace.evaluation.pairs import ScoredPairs, TextPairs
from isospace.evaluation.ranking import JudgedQueries
from isospace.evaluation.user_files import UserFile, parse_score, read_user_file, text_cell
from isospace.statistics.counts import number_of
from isospace.system.files import expanded


@dataclass(frozen=True)
class Triples:
    """Anchors, each with a positive, which belongs to the anchor, and a negative."""

    anchors: tuple[str, ...]
    positives: tuple[str, ...]
    negatives: tuple[str, ...]


@dataclass(frozen=True)
class LabelledSentences:
    """Sentences and their labels."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]


Content: TypeAlias = TextPairs | ScoredPairs | Triples | LabelledSentences | JudgedQueries


@dataclass(frozen=True)
class OwnData:
    """A user's file or folder: its name, a description of the columns read, its content."""

    file: str
    columns: str
    content: Content

    def texts(self) -> list[str]:
        """Return the distinct texts of the file."""
        match self.content:
            case Triples(anchors, positives, negatives):
                return list(dict.fromkeys((*anchors, *positives, *negatives)))
            case LabelledSentences(texts, _):
                return list(dict.fromkeys(texts))
            case JudgedQueries(queries, documents):
                return list(dict.fromkeys((*queries, *documents)))
            case TextPairs():
                return list(dict.fromkeys((*self.content.first, *self.content.second)))


def load_own(
    path: Path | str,
    kind: DataKind | None = None,
    split: str | None = None,
    ignore_identical_ids: bool = True,
) -> OwnData:
    """Read a user's file, or a folder of judged queries.

    Args:
        path: a csv, tsv, txt, jsonl or parquet file, as `user_files.read_user_file` reads it, or a
            folder as `judged_files.load_judged` reads it.
        kind: kind of the rows of a file; default: recognised by the columns.
        split: split of a folder, as for `judged_files.load_judged`.
        ignore_identical_ids: for a folder, as for `judged_files.load_judged`.

    Raises:
        UserError: the data cannot be read or scored; the message names file and line.
    """
    if (folder := expanded(path)).is_dir():
        judged = load_judged(folder, split, ignore_identical_ids)
        documents = number_of(len(judged.documents), "documents")
        found = f"{len(judged):,} judged queries of {judged.file}, {documents}"
        return OwnData(folder.name, found, judged)
    file = read_user_file(path, kind)
    columns = f"columns {', '.join(file.columns)}" if file.columns else "columns without names"
    return OwnData(file.path.name, columns, _PARSERS[file.kind](file))


def load_pairs(path: Path | str, group: str | None = None) -> TextPairs:
    """Read a file of two columns: two texts that belong together.

    Args:
        path: a file as `user_files.read_user_file` reads it. Two columns with unknown names are
            read in their order.
        group: name of another column, with the group of each pair.

    Raises:
        UserError: the file cannot be read, has a wrong number of columns, no column `group`, an
            empty text, or fewer than two pairs. The message names file and line.
    """
    return as_pairs(read_user_file(path, "pairs", group))


def load_scored_pairs(path: Path | str, trains: bool = False) -> ScoredPairs:
    """Read a file of three columns: sentence1, sentence2, score.

    Scores may have any range: only their order counts.

    Raises:
        UserError: as in `load_pairs`, or a score is not a finite number.
    """
    return as_scored_pairs(read_user_file(path, "scored", trains=trains))


def as_pairs(file: UserFile) -> TextPairs:
    """Return the pairs of a file of kind "pairs".

    Raises:
        UserError: a text is empty, or all rows have the same second text.
    """
    rows = [[text_cell(file.path, line, cell) for cell in cells] for line, cells in file.rows]
    first, second = zip(*rows, strict=True)
    if len(set(second)) < 2:
        raise UserError(
            f"{file.path}: all rows have the same second text, {second[0][:60]!r}, so there is "
            "nothing to search. Give two or more different texts"
        )
    unit = unit_of(file.group)
    return TextPairs(file.path.name, first, second, groups=file.groups, unit=unit)


def as_scored_pairs(file: UserFile) -> ScoredPairs:
    """Return the pairs of a file of kind "scored".

    Raises:
        UserError: a text is empty, a score is not a finite number, or all scores are the same.
    """
    rows = [
        (
            text_cell(file.path, line, first),
            text_cell(file.path, line, second),
            parse_score(file.path, line, score),
        )
        for line, (first, second, score) in file.rows
    ]
    first, second, gold = zip(*rows, strict=True)
    if len(set(gold)) < 2:
        raise UserError(
            f"{file.path}: all rows have the score {gold[0]:g}. Give different scores, because "
            "only their order counts"
        )
    return ScoredPairs(file.path.name, first, second, np.array(gold, np.float64), "own file")


def _as_triples(file: UserFile) -> Triples:
    rows = []
    for line, cells in file.rows:
        anchor, positive, negative = (text_cell(file.path, line, cell) for cell in cells)
        if positive == negative:
            raise UserError(
                f"{file.path}:{line}: positive and negative are the same text, {positive[:60]!r}. "
                "Give a negative that does not belong to the anchor"
            )
        rows.append((anchor, positive, negative))
    return Triples(*zip(*rows, strict=True))


def _as_labelled(file: UserFile) -> LabelledSentences:
    rows = [
        (text_cell(file.path, line, text), _label(file.path, line, label))
        for line, (text, label) in file.rows
    ]
    texts, labels = zip(*rows, strict=True)
    counts = Counter(labels)
    if len(counts) < 2 or max(counts.values()) < 2:
        raise UserError(
            f"{file.path}: {number_of(len(counts), 'distinct labels')} in {len(labels)} rows. "
            "Give two or more labels, with several sentences each"
        )
    return LabelledSentences(texts, labels)


def _label(path: Path, line: int, cell: Any) -> str:
    number = isinstance(cell, float)
    usable = math.isfinite(cell) if number else isinstance(cell, str | int) and str(cell).strip()
    if not usable:
        raise UserError(f"{path}:{line}: {cell!r} is not a label. Give a word or a number")
    # A table with gaps in a column may hold whole numbers as 1.0.
    return str(int(cell)) if number and cell.is_integer() else str(cell).strip()


_PARSERS: dict[DataKind, Callable[[UserFile], Any]] = {
    "pairs": as_pairs,
    "scored": as_scored_pairs,
    "triples": _as_triples,
    "labelled": _as_labelled,
}
