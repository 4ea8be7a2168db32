"""The settings of an index; light, because a missing index is refused before torch is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from isospace.encoders.settings import PoolingName, Prompts
from isospace.errors import UserError
from isospace.operators.forms import FULL, FormName
from isospace.search.columns import ColumnType
from isospace.system import typed_json

ABOUT = "isospace.json"


@dataclass(frozen=True)
class ApproximateIndex:
    """The approximate index, trained on `rows` rows, and its recall (`Database.measure_recall`)."""

    rows: int
    recall: float
    queries: int

    @property
    def text(self) -> str:
        """The measurement in words."""
        return f"approximate, recall@10 {self.recall:.3f} on {self.queries} of its own texts"


@dataclass(frozen=True)
class About:
    """The settings of an index, stored in isospace.json.

    `weights` is the model's `weights_hash` for documents. `pooling` is what the user gave. `root`
    is the path, relative to the index, of the working directory when the index was made; files
    below it are stored with relative paths.
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
    format: int = 5

    @property
    def prompts(self) -> Prompts:
        """The prompts of queries and documents."""
        return Prompts(query=self.query_prompt, document=self.document_prompt)

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
                f"{folder}: not an index ({what}). Make one: isospace index FILE... --to FOLDER"
            )
        try:
            return typed_json.read(path, About, "settings of an index")
        except UserError as error:
            raise UserError(f"{error}. Index the texts anew into another folder") from error
