"""The command `neighbours`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from isospace.commands.console import Console
from isospace.commands.options import LooksInTexts
from isospace.commands.printing import print_json, print_result, print_table
from isospace.errors import UserError
from isospace.system.unicode import in_one_line


@dataclass(frozen=True)
class Neighbours(LooksInTexts):
    """Options of `isospace neighbours`."""

    query: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """The text whose neighbours are listed; can be given several times."""
    k: Annotated[int, tyro.conf.arg(aliases=["-k"])] = 10
    """How many texts to list."""
    json: bool = False
    """Print everything as JSON, and no progress."""

    def run(self) -> None:
        """Read and encode the texts, and print the neighbours."""
        if not self.corpus or not self.query:
            raise UserError("give a corpus (--corpus FILE) and one or more queries (--query TEXT)")
        from isospace.search.neighbours import checked_queries, find_neighbours, read_corpus

        checked_queries(self.models, self.query, self.k)  # before the corpus is read
        with Console(self.json) as console:
            corpus = read_corpus(self.corpus, self.column, self.encoding, console)
            neighbours = find_neighbours(
                self.models,
                corpus,
                self.query,
                self.k,
                precision=self.precision,
                progress=console,
                query_prompt=self.query_prompt,
                document_prompt=self.document_prompt,
                pooling=self.pooling,
            )
        if self.json:
            print_json(neighbours.to_json())
            return
        for place, query in enumerate(neighbours.queries):
            title = f"{in_one_line(query)}  ({neighbours.protocol})"
            if rows := neighbours.rows(place):
                print_table(title, rows, texts=neighbours.lists.keys())
            else:
                print_result(f"{title}: nothing found")
