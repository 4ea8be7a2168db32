"""Every setting of a command, with its default for Python and the command line; JSON both ways.

The line under a field is its help text on the command line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, fields
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PlainSerializer,
    PlainValidator,
    PositiveFloat,
    PositiveInt,
    Strict,
)

from isospace.encoders.settings import EncoderSettings, Precision, Side
from isospace.errors import UserError, no_such
from isospace.objectives import OBJECTIVES, SimCSE
from isospace.objectives.base import Objective
from isospace.operators.fitted_whitening import Whitening
from isospace.operators.forms import FormName, Numbers
from isospace.operators.fusion import WEIGHT
from isospace.system.cluster import Engine
from isospace.system.settings import (
    DropoutRate,
    NameOrPath,
    PathOrText,
    Written,
    refuse_idle,
    settings,
    with_home,
)

Unit = Literal["sentences", "tokens", "epochs", "minutes"]
SearchUnit = Literal["minutes", "tokens"]
ViewsChoice = Literal["dropout", "pairs", "both"]
Rule = Literal["label-free", "labels", "last"]
PrecisionChoice = Literal["auto", "bf16", "float32"]
RelationName = Literal[
    "title-passage",
    "heading-section",
    "first-rest",
    "summary-next",
    "neighbours",
    "crops",
]
"""Names of `corpus.relations.RELATIONS`."""

Layout = Literal["lines", "paragraphs"]
Tracker = Literal["tensorboard", "wandb"]


def _as_list(value: Any) -> Any:
    """Return one or several names or paths as a tuple of names."""
    if isinstance(value, str | PathLike):
        value = (value,)
    if isinstance(value, tuple | list):
        return tuple(str(item) if isinstance(item, PathLike) else item for item in value)
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Files = Annotated[Names, AfterValidator(lambda names: tuple(map(with_home, names)))]
"""Names of files and folders, and of docstrings."""
Output = Annotated[PathOrText | None, Written(short="-o")]
"""A file or folder to write."""
FirstModel = Annotated[NameOrPath, Written("MODEL", positional=True)]
"""A model, on the command line a word without an option's name."""
Inputs = Annotated[Files, Written("FILE", positional=True)]
"""Files to read, on the command line words without an option's name."""


_NOT_WITH_COLUMNS = (
    "column", "title_column", "document_column", "layout", "test_relation", "passage_words",
)  # fmt: skip
"""Settings that contradict `columns`: they are for documents and single texts."""


@settings
class CorpusConfig:
    """The text to train on, and the settings of its cleaning."""

    corpus: Files = ()
    """Text to adapt to: documents (Markdown, HTML, reStructuredText, man pages, PDF, Word, txt),
    tables (jsonl, csv, tsv, parquet) or folders of these. - reads standard input; docstrings reads
    installed Python packages, docstrings:FOLDER those in a folder."""
    column: str = "text"
    """Column that holds the text in jsonl, csv, tsv and parquet files."""
    columns: Names = ()
    """Columns of texts that belong together: query and answer, or query, answer and hard
    negative."""
    label_column: str | None = None
    """Column that says how the texts of `columns` relate: entailment, neutral or contradiction, in
    words or as 0, 1 and 2. Only rows of entailment give test pairs."""
    group: str | None = None
    """Column that groups rows, such as by customer; a group is held out as a whole. Default: each
    document is a group, and so are rows that share or nearly share a text."""
    test_relation: RelationName | None = None
    """Relation of documents that gives the validation and test pairs. Default: summary-next for
    docstrings, else the first of title-passage, heading-section, first-rest and neighbours that has
    enough pairs."""
    distractors: bool = False
    """Search all passages of the corpus for the test pairs, and not only the held-out ones. Every
    passage is then encoded twice."""
    encoding: str = "utf-8"
    """Encoding of text files."""
    layout: Layout | None = None
    """How txt files are read: lines, each a text of its own, or paragraphs of a document. Default:
    decided for each file."""
    title_column: str | None = None
    """Column that holds the title of the document in `column`."""
    document_column: str | None = None
    """Column that names the document of a row. Consecutive rows of one name are the parts of one
    document."""
    min_chars: NonNegativeInt = 10
    """Texts with fewer characters are dropped."""
    passage_words: PositiveInt | None = 120
    """Longest passage in words (characters in scripts without spaces); longer text is cut at
    the ends of sentences, and short paragraphs are joined. None keeps every paragraph as it
    is."""
    near_duplicates: bool = True
    """Whether texts that nearly repeat an earlier one (80 % of their word pairs are the same) are
    dropped; with `columns` only exact repetitions are. Default: they are dropped."""
    held_out: NonNegativeInt = 2000
    """Number of texts that are held out for measuring, in whole groups; at most a tenth of the
    corpus."""

    def __post_init__(self) -> None:
        """Refuse columns that say two things, and settings of documents with `columns`."""
        named = f"`columns` {' '.join(self.columns)}"
        if len(self.columns) == 1:
            raise UserError(
                f"{named}: only one column. Name two or more, or give a column of single texts: "
                f"`column` {self.columns[0]}"
            )
        if len(set(self.columns)) < len(self.columns):
            raise UserError(f"{named}: one column is named twice. Name each column once")
        for name in _NOT_WITH_COLUMNS if self.columns else ():
            value = getattr(self, name)
            if value not in (None, getattr(type(self), name)):
                raise UserError(
                    f"`{name}` {value} is for documents and single texts. Leave it or {named} out"
                )
        if not self.columns:
            refuse_idle(self, "`columns` ANCHOR POSITIVE", "label_column")


