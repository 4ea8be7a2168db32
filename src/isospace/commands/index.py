"""The command `index`."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, LoadsModels
from isospace.commands.printing import print_json
from isospace.encoders.pooling import PoolingName
from isospace.errors import UserError
from isospace.operators.forms import FormName
from isospace.statistics.counts import number_of
from isospace.system.cluster import Engine
from isospace.system.signals import polite_stop
from isospace.vectors.encode_config import AS_IT_LOOKS, Reading

if TYPE_CHECKING:
    from isospace.search import Changes

DEFAULT_FOLDER = Path("index")


@dataclass(frozen=True)
class Index(LoadsModels, CallsEndpoints):
    """Options of `isospace index`."""

    inputs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE ...")] = ()
    """Files (txt, jsonl, csv, tsv, parquet, documents; .gz, .zst or .xz), folders, URLs, - for
    standard input, or docstrings. A row without an id gets the id FILE:ROW, its passages FILE:ROW#1
    and on; indexing the file again replaces them."""
    to: Path = DEFAULT_FOLDER
    """The folder of the index; made if it is not there, else added to."""
    model: str | None = None
    """minilm, a model folder, a run's folder, a Hub name, an endpoint (http://HOST/v1#NAME), or
    vectors:FILE; default: the model of the index, and minilm for a new one."""
    column: str = "text"
    """Which column of jsonl, csv, tsv and parquet files holds the texts."""
    id_column: str | None = None
    """Which column holds ids; a row replaces the one that has its id, also within the files."""
    keep: tuple[str, ...] = ()
    """Other columns to keep, to filter by and to show; default: those of the index."""
    encoding: str = "utf-8"
    """Encoding of the text files."""
    reading: Reading = AS_IT_LOOKS
    pooling: PoolingName | None = None
    """For a new index: how token vectors become one vector of the text. Default: the model's own
    pooling."""
    query_prompt: str | None = None
    """For a new index: put before every query, such as "query: ", or the name of one of the model's
    own prompts; "" for none. Default: the model's own query prompt, if it has one."""
    document_prompt: str | None = None
    """For a new index: put before every text, in the same way. Default: the model's own document,
    passage or corpus prompt."""
    compress: FormName | None = None
    """For a new index: the form in which vectors are stored, such as pca-256-int8. `isospace
    evaluate RUN --compress` measures what each form loses. Default: float32."""
    sync: bool = False
    """Delete the rows of all files that are not there any more, such as renamed ones. FILE can be
    left out."""
    delete: str | None = None
    """Delete the rows that match this SQL condition on id, text and the columns that were kept."""
    engine: Engine = "local"
    """Where texts are encoded: in this process, or on the machines of a Ray cluster (RAY_ADDRESS
    names it); this process writes the index in any case."""
    workers: int = 1
    """With --engine ray: how many encode at once, each with the model in memory."""
    json: bool = False
    """Print the outcome as JSON and no progress."""

    def run(self) -> int:
        """Index texts or delete rows, and print what changed."""
        from isospace.encoders.places import resolve
        from isospace.search.columns import check_names
        from isospace.search.files import index_files
        from isospace.training.compressing import loss_sentence
        from isospace.training.run import chosen_weight

        console = Console(self.json)
        if self.delete is not None:
            return self._delete(self.delete, console)
        check_names(self.keep)  # before the files are read
        if self.model is not None:
            resolve(self.model)
        try:
            with console, polite_stop():
                indexed = index_files(
                    self.inputs,
                    self.to,
                    self.model,
                    self.column,
                    self.id_column,
                    self.keep,
                    self.encoding,
                    console,
                    self.query_prompt,
                    self.document_prompt,
                    None if self.model is None else chosen_weight(self.model),
                    self.engine,
                    self.workers,
                    self.reading,
                    self.sync,
                    self.pooling,
                    self.compress,
                )
        except KeyboardInterrupt:
            kept = f"{self.to} keeps what it has; " if self.to.exists() else ""
            console.line("stopped", f"{kept}the same command goes on")
            return 1
        if self.json:
            print_json({**asdict(indexed), "index": str(self.to)})
            return 0
        console.line("rows", _in_words(indexed.changes))
        console.line("index", f"{number_of(indexed.rows, 'rows')} in {self.to}")
        how = indexed.approximate.text if indexed.approximate else "exact"
        if self.compress is not None:
            console.line("compressed", loss_sentence(self.model or "minilm", self.compress))
        folder = shlex.quote(str(self.to))
        console.line("search", f"{how}; isospace search 'a query' --index {folder}")
        return 0

    def _delete(self, where: str, console: Console) -> int:
        from isospace.search import SearchIndex

        if self.inputs:
            raise UserError("--delete: give no files with it; add them by a command of their own")
        of_deleting = {"inputs", "to", "delete", "json", "trust_remote_code", "reading"}
        of_deleting |= {field.name for field in fields(CallsEndpoints)}
        for options in (self, self.reading):
            for field in fields(options):
                if field.name not in of_deleting and getattr(options, field.name) != field.default:
                    raise UserError(f"--delete: `{field.name}` is of what is added; leave it out")
        index = SearchIndex.open(self.to)
        deleted = index.delete(where)
        index.refresh()
        if self.json:
            print_json({"deleted": deleted, "rows": len(index)})
        console.line("rows", f"{deleted:,} deleted, {len(index):,} left in {self.to}")
        return 0


def _in_words(changes: Changes) -> str:
    """Return a sentence on the changes of the rows."""
    counts = {name: number for name, number in asdict(changes).items() if number}
    repeated = counts.pop("repeated", 0)
    words = [f"{number:,} {name}" for name, number in counts.items()]
    if repeated:
        words.append(f"{repeated:,} left out since a later row has the same id")
    return ", ".join(words) or "no changes"
