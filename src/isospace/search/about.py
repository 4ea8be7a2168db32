"""isospace.json, the settings file of an index: its columns and its model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from isospace.encoders.encoder import Encoder
from isospace.encoders.frozen import FrozenEncoder
from isospace.encoders.loading import load_encoder, set_prompts, weights_hash
from isospace.encoders.places import folder_of
from isospace.encoders.pooling import PoolingName
from isospace.encoders.prompts import Prompts
from isospace.encoders.words import PREFIX, word_file
from isospace.errors import UserError
from isospace.operators.forms import FULL, FormName
from isospace.search.columns import ColumnType
from isospace.system import typed_json
from isospace.system.consent import current_consent
from isospace.system.endpoints import is_address
from isospace.vectors.compression_file import FILE as COMPRESSION

ABOUT = "isospace.json"
TABLE = "texts.lance"
"""Folder of the table; it has no subfolder `data` if the table has no rows."""


@dataclass(frozen=True)
class ApproximateIndex:
    """The size and quality of the approximate index.

    It was trained on `rows` rows. `recall` is the mean share of the 10 nearest texts that it finds.
    The queries of this measure are `queries` texts of the index; the row of a query does not count.
    """

    rows: int
    recall: float
    queries: int

    @property
    def text(self) -> str:
        """The measurement in words."""
        return f"approximate, recall@10 {self.recall:.3f} on {self.queries} of its own texts"


@dataclass(frozen=True)
class About:
    """The settings of an index.

    `weights` is the model's `weights_hash` for documents. `pooling` is what the user gave. `root`
    is the path, relative to the index, of the working directory when the index was made; files
    below it are stored with relative paths. Fitted values of `compress` are in compression.npz.
    """

    model: str
    weights: str
    dim: int
    columns: Mapping[str, ColumnType]
    root: str
    query_prompt: str
    document_prompt: str
    approximate: ApproximateIndex | None = None
    bm25_weight: float | None = None
    pooling: PoolingName | None = None
    compress: FormName = FULL
    format: int = 2

    @staticmethod
    def new(
        folder: Path,
        encoder: Encoder,
        columns: Mapping[str, ColumnType],
        bm25_weight: float | None,
        pooling: PoolingName | None,
        compress: FormName,
    ) -> About:
        """Return the settings of a new index, with paths valid in any working directory."""
        place, words = folder_of(encoder.source), word_file(encoder.source)
        model = encoder.source if place is None else str(place.resolve())
        if isinstance(encoder, FrozenEncoder) and place is None:
            model = encoder.given.name
        if words is not None:
            model = f"{PREFIX}{words[1]}:{words[0].resolve()}"
        return About(
            model,
            weights_hash(encoder, "document"),
            encoder.dim,
            columns,
            os.path.relpath(Path.cwd(), folder.resolve()),
            encoder.prompts.query,
            encoder.prompts.document,
            bm25_weight=bm25_weight,
            pooling=pooling,
            compress=compress,
        )

    def prompts(self, own: Prompts) -> Prompts:
        """Return a model's prompts with the query and document prompts of the index."""
        return replace(own, query=self.query_prompt, document=self.document_prompt)

    def write(self, folder: Path) -> None:
        """Write the settings into an index folder, atomically."""
        typed_json.write(folder / ABOUT, self)

    @staticmethod
    def read(folder: Path) -> About:
        """Read the settings of an index."""
        path = folder / ABOUT
        if not path.is_file():
            what = f"holds no {ABOUT}" if folder.is_dir() else "no such folder"
            raise UserError(
                f"{folder}: not an index ({what}). Make one with isospace index FILE..."
            )
        try:
            return typed_json.read(path, About, "settings of an index")
        except UserError as error:
            raise UserError(f"{error}. Index the texts anew into another folder") from error


def require_room(folder: Path) -> None:
    """Refuse a folder that is not empty; files of a killed creation are ignored."""
    if not folder.exists():
        return
    if (folder / ABOUT).exists():
        raise UserError(f"{folder}: this folder is already an index")
    if (folder / TABLE / "data").exists():
        raise UserError(
            f"{folder}: holds a table of texts but no {ABOUT}. Restore that file, or name another "
            "folder"
        )
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else [folder.name]
    left = (TABLE, COMPRESSION, f".{COMPRESSION}.", f".{ABOUT}.")
    if any(not name.startswith(left) for name in names):
        raise UserError(f"{folder}: exists already and is not an index. Name another folder")


def load_model(
    folder: Path, about: About, model: str | None, query_prompt: str | None = None
) -> Encoder:
    """Load the model of an index; refuse a model that did not make the index.

    `model` is its new location; `None`: the location in `about`. `query_prompt` is as for
    `load_encoder`; default: the prompt of the index.
    """
    name = model or about.model
    if model is None and is_address(name):
        current_consent().require_named(name, str(folder))
    try:
        encoder = load_encoder(name, about.pooling)
    except UserError as error:
        if model is not None:
            raise
        raise UserError(
            f"{error}. The index {folder} needs this model; if the model was moved, name its "
            "folder with `model`"
        ) from error
    encoder.prompts = about.prompts(encoder.prompts)
    set_prompts(encoder, query_prompt, None)
    if encoder.dim != about.dim:
        difference = f"{encoder.dim} dimensions, not {about.dim}"
    elif weights_hash(encoder, "document") != about.weights:
        difference = "other weights or settings, another tokenizer or another pooling"
    else:
        return encoder
    raise UserError(
        f"{folder}: this index was made with another model ({about.model}); {name} has "
        f"{difference}. Name the right one with `model`, or index the texts anew into another "
        "folder"
    )