def as_corpus(value: Any) -> Any:
    """Return the settings of the text as they are, or made of their JSON or of one place."""
    if isinstance(value, str):
        return CorpusConfig(corpus=(value,))
    return CorpusConfig(**value) if isinstance(value, Mapping) else value


def _objective(value: Any) -> Objective:
    """Return an objective as it is, or make it of its JSON: name and hyper-parameters."""
    if isinstance(value, Objective):
        if type(value) not in OBJECTIVES.values():
            raise UserError(
                f"`objective` {type(value).__name__}: add it to isospace.objectives.OBJECTIVES, so "
                "that a run with it can be loaded again"
            )
        return value
    if not isinstance(value, Mapping):
        raise UserError(f"`objective` {value!r}: not an objective. Give one, such as SimCSE()")
    options = dict(value)
    name = str(options.pop("name", ""))
    if name not in OBJECTIVES:
        raise UserError(f"`objective` {no_such('objective', name, OBJECTIVES)}")
    return OBJECTIVES[name](**options)


@settings
class ModelAndText(EncoderSettings):
    """Settings that training, adapting and whitening share: the model, the text and the tests."""

    text: Annotated[CorpusConfig, BeforeValidator(as_corpus)] = field(default_factory=CorpusConfig)
    """The text to adapt to, and how it is cleaned."""
    model: NameOrPath = "minilm"
    """The base model: minilm, a model folder, the folder of a run, or a Hub name."""
    pairs: PathOrText | None = None
    """A file of two columns, query and answer, whose rows are the test pairs. Default: pairs of
    held-out text."""
    data: NameOrPath | None = None
    """Folder with the STS sets in SentEval's layout, or hub. Default: ISOSPACE_DATA, if it is
    set."""
    other_text: Files = ()
    """Other text, in files or folders, for the other-domain check. isospace also checks its own two
    small sets, and the STS sets of `data`."""


