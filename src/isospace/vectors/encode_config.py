"""Settings of `encode` and `index`; a light import, for `--help`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import PositiveInt

from isospace.config import ALSO_O, NAMED_AS, CorpusConfig, FirstModel, Inputs, Layout, Names
from isospace.encoders.settings import EncoderSettings, Precision, Side
from isospace.errors import UserError
from isospace.operators.forms import FORMS, FormName, form_named
from isospace.system.cluster import Engine
from isospace.system.settings import NameOrPath, PathOrText, refuse_idle, settings

Format = Literal["parquet", "npy"]

_SINGLE: dict[str, Format] = {".parquet": "parquet", ".npy": "npy"}
_OTHER_FILES = (
    ".txt", ".csv", ".tsv", ".json", ".jsonl", ".gz", ".zst", ".zip", ".npz", ".pt", ".pkl", ".bin",
    ".safetensors", ".h5", ".hdf5", ".arrow", ".feather", ".faiss",
)  # fmt: skip
"""Endings of formats that isospace does not write; a folder with such a name would mislead."""


@settings
class Reading:
    """Settings for reading texts from files."""

    column: str = "text"
    """Which column of jsonl, csv, tsv and parquet files holds the texts."""
    id_column: str | None = None
    """Which column holds ids. Files of vectors hold them instead of the texts; in an index, a row
    replaces earlier rows with the same id."""
    encoding: str = "utf-8"
    """Encoding of the text files."""
    title_column: str | None = None
    """Which column of jsonl, csv, tsv and parquet files holds a title, to be put before the text of
    its row, and before each passage of it."""
    layout: Layout | None = None
    """How txt files are read: lines (each line is a text), or paragraphs (a document with blank
    lines between paragraphs). None: recognised for each file."""
    passage_words: PositiveInt | None = CorpusConfig.passage_words
    """Cut documents, and the long rows of an index, to passages of at most so many words
    (characters in scripts without spaces), at the ends of sentences; short paragraphs are
    joined. None keeps every paragraph and row."""


AS_LINES = Reading(layout="lines")
"""Reading of txt files with one text in each line."""


@settings
class EncodeConfig(EncoderSettings):
    """Settings of `encode`: texts, model and output."""

    model: FirstModel
    """minilm, a model folder, a run's folder, a Hub name, or an endpoint (http://HOST/v1#NAME)."""
    inputs: Inputs
    """Files (txt, jsonl, csv, tsv, parquet, documents; .gz, .zst or .xz), folders, URLs, - for
    standard input, or docstrings. Every row and every passage gets a vector; an empty line gets
    that of the empty text."""
    output: Annotated[PathOrText, ALSO_O]
    """A folder of shards, or one file if it ends in .parquet or .npy."""
    compress: NameOrPath | None = None
    """Form of the stored vectors: float16, int8, binary, or a smaller form such as pca-256-int8.
    The form is fitted on the texts and saved with the vectors. For queries (`as` query), give the
    folder or file of the documents' compressed vectors instead. Default: the model's own vectors,
    in float32."""
    format: Format | None = None
    """Format of the shards; default: parquet, or what `output` ends in."""
    precision: Precision = "float32"
    """bf16 is faster on processors that support it; a vector changes by about 1e-4 (1 - cosine)."""
    shard_size: int = 16_384
    """Rows of a shard, a multiple of 4096. A kill costs each worker one shard at most."""
    side: Annotated[Side | None, NAMED_AS] = None
    """Whether the texts are queries or documents; the model's prompt for them is put before each
    text. Default: neither, with the model's default prompt if it has one."""
    engine: Engine = "local"
    """Where texts are encoded: in this process, or on the machines of a Ray cluster (RAY_ADDRESS
    names it). The machines must share the folder of the output."""
    workers: PositiveInt = 1
    """With `engine` ray: number of workers, each with the model in memory."""
    reading: Reading = AS_LINES
    """How files are read. Documents alone are cut: a row of a file is a row of the output."""

    WINDOW: ClassVar[int] = 4096
    """Number of rows that are sorted by length together; a shard has a multiple of this number."""

    def __post_init__(self) -> None:
        """Refuse unusable values and combinations."""
        if self.engine == "local":
            refuse_idle(self, "`engine` ray", "workers")
        if not self.inputs:
            raise UserError(
                "nothing to encode. Name one or more files after the model, or - for standard input"
            )
        if self.output.suffix.lower() in _OTHER_FILES:
            raise UserError(
                f"`output` {self.output}: isospace does not write {self.output.suffix} files of "
                "vectors. Give a name that ends in .parquet or .npy, or a folder for shards"
            )
        if self.shard_size < 1 or self.shard_size % self.WINDOW:
            raise UserError(
                f"`shard_size` {self.shard_size}: must be a multiple of {self.WINDOW}, the rows "
                "that are sorted into batches together"
            )
        for side in get_args(Side):
            if getattr(self, f"{side}_prompt") is not None and self.side != side:
                raise UserError(
                    f"`{side}_prompt`: only applies to texts encoded as {side}. Give `as` {side} "
                    "with it"
                )
        if self.format is not None and self.file_format != self.format:
            raise UserError(
                f"`format` {self.format}: does not fit `output`, which ends in {self.output.suffix}"
            )
        form = self.compress and form_named(self.compress)
        if form and FORMS[form].rescored and self.file_format == "npy":
            raise UserError(f"`compress` {self.compress}: npy has no place for bits; write parquet")
        if self.reading.id_column is not None and self.file_format == "npy":
            raise UserError(
                "`id_column`: npy files hold only vectors, in the order of the rows. Leave "
                "`id_column` out, or write parquet"
            )

    @property
    def file_format(self) -> Format:
        """Format of the output files."""
        return _SINGLE.get(self.output.suffix.lower(), self.format or "parquet")

    @property
    def single(self) -> bool:
        """True if the shards are joined to one file."""
        return self.output.suffix.lower() in _SINGLE

    @property
    def shard_folder(self) -> Path:
        """Folder of the shards: the output, or a temporary folder until the shards are joined."""
        return self.output.with_name(f"{self.output.name}.parts") if self.single else self.output


