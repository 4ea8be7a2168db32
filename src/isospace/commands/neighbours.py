"""The command `neighbours`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from isospace.commands.console import Console
from isospace.commands.options import LoadsModels
from isospace.commands.printing import print_json, print_result, print_table
from isospace.encoders.pooling import PoolingName, Precision
from isospace.errors import UserError
from isospace.system.unicode import in_one_line


@dataclass(frozen=True)
class Neighbours(LoadsModels):
    """Options of `isospace neighbours`."""

    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL ...")] = (
        "minilm",
    )
    """Each minilm, a model folder, the folder of a run, or a Hub name."""
    corpus: tuple[str, ...] = ()
    """The texts to look in, as train takes them: documents, rows and lines in files, folders and
    URLs, - for standard input, or docstrings."""
    column: str = "text"
    """Which column of jsonl, csv, tsv and parquet files holds the texts."""
    encoding: str = "utf-8"
    """Encoding of the text files."""
    query: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """The text whose neighbours are listed; can be given several times."""
    k: Annotated[int, tyro.conf.arg(aliases=["-k"])] = 10
    """How many texts to list."""
    query_prompt: str | None = None
    """Put before every query, such as "query: ", or the name of one of the model's own prompts;
    "" for none. Default: the model's own query prompt, if it has one."""
    document_prompt: str | None = None
    """Put before every text of the corpus, in the same way. Default: the model's own
    document, passage or corpus prompt."""
    pooling: PoolingName | None = None
    """How the vectors of tokens become one of the text; default: the models' own."""
    precision: Precision = "float32"
    """bf16 is faster where the processor has it."""
    json: bool = False
    """Print everything as JSON, and no progress."""

    def run(self) -> int:
        """Read and encode the texts, and print the neighbours."""
        if not self.corpus or not self.query:
            raise UserError("give a corpus (--corpus FILE) and one or more queries (--query TEXT)")
        from isospace.corpus.lines import clean
        from isospace.encoders.places import resolve
        from isospace.search.embedder import require_k
        from isospace.search.neighbours import find_neighbours, read_corpus

        require_k(self.k)
        if not all(map(clean, self.query)):
            raise UserError(f"`query` {list(self.query)}: expected none of them to be empty")
        for model in self.models:
            resolve(model)  # before the corpus is read
        console = Console(self.json)
        corpus = read_corpus(self.corpus, self.column, self.encoding, console)
        neighbours = find_neighbours(
            self.models,
            corpus,
            self.query,
            self.k,
            self.precision,
            console,
            self.query_prompt,
            self.document_prompt,
            self.pooling,
        )
        if self.json:
            print_json(neighbours.to_json())
            return 0
        for place, query in enumerate(neighbours.queries):
            title = f"{in_one_line(query)}  ({neighbours.protocol})"
            if rows := neighbours.rows(place):
                print_table(title, rows, texts=neighbours.lists.keys())
            else:
                print_result(f"{title}: nothing found")
        return 0