@settings
class RunConfig(ModelAndText):
    """Settings that training and adapting share."""

    queries: PathOrText | None = None
    """A file of real or generated queries, alone or with their passages: further pairs to train on.
    A query alone is paired with the passage that the teacher or the base model finds."""
    teacher: NameOrPath | None = None
    """A teacher whose ranking the training follows: base+bm25 (base model and BM25), an encoder
    (NAME+bm25 adds BM25), or a cross-encoder. Default: no teacher; train on the pairs alone."""
    precision: PrecisionChoice = "auto"
    """Arithmetic of the encoder in training. auto takes bf16 where the processor has it; losses and
    weights are always float32."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 42
    """Random seed of data order, dropout and new weights."""
    output: Output = None
    """The folder of the run. Default: a new folder in runs/."""


@settings
class TrainConfig(RunConfig):
    """One run of `isospace train`.

    Raises:
        UserError: a value that a setting cannot have; the message names the setting.
    """

    objective: Annotated[
        Objective,
        Written(hidden=True),
        PlainValidator(_objective),
        PlainSerializer(lambda chosen: {"name": objective_name(chosen), **chosen.to_json()}),
        # It adapts sentence encoders best, by the docstrings' dev pairs.
    ] = field(default_factory=lambda: SimCSE(head="none", temperature=0.15))
    dropout: DropoutRate | None = None
    """Dropout rate of the encoder in training. Default: the encoder's own."""
    lora: PositiveInt | None = None
    """Train low-rank adapters (LoRA) of this rank, such as 16; they take higher learning
    rates, such as 2e-4, and need isospace[lora]. Default: train all weights."""
    views: ViewsChoice = "dropout"
    """What forms a positive pair: dropout, two views of one text; pairs, two texts of the corpus
    that belong together; both, a mix of these."""
    relations: Annotated[tuple[RelationName, ...], Strict(False)] = ()
    """Relations of documents that give training pairs. Default: all with 100 pairs or more except
    the one that tests."""
    mined: NonNegativeInt = 0
    """Number of hard negatives that each example draws from the corpus and the teacher ranks. Each
    costs one more pass."""
    max_length: Annotated[int, Field(ge=3)] | None = None
    """Number of tokens to which training cuts each text. Default: 32 for lines of text; for
    documents and `columns` the length of 95 % of the texts."""
    batch_size: Annotated[int, Field(ge=2)] = 64
    """Sentences in a batch, over all processes. Each is contrasted with the others of its batch."""
    accumulate: PositiveInt = 1
    """Number of batches whose gradients are summed for one update. Sentences are contrasted within
    their own batch only."""
    pass_tokens: PositiveInt | None = None
    """Number of tokens of a batch that pass the encoder at a time (gradient caching), so that large
    batches fit in memory. Default: the whole batch."""
    budget: Annotated[tuple[PositiveFloat, Unit], Strict(False)] = (6_400, "sentences")
    """How long to train: a number of sentences, tokens, epochs or minutes. Evaluations take extra
    time."""
    learning_rate: PositiveFloat = 1e-5
    """Initial learning rate of AdamW; it falls linearly to 0 without warm-up."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight decay of AdamW."""
    evaluations: PositiveInt = 2
    """Number of evaluations during training, at even distances; the last is at the end. `select`
    keeps one of these checkpoints."""
    select: Rule = "label-free"
    """Which checkpoint is kept: label-free, the one with the highest validation MRR (the last,
    where the corpus has no pairs); labels, the best on `labels`; last, the last."""
    labels: NameOrPath = "stsb-dev"
    """Labelled pairs for `select` labels: stsb-dev or sickr-dev of `data`, or a file with the
    columns sentence1, sentence2, score."""
    trackers: Annotated[tuple[Tracker, ...], Strict(False)] = ()
    """Trackers that get the metrics too; each needs its own package."""


def objective_name(objective: Objective) -> str:
    """Return the objective's name in the table."""
    return next(name for name, kind in OBJECTIVES.items() if type(objective) is kind)


def shared_options(base: Objective, kind: type[Objective]) -> dict[str, Any]:
    """Return the options of `base` that differ from their defaults and are options of `kind` too.

    Two objectives share an option if its name and its default are the same. SimCSE and DCL share
    the `temperature` 0.05. The `temperature` 1.0 of SCD, which has no softmax, is another option.
    """
    ours, usual, other = base.to_json(), type(base)().to_json(), kind().to_json()
    return {
        name: value
        for name, value in ours.items()
        if name in other and other[name] == usual[name] and value != usual[name]
    }


