"""Settings of `evaluate`. Nothing heavy is imported, because the command line's help needs them."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat

from isospace.config import Files
from isospace.encoders.settings import EncoderSettings, Precision
from isospace.operators.fusion import WEIGHT
from isospace.system.settings import NameOrPath, refuse_idle, settings

DataKind = Literal["pairs", "scored", "labelled"]

COMPRESS_READS = (
    "own", "kind", "split", "pooling", "query_prompt", "document_prompt", "precision",
)  # fmt: skip
"""Settings that `isospace evaluate --compress` reads; it refuses the others."""


@settings
class EvaluateConfig(EncoderSettings):
    """Settings of an evaluation: what models are scored on, and how.

    Raises:
        UserError: a value that a setting cannot have; the message names the setting.
    """

    data: NameOrPath | None = None
    """Folder with the STS sets in SentEval's layout, or hub; default: ISOSPACE_DATA, if set."""
    own: Files = ()
    """Files of your own to score on (csv, tsv, txt, jsonl, parquet), with pairs, scored
    pairs or labelled texts as rows. A folder in the layout of BEIR is a test of
    retrieval."""
    bm25_weight: NonNegativeFloat = WEIGHT
    """Weight of BM25 in hybrid search: the best match of words adds this many standard deviations
    of the query's cosines."""
    kind: DataKind | None = None
    """Kind of the rows in the files of `own`, if the names of the columns do not tell it."""
    split: str | None = None
    """Which judgements of a folder of `own` to use: the name of a file in its qrels, such as dev.
    Default: test, or the only one."""
    transfer: bool = False
    """Also train the papers' classifiers on the vectors, and score them on the seven transfer tasks
    in `data`."""
    geometry: bool = False
    """Also measure the geometry of the vectors, on STS-B dev or on the files of `own`."""
    precision: Precision = "float32"
    """Arithmetic of the encoder: bf16 is faster where the processor has it, and moves a score by a
    few hundredths of a point."""

    def __post_init__(self) -> None:
        if not self.own:
            refuse_idle(self, "`own`", "bm25_weight", "kind")
