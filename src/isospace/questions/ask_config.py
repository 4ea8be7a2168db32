"""Settings of `ask`, which the command line shows as its help without importing torch."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, PositiveFloat, PositiveInt

from isospace.config import CorpusConfig, Output, as_corpus
from isospace.errors import UserError
from isospace.system.settings import NameOrPath, PathOrText, settings


@settings
class AskConfig:
    """Settings of one collection of generated queries."""

    text: Annotated[CorpusConfig, BeforeValidator(as_corpus)] = field(default_factory=CorpusConfig)
    """The text whose passages the queries are for, and how it is cleaned."""
    llm: str = ""
    """The language model: the address of an OpenAI-compatible server and the model's name there,
    such as 'http://localhost:11434/v1#NAME'. The passages are sent to it."""
    count: PositiveInt = 1000
    """Number of queries to ask for. Filters drop some of them."""
    model: NameOrPath = "minilm"
    """The base model that checks the queries: minilm, a model
    folder, the folder of a run, or a Hub name."""
    like: PathOrText | None = None
    """A file of queries that real users asked. Each request shows some of them as examples."""
    parallel: PositiveInt = 4
    """Number of requests at the same time."""
    timeout: PositiveFloat = 120.0
    """Seconds in which a request must be answered."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 42
    """Random seed of the selection of passages and examples."""
    output: Output = None
    """The file to write, such as queries.jsonl. Counts are written beside it, with the ending
    .json."""

    def require_complete(self) -> None:
        """Refuse settings that are incomplete or do not go together."""
        if not self.text.corpus:
            raise UserError("`corpus` is missing. Give a folder or files: isospace ask FOLDER")
        if self.text.columns:
            raise UserError(
                f"`columns` {' '.join(self.text.columns)}: these rows have their queries already. "
                "Give documents, or name one column of passages with `column`"
            )
        if not self.llm:
            raise UserError(
                "`llm` is missing. Name a server and a model, such as "
                "'http://localhost:11434/v1#NAME'"
            )
        if self.output is None or self.output.suffix != ".jsonl":
            raise UserError(
                f"`output` {self.output or ''}: expected a file name that ends in .jsonl"
            )

    @property
    def counts_file(self) -> Path:
        """File of the counts, beside the output."""
        assert self.output is not None
        return self.output.with_suffix(".json")