@settings
class AdaptConfig(RunConfig):
    """Settings of one search: the text, the encoder, and the budget."""

    model: NameOrPath = "minilm"
    """The base model: minilm, a model folder, the folder of a run, or a Hub name; or an endpoint
    (http://HOST/v1#NAME), behind which linear maps alone are tried. Its choice can matter more than
    adapting; `models` compares several."""
    models: Files = ()
    """Base models to compare instead of `model`, two or more. Each is whitened and tested on the
    same pairs; the best on validation pairs is fine-tuned."""
    budget: Annotated[tuple[PositiveFloat, SearchUnit], Strict(False)] = (6.0, "minutes")
    """How much time the search may take: minutes, or tokens to train on. Tokens give the same
    result on every machine of a kind."""
    max_drop: NonNegativeFloat = 2.0
    """Largest drop on other text, in points of 100; a candidate that drops more is rejected. Give
    0.5 for a model that must serve other text too."""
    queries_only: bool = False
    """Change the vectors of queries alone. Documents keep those of `model`, bit for bit, and an
    index of them stays valid. A fine-tuned model then holds two encoders."""
    max_length: Annotated[int, Field(ge=3)] | None = None
    """Number of tokens to which training cuts each text. Default: that of the recipes `isospace
    recipes pairs` and dropout."""

    def __post_init__(self) -> None:
        if self.queries_only and self.teacher is not None:
            raise UserError(
                "`teacher` is for fine-tuning queries and documents; leave `teacher` or "
                "`queries_only` out"
            )
        if not self.models:
            return
        if len(set(self.models)) < max(2, len(self.models)):
            raise UserError(f"`models` {' '.join(self.models)}: name two or more different models")
        for name in ("model", "queries_only", "pooling", "query_prompt", "document_prompt"):
            if getattr(self, name) != getattr(AdaptConfig, name):
                raise UserError(f"`{name}` is for one base model; leave `{name}` or `models` out")


Settings = TypeVar("Settings", bound=ModelAndText)


def read_settings(path: Path, kind: type[Settings]) -> Settings:
    """Read the settings of a run, `TrainConfig` or `AdaptConfig`, from the file in its folder.

    Raises:
        UserError: the file is missing or damaged, or a setting is unknown or has an invalid value.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        for setting in fields(kind):
            if setting.name not in values:
                raise ValueError(f"the key {setting.name} is missing")
        return kind(**values)
    except (OSError, ValueError, TypeError, RecursionError, UserError) as error:
        raise UserError(
            f"{path}: not the settings of a run: {error}. If another version of isospace wrote "
            "them, make the run again"
        ) from error


Power = float | Literal["flow"] | None
"""Strength of the whitening; `None`: the unchanged model, not even centred."""

POWERS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Powers that `auto` tries with single texts, besides the unchanged model."""
PAIR_POWERS = (0.25, 0.5, 0.75, 1.0)
"""Powers that `auto` tries with pairs, besides the unchanged model."""
By = Literal["pairs", "texts"]


@settings
class WhitenConfig(ModelAndText):
    """Settings of the whitening of a model."""

    model: FirstModel = "minilm"
    """The base model: minilm, a model folder, the folder of a run, a Hub name, glove:FILE for word
    vectors, or http://HOST/v1#NAME for an endpoint."""
    by: By | None = None
    """Which covariance whitens: that of the differences within pairs, or that of single texts.
    Default: pairs, where the corpus has 100 of them."""
    power: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = "auto"
    """How far to whiten: 0 centres the vectors, 1 whitens them fully. auto tries several and keeps
    the one with the highest validation MRR, or the base model."""
    whitening: Whitening = field(default_factory=Whitening)
    """Which whitening, and how the covariance is estimated."""
    sentences: Annotated[int, Field(ge=2)] | None = None
    """Largest number of pairs or texts to fit on, spread over the corpus. Default: 3,000 pairs, or
    6,000 single texts; all texts for a flow. Texts of pairs are cut to 64 tokens."""
    output: Output = None
    """The folder to write the model to."""

    def __post_init__(self) -> None:
        if self.whitening.kind == "flow" and self.power not in ("auto", 1):
            raise UserError(
                f"`power` {self.power}: a flow goes all the way or not at all; give 1, or auto"
            )
        if self.whitening.kind == "flow":
            refuse_idle(self.whitening, "`kind` pca", "shrinkage")
            if self.by == "pairs":
                raise UserError("`by` pairs: a flow is fitted on single texts; leave `by` out")
        if self.power == 0:
            refuse_idle(self.whitening, "a `power` above 0", "shrinkage")

    def powers(self, by: By) -> list[Power]:
        """Return the powers to try.

        With another width, the unchanged model is not an option.
        """
        if self.whitening.kind == "flow":
            return [None, "flow"] if self.power == "auto" else ["flow"]
        if self.power != "auto":
            return [self.power]
        powers = PAIR_POWERS if by == "pairs" else POWERS
        return [None, *powers] if self.whitening.dim is None else [*powers]


