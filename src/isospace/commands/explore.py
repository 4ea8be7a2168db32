"""The command `explore`."""

from __future__ import annotations

import json
import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isospace.commands.console import Console
from isospace.commands.options import LoadsModels, Models
from isospace.commands.printing import print_result
from isospace.encoders.settings import EncoderSettings, Precision
from isospace.errors import UserError
from isospace.system.imports import require_extra


@dataclass(frozen=True)
class Explore(LoadsModels, EncoderSettings):
    """Options of `isospace explore`."""

    models: Models = ("minilm",)
    """One or two, each minilm, a model folder, the folder of a run, or a Hub name. The folder that
    adapt left stands for two: its base model and its result."""
    corpus: tuple[str, ...] = ()
    """The texts to look in, as train takes them: documents, rows and lines in files, folders and
    URLs, - for standard input, or docstrings. Default for a folder that adapt left: the texts of
    its test pairs."""
    column: str = "text"
    """Which column of jsonl, csv, tsv and parquet files holds the texts."""
    encoding: str = "utf-8"
    """Encoding of the text files."""
    precision: Precision = "float32"
    """bf16 is faster on processors that support it."""
    port: int = 8265
    """Port of the page on this machine; 0 takes one that is free."""
    open: bool = False
    """Open the page in the browser."""

    def run(self) -> None:
        """Read and encode the texts, and serve the page until Ctrl-C."""
        from isospace.explore.session import Adapted, open_session, read_corpus

        models = list(dict.fromkeys(self.models))
        if not 1 <= len(models) <= 2:
            named = ", ".join(models) or "none"
            raise UserError(f"models {named}: expected one, or two to compare")
        adapted = Adapted.open(models[0]) if len(models) == 1 else None
        if not self.corpus and adapted is None:
            named = ", ".join(models)
            raise UserError(
                f"{named}: not a folder that adapt left, so give a corpus (--corpus FILE, or "
                "--corpus docstrings)"
            )
        require_extra("explore", "explore", "starlette", "uvicorn")
        from isospace.encoders.places import resolve
        from isospace.explore.app import HOST, listen, make_server

        for model in models:
            resolve(model)  # before the corpus is read
        console = Console(self.json)
        names = ", ".join(Path(name).name or name for name in self.corpus)
        with listen(self.port) as listener:
            texts: Sequence[str]
            if adapted is None or self.corpus:
                texts = read_corpus(self.corpus, self.column, self.encoding, console)
            else:
                texts, names = adapted.texts(console), adapted.texts_name
            if adapted is not None and adapted.kept_base:
                console.line("adapt", "it kept the base model, which is shown alone")
            session = open_session(
                models if adapted is None else adapted.models(),
                texts,
                names,
                self,
                precision=self.precision,
                progress=console,
                changes=None if adapted is None else adapted.changes,
            )
            url = f"http://{HOST}:{listener.getsockname()[1]}/"
            console.line("explore", f"{url}  (Ctrl-C ends it)")
            if self.json:
                print_result(json.dumps({"url": url}))
                sys.stdout.flush()  # a script reads it while the page is served
            if self.open:
                webbrowser.open(url)
            try:
                make_server(session).run(sockets=[listener])
            except KeyboardInterrupt:
                console.line("ended", "nothing was written")
