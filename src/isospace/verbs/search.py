"""The verbs of the vector database: a dataclass each, whose fields are its options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.cells import cell_len
from rich.console import Console as Terminal
from rich.text import Text

from isospace.errors import UserError
from isospace.search import Hit, SearchIndex
from isospace.search.files import DEFAULT_FOLDER, IndexConfig, index_files
from isospace.verbs.console import Console
from isospace.verbs.printing import print_result, print_table

_LEAST = 20
"""Cells of a text that are shown however narrow the terminal."""


@dataclass(frozen=True)
class Index:
    """Make text of any size searchable on disk, add to that, or delete from it."""

    config: IndexConfig
    delete: str | None = None
    """Delete the rows that match this SQL condition on id, text and the columns that were kept."""
    json: bool = False
    """Print the outcome as JSON and no progress."""

    def run(self) -> int:
        """Index or delete, and say what changed."""
        console, folder = Console(self.json), self.config.to
        if self.delete is not None:
            return self._delete(console)
        try:
            made = index_files(self.config, console)
        except KeyboardInterrupt:
            console.line("stopped", f"{folder} keeps what it has; the same command goes on")
            return 1
        if self.json:
            print_result(json.dumps({**asdict(made), "index": str(folder)}, indent=2))
            return 0
        counts = asdict(made.changes)
        console.line("rows", ", ".join(f"{n:,} {word}" for word, n in counts.items() if n))
        console.line("index", f"{made.rows:,} rows in {folder}")
        how = made.approximate.text if made.approximate else "exact"
        console.line("search", f"{how}; isospace search 'a query' --index {folder}")
        return 0

    def _delete(self, console: Console) -> int:
        if self.config.inputs:
            raise UserError("--delete: give no files with it; add them by a command of their own")
        index = SearchIndex.open(self.config.to)
        deleted = index.delete(self.delete or "")
        index.refresh()
        if self.json:
            print_result(json.dumps({"deleted": deleted, "rows": len(index)}, indent=2))
        console.line("rows", f"{deleted:,} deleted, {len(index):,} left in {self.config.to}")
        return 0


@dataclass(frozen=True)
class Search:
    """List the texts of an index that are nearest to a query."""

    queries: Annotated[tuple[str, ...], tyro.conf.Positional]
    """What to look for; each text is a query of its own."""
    index: Path = DEFAULT_FOLDER
    """A folder that `isospace index` made."""
    k: Annotated[int, tyro.conf.arg(aliases=["-k"])] = 10
    """How many."""
    where: str | None = None
    """Only rows that match this SQL condition, as "year > 2000 AND id != 'a'"."""
    exact: bool = False
    """Compare the query with every row, also where the index is large."""
    fused: bool = False
    """Rank by shared words and by vectors together, by reciprocal rank."""
    model: str | None = None
    """Where the model of the index is, if no longer where it was."""
    json: bool = False
    """Print everything as JSON."""

    def run(self) -> int:
        """Search and print."""
        index = SearchIndex.open(self.index, self.model)
        found = index.search(self.queries, self.k, self.where, self.exact, self.fused)
        pairs = list(zip(self.queries, found.hits, strict=True))
        if self.json:
            lists = [{"query": query, "hits": list(map(asdict, hits))} for query, hits in pairs]
            content = {"protocol": found.protocol, "queries": lists}
            print_result(json.dumps(content, indent=2, ensure_ascii=False))
            return 0
        for query, hits in pairs:
            title = f"{_line(query)}  ({found.protocol})"
            if hits:
                print_table(title, _rows(hits))
            else:
                print_result(f"{title}: nothing found")
        return 0


def _rows(hits: Sequence[Hit]) -> list[dict[str, str]]:
    """Cells; on a terminal the texts are cut to what its width leaves them."""
    rows = [
        {"rank": str(rank), "cosine": f"{hit.cosine:.3f}", "id": _line(hit.id)}
        | {"text": _line(hit.text)}
        | {name: "" if value is None else _line(str(value)) for name, value in hit.metadata.items()}
        for rank, hit in enumerate(hits, 1)
    ]
    terminal = Terminal()
    if terminal.is_terminal:
        others = [name for name in rows[0] if name != "text"]
        taken = sum(max(cell_len(row[name]) for row in [{name: name}, *rows]) for name in others)
        room = max(_LEAST, terminal.width - taken - 3 * len(rows[0]) - 1)
        for row in rows:
            text = Text(row["text"])
            text.truncate(room, overflow="ellipsis")
            row["text"] = text.plain
    return rows


def _line(text: str) -> str:
    """A text as one line that cannot steer the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)
