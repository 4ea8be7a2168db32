"""The command `index`."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, field, replace

from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, LoadsModels
from isospace.commands.printing import print_json
from isospace.errors import UserError, number_of
from isospace.vectors.encode_config import IndexConfig


@dataclass(frozen=True)
class Index(LoadsModels, CallsEndpoints):
    """Options of `isospace index`."""

    config: IndexConfig = field(default_factory=IndexConfig)
    delete: str | None = None
    """Delete the rows that match this SQL condition on id, text and the columns that were kept."""

    def run(self) -> None:
        """Index texts or delete rows, and print what changed."""
        from isospace.search.files import index_files
        from isospace.training.lifecycle import stoppable
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
        counts = [f"{count:,} {name}" for name, count in asdict(indexed.changes).items() if count]
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