@settings
class IndexConfig(EncoderSettings):
    """Settings of `index`: files to add to a new or an existing index."""

    inputs: Inputs = ()
    """Files (txt, jsonl, csv, tsv, parquet, documents; .gz, .zst or .xz), folders, URLs, - for
    standard input, or docstrings. A row without an id gets the id FILE:ROW, its passages FILE:ROW#1
    and on; indexing the file again replaces them."""
    to: PathOrText = Path("index")
    """The folder of the index. It is created, or texts are added to it."""
    model: NameOrPath | None = None
    """minilm, a model folder, a run's folder, a Hub name, an endpoint (http://HOST/v1#NAME), or
    vectors:FILE; default: the model of the index, and minilm for a new one."""
    keep: Names = ()
    """Other columns to keep, to filter by and to show; default: those of the index."""
    reading: Reading = Reading()
    compress: FormName | None = None
    """For a new index: the form in which vectors are stored, such as pca-256-int8. `isospace
    evaluate RUN --compress` measures what each form loses. Default: float32."""
    sync: bool = False
    """Delete the rows of files that no longer exist, such as renamed ones. FILE can be left out."""
    engine: Engine = "local"
    """Where texts are encoded: in this process, or on the machines of a Ray cluster (RAY_ADDRESS
    names it). This process writes the index."""
    workers: PositiveInt = 1
    """With `engine` ray: number of workers, each with the model in memory."""

    def __post_init__(self) -> None:
        """Refuse `workers` without a cluster."""
        if self.engine == "local":
            refuse_idle(self, "`engine` ray", "workers")
