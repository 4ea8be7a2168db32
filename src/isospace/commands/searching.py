"""Commands that turn text into vectors and search it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, LoadsModels
from isospace.commands.printing import print_json, print_result, print_table
from isospace.config import EncodeConfig, IndexConfig
from isospace.errors import UserError, number_of
from isospace.system.files import expanded
from isospace.system.settings import PathOrText, Written
from isospace.system.unicode import in_one_line

if TYPE_CHECKING:
    from isospace.search import Hit


@dataclass(frozen=True)
class Encode(LoadsModels, CallsEndpoints):
    """Turn text of any size into files of vectors; a stopped run can be resumed."""

    config: EncodeConfig

    def run(self) -> None:
        """Encode the texts, or the rest of them after a stop."""
        from isospace.system.lifecycle import stoppable
        from isospace.vectors.encode import encode

        output = self.config.output
        with Console(self.json) as console, stoppable(lambda: "the same command resumes"):
            encoded = encode(self.config, console)
        if self.json:
            print_json({**asdict(encoded), "output": str(output)})
        console.line("encoded", f"{number_of(encoded.rows, 'rows')} in {output}")


@dataclass(frozen=True)
class Index(LoadsModels, CallsEndpoints):
    """Options of `isospace index`."""

    config: IndexConfig = field(default_factory=IndexConfig)
    delete: str | None = None
    """Delete the rows that match this SQL condition on id, text and the columns that were kept."""

    def run(self) -> None:
        """Index texts or delete rows, and print what changed."""
        from isospace.search.files import index_files
        from isospace.system.lifecycle import stoppable
        from isospace.training.run import selected_weight

        config, console = self.config, Console(self.json)
        if self.delete is not None:
            return self._delete(self.delete, console)

        def what_is_left() -> str:
            kept = f"{config.to} keeps what it has; " if config.to.exists() else ""
            return f"{kept}the same command resumes"

        weight = None if config.model is None else selected_weight(config.model)
        with console, stoppable(what_is_left):
            indexed = index_files(config, console, weight)
        if self.json:
            print_json({**asdict(indexed), "index": str(config.to)})
            return
        changes = asdict(indexed.changes).items()
        counts = [number_of(count, name.replace("_", " ")) for name, count in changes if count]
        console.line("rows", ", ".join(counts) or "no changes")
        console.line("index", f"{number_of(indexed.rows, 'rows')} in {config.to}")
        how = indexed.approximate.text if indexed.approximate else "exact"
        folder = shlex.quote(str(config.to))
        console.line("search", f"{how}; isospace search 'a query' --index {folder}")

    def _delete(self, where: str, console: Console) -> None:
        from isospace.search import SearchIndex

        config = self.config
        if replace(config, to=IndexConfig.to) != IndexConfig():
            raise UserError(
                "`delete` needs only the index (`to`). Leave out files and other options, and add "
                "texts with a second command"
            )
        index = SearchIndex.open(config.to)
        deleted = index.delete(where)
        index.refresh()
        if self.json:
            print_json({"deleted": deleted, "rows": len(index)})
        console.line("rows", f"{deleted:,} deleted, {len(index):,} left in {config.to}")


@dataclass(frozen=True)
class Search(LoadsModels, CallsEndpoints):
    """Options of `isospace search`."""

    queries: Annotated[tuple[str, ...], Written("QUERY", positional=True)]
    """What to look for; each text is a query of its own."""
    index: PathOrText = IndexConfig.to
    """A folder that `isospace index` made."""
    k: Annotated[int, Written(short="-k")] = 10
    """How many texts to list."""
    where: str | None = None
    """Only rows that match this SQL condition, as "year > 2000 AND id != 'a'"."""
    exact: bool = False
    """Compare the query with every row, even in a large index."""
    hybrid: bool = False
    """Rank by shared words (BM25) and by vectors together."""
    bm25_weight: float | None = None
    """Weight of BM25 with --hybrid; a higher weight favours shared words. Default: the weight that
    the run of the index's model selected, or 2."""
    model: str | None = None
    """A model with the same document vectors, such as one of --queries-only, or the model of the
    index, if its folder has moved. Default: the model of the index."""
    query_prompt: str | None = None
    """Put before every query, such as "query: "; "" for none. Default: the query prompt of the
    index."""

    def run(self) -> None:
        """Search the index and print the hits."""
        from isospace.search.about import About

        About.read(expanded(self.index))  # refused before the next line, which takes seconds
        from isospace.search import SearchIndex

        index = SearchIndex.open(self.index, self.model, self.query_prompt)
        results = index.search(
            self.queries, self.k, self.where, self.exact, self.hybrid, self.bm25_weight
        )
        pairs = list(zip(self.queries, results.hits, strict=True))
        if self.json:
            lists = [{"query": query, "hits": list(map(_as_json, hits))} for query, hits in pairs]
            print_json({"protocol": results.protocol, "queries": lists})
            return
        for query, hits in pairs:
            title = f"{in_one_line(query)}  ({results.protocol})"
            if hits:
                print_table(title, _rows(hits), texts=["text"])
            else:
                print_result(f"{title}: nothing found")


def _as_json(hit: Hit) -> dict[str, Any]:
    """Return the fields of a hit; the parts of a hybrid score only after a hybrid search."""
    return {name: value for name, value in asdict(hit).items() if value is not None}


def _rows(hits: Sequence[Hit]) -> list[dict[str, str]]:
    rows = []
    for rank, hit in enumerate(hits, 1):
        scores = {"cosine": f"{hit.cosine:.3f}"}
        if hit.hybrid is not None:
            scores = {"hybrid": f"{hit.hybrid:.3f}", **scores, "BM25": f"{hit.bm25:.2f}"}
        metadata = {k: "" if v is None else str(v) for k, v in hit.metadata.items()}
        row = {"rank": str(rank), **scores, "id": hit.id, "text": hit.text, **metadata}
        rows.append({name: in_one_line(cell) for name, cell in row.items()})
    return rows