DataKind = Literal["pairs", "scored"]

COMPRESS_READS = (
    "own", "split", "pooling", "query_prompt", "document_prompt", "precision",
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
    """Files of your own to score on (csv, tsv, txt, jsonl, parquet), with pairs or scored pairs as
    rows. The first text of a pair is a query, the others are documents. A folder in the layout of
    BEIR is a test of retrieval."""
    bm25_weight: NonNegativeFloat = WEIGHT
    """Weight of BM25 in hybrid search: the best match of words adds this many standard deviations
    of the query's cosines."""
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
            refuse_idle(self, "`own`", "bm25_weight")


@settings
class DistillConfig:
    """Settings of a static twin of an encoder.

    Raises:
        UserError: a setting has an invalid value; the message names the setting.
    """

    model: Annotated[NameOrPath, Written("RUN", positional=True)] = "minilm"
    """The encoder to replace: the folder of a run of adapt or train, which names its corpus; or any
    other model, with `corpus`."""
    text: CorpusConfig = field(default_factory=CorpusConfig)
    """The corpus that the twin is for. Default: that of the run."""
    queries_only: bool = False
    """Make a twin for queries alone, for an index of the encoder's own vectors. Documents keep the
    encoder."""
    seed: int = 0
    """Seed of the order of the training pairs."""
    output: Output = None
    """The folder to write the twin to."""


VectorFormat = Literal["parquet", "npy"]

_SINGLE: dict[str, VectorFormat] = {".parquet": "parquet", ".npy": "npy"}
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
    """Files (txt, jsonl, csv, tsv, parquet, documents; .gz, .zst or .xz), folders, - for
    standard input, or docstrings. Every row and every passage gets a vector; an empty line gets
    that of the empty text."""
    output: Annotated[PathOrText, Written(short="-o")]
    """A folder of shards, or one file if it ends in .parquet or .npy."""
    compress: Numbers = "float32"
    """Numbers of the stored vectors. float32 are the model's own; smaller numbers keep only the
    direction of a vector. Queries need no smaller numbers, unless they are stored too."""
    precision: Precision = "float32"
    """bf16 is faster on processors that support it; a vector changes by about 1e-4 (1 - cosine)."""
    side: Annotated[Side | None, Written(name="as")] = None
    """Whether the texts are queries or documents; the model's prompt for them is put before each
    text. Default: neither, with the model's default prompt if it has one."""
    engine: Engine = "local"
    """Where texts are encoded: in this process, or on the machines of a Ray cluster (RAY_ADDRESS
    names it). The machines must share the folder of the output."""
    workers: PositiveInt = 1
    """With `engine` ray: number of workers, each with the model in memory."""
    reading: Reading = AS_LINES
    """How files are read. Documents alone are cut: a row of a file is a row of the output."""

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
        for side in get_args(Side):
            if getattr(self, f"{side}_prompt") is not None and self.side != side:
                raise UserError(f"`{side}_prompt` is for texts encoded as {side}: give `as` {side}")
        if self.reading.id_column is not None and self.file_format == "npy":
            raise UserError(
                "`id_column`: npy files hold only vectors. Leave it out, or write parquet"
            )

    @property
    def file_format(self) -> VectorFormat:
        """Format of the output files."""
        return _SINGLE.get(self.output.suffix.lower(), "parquet")

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
    """Files (txt, jsonl, csv, tsv, parquet, documents; .gz, .zst or .xz), folders, - for
    standard input, or docstrings. A row without an id gets the id FILE:ROW, its passages FILE:ROW#1
    and on; indexing the file again replaces them."""
    to: PathOrText = Path("index")
    """The folder of the index. It is created, or texts are added to it."""
    model: NameOrPath | None = None
    """minilm, a model folder, a run's folder, a Hub name, or an endpoint (http://HOST/v1#NAME);
    default: the model of the index, and minilm for a new one. An index keeps the pooling and the
    prompts that it was made with."""
    keep: Names = ()
    """Other columns to keep, to filter by and to show; default: those of the index."""
    reading: Reading = Reading()
    compress: FormName | None = None
    """For a new index: the form in which vectors are stored. `isospace evaluate RUN --compress`
    measures what each form loses. Default: float32."""
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
