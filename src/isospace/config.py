"""Every setting of a run, with its default for Python and the command line; JSON both ways.

The line under a field is its help text on the command line.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import field
from os import PathLike
from typing import Annotated, Any, Literal, get_args

import tyro
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

from isospace.encoders.pooling import PoolingName
from isospace.errors import UserError, in_words, no_such
from isospace.objectives import OBJECTIVES, SimCSE
from isospace.objectives.base import Objective
from isospace.system.settings import (
    DropoutRate,
    NameOrPath,
    PathOrText,
    settings,
    to_dict,
    with_home,
)

logger = logging.getLogger(__name__)

Unit = Literal["sentences", "tokens", "epochs", "minutes"]
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
    "links",
]
"""Names of `corpus.relations.RELATIONS`."""
STSColumn = Literal["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
"""The columns of `evaluation.sts.PAPER_COLUMNS`."""
Layout = Literal["lines", "paragraphs"]
Tracker = Literal["tensorboard", "wandb"]


def amount_of(units: Any) -> tyro.constructors.PrimitiveConstructorSpec[tuple[float, str]]:
    """How the command line reads a number and one of these units, such as `10 minutes`."""
    names = get_args(units)

    def read(words: list[str]) -> tuple[float, str]:
        given = " ".join(words) or "(nothing)"
        amount, _, named = given.partition(" ")
        unit = named if named in names else f"{named}s"  # 1 minute
        if unit not in names:
            wrong = f"unknown unit {named}; give" if named else "has no unit; give a number and"
            raise UserError(f"`budget` {given}: {wrong} {in_words(names, 'or')}")
        try:
            return float(amount), unit
        except ValueError:
            raise UserError(
                f"`budget` {given}: {amount} is no number; write it like 10 {unit}"
            ) from None

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=2,
        metavar=f"NUMBER {{{','.join(names)}}}",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: [f"{value[0]:.15g}", value[1]],
    )


def _as_list(value: Any) -> Any:
    """One name or path, or several, as a tuple of names."""
    if isinstance(value, str | PathLike):
        value = (value,)
    if isinstance(value, tuple | list):
        return tuple(str(item) if isinstance(item, PathLike) else item for item in value)
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Files = Annotated[Names, AfterValidator(lambda names: tuple(map(with_home, names)))]
"""Names of files, folders and URLs, and of docstrings."""


@settings
class CorpusConfig:
    """What to train on and how to clean it."""

    corpus: Files = ()
    """Text to adapt to: documents (Markdown, HTML, reStructuredText, man pages, txt, PDF, Word),
    rows (jsonl, csv, tsv, parquet) and lines of text, all but parquet as .gz, .zst or .xz too;
    folders of these; URLs (s3://, ..., as fsspec knows them); - for standard input; docstrings for
    those of the installed Python packages, or docstrings:FOLDER for those of the packages in a
    folder."""
    column: str = "text"
    """Which column of jsonl, csv, tsv and parquet files holds the sentences."""
    columns: Names = ()
    """Columns of the texts that belong together, for objectives that learn from such: anchor and
    positive, or anchor, positive and hard negative. A row counts as one sentence."""
    label_column: str | None = None
    """Column that says what the texts of a row of `columns` are to each other (entailment, neutral,
    contradiction), as text or whole numbers, for objectives that learn from such labels."""
    positive_label: str | None = None
    """Label of the rows whose texts belong together. They alone are held out and give pairs to
    measure by. Default: entailment; where no row has it, the halves of held-out anchors are
    measured."""
    group: str | None = None
    """Column that says which rows belong together (document, thread, customer): they are held out
    together, and count as one where chance is judged. It is read in `pairs` too. Of files that are
    documents: folder. Default: rows that share or nearly share a text; each document."""
    test_relation: RelationName | None = None
    """Which pairs of held-out documents select and test. Default: of docstrings summary-next; else
    the first of title-passage, heading-section, first-rest and neighbours of which there are
    enough."""
    distractors: bool = False
    """Look for the judging documents' passages among all passages of the corpus, and not of its
    held-out documents alone; every passage is then encoded before and after."""
    encoding: str = "utf-8"
    """Encoding of the text files."""
    delimiter: str | None = None
    """Sign between the fields of csv and tsv files; default: a comma, a tab; of a csv whose first
    line has no comma the semicolon, tab or | in it."""
    layout: Layout | None = None
    """How txt files are read: lines, each a text of its own, or paragraphs, a document with blank
    lines between them. Default: as each file looks."""
    strict: bool = False
    """Refuse a document that cannot be read, or of which hardly anything is text; else it is named
    and counted."""
    title_column: str | None = None
    """Column that holds the title of the document whose text is in `column`."""
    document_column: str | None = None
    """Column that says of which document a row is: rows that follow each other and name one are
    the parts of one document, in their order, under the title of the first."""
    min_chars: NonNegativeInt = 10
    """Texts of fewer characters are dropped; runs of white space count as one."""
    passage_words: PositiveInt | None = 120
    """Longer texts are cut to passages of at most so many words, at the ends of sentences; short
    paragraphs of a document are joined. In scripts without spaces a character is a word. None:
    every paragraph is as long as it is."""
    near_duplicates: bool = True
    """Drop sentences that nearly repeat an earlier one: that share 80 % of their pairs of
    neighbouring words (Jaccard). With `columns` only exact repetitions are dropped, and rows whose
    texts are (nearly) the same are never in one batch of pairs, as they would be wrong negatives.
    Whatever is kept, nothing is trained on that nearly repeats what is held out."""
    language: str | None = None
    """ISO code of the language of documents, by which sentences are told; default: as each
    paragraph looks."""
    held_out: NonNegativeInt = 2000
    """Sentences that are kept out of training, for measuring, in whole groups (see `group`); at
    most a tenth of the corpus."""

    def __post_init__(self) -> None:
        """Refuse columns that say two things, and settings of documents beside `columns`."""
        if self.columns and self.column != type(self).column:
            raise UserError(
                f"`column` {self.column} `columns` {' '.join(self.columns)}: a row has one text or "
                "several that belong together; give one of the two settings"
            )
        if len(set(self.columns)) < len(self.columns):
            raise UserError(
                f"`columns` {' '.join(self.columns)}: one is named twice; a text and itself say "
                "nothing of what belongs together"
            )
        if self.title_column is not None and self.columns:
            raise UserError(
                f"`title_column` {self.title_column} `columns` {' '.join(self.columns)}: either a "
                "row is a document, whose text is in `column`, or it has several texts that belong "
                "together"
            )
        usual = type(self).passage_words
        of_documents: dict[str, Any] = {
            "language": self.language,
            "test_relation": self.test_relation,
        }
        if self.passage_words is not None and self.passage_words != usual:  # None: nothing is cut
            of_documents["passage_words"] = self.passage_words
        for name, value in of_documents.items():
            if self.columns and value is not None:
                raise UserError(
                    f"`{name}` {value} `columns` {' '.join(self.columns)}: texts of `columns` are "
                    f"neither cut nor documents, so that `{name}` would change nothing; leave it "
                    "out, or name the one column of texts with `column`"
                )
        if self.document_column is not None and self.columns:
            raise UserError(
                f"`document_column` {self.document_column} `columns` {' '.join(self.columns)}: "
                "either rows are the parts of documents, whose text is in `column`, or a row has "
                "several texts that belong together"
            )
        if self.label_column is not None and not self.columns:
            raise UserError(
                f"`label_column` {self.label_column}: says what several texts of a row are to each "
                "other; name the columns that hold them: `columns` ANCHOR POSITIVE"
            )
        if self.positive_label is not None and self.label_column is None:
            raise UserError(
                f"`positive_label` {self.positive_label}: is a label of `label_column`; name that "
                "column too"
            )


def as_corpus(value: Any) -> Any:
    """Return the settings of the text as they are, or made of their JSON or of one place."""
    if isinstance(value, str):
        return CorpusConfig(corpus=(value,))
    return CorpusConfig(**_settings(value)) if isinstance(value, Mapping) else value


def _settings(value: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says, of which one key would be taken for the object that is made."""
    if "self" in value:
        raise UserError("`self`: no such setting")
    return dict(value)


def _objective(value: Any) -> Objective:
    """An objective as it is, or made of its JSON: a name of the table and hyper-parameters."""
    if isinstance(value, Objective):
        if type(value) not in OBJECTIVES.values():
            raise UserError(
                f"`objective` {type(value).__name__}: is no row of the table of objectives, and a "
                "run of it could not be read again; add it to isospace.objectives.OBJECTIVES"
            )
        return value
    if not isinstance(value, Mapping):
        raise UserError(f"`objective` {value!r}: expected an objective, such as SimCSE()")
    options = _settings(value)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise UserError(f"`objective` {name!r}: expected one of {', '.join(OBJECTIVES)}")
    if name not in OBJECTIVES:
        raise UserError(f"`objective` {no_such('objective', name, OBJECTIVES)}")
    return OBJECTIVES[name](**options)


def _objective_to_dict(objective: Objective) -> dict[str, Any]:
    return {"name": objective_name(objective), **objective.to_json()}


def default_objective() -> SimCSE:
    """What adapts a finished sentence encoder best; chosen on the docstrings' dev pairs."""
    return SimCSE(head="none", temperature=0.15)


@settings
class TrainConfig:
    """One run of `isospace train`.

    Raises:
        UserError: a value that a setting cannot have; the message names the setting.
    """

    text: Annotated[CorpusConfig, BeforeValidator(as_corpus)] = field(default_factory=CorpusConfig)
    """The text to adapt to, and how it is cleaned."""
    objective: Annotated[
        Objective,
        tyro.conf.Suppress,
        PlainValidator(_objective),
        PlainSerializer(_objective_to_dict),
    ] = field(default_factory=default_objective)
    model: NameOrPath = "minilm"
    """The encoder to start from: minilm, a model folder, the folder of a run, or a Hub name."""
    pooling: PoolingName | None = None
    """How the vectors of tokens become one of the sentence; default: as the model does it."""
    bidirectional: bool = False
    """Let every token of a decoder see those after it too, before, during and after the training;
    best with the `pooling` mean."""
    query_prompt: str | None = None
    """Put before every text that looks for others (the first of `columns` and of pairs), such as
    "query: ", or the name of one of the encoder's own prompts; "" for none. Default: the encoder's
    own query prompt, if it has one."""
    document_prompt: str | None = None
    """Put before every text that is looked for (the sentences of a corpus, all but the first of
    `columns` and of pairs), in the same way. Default: the encoder's own document, passage or corpus
    prompt."""
    dropout: DropoutRate | None = None
    """Dropout rate of the encoder while it trains, for encoders that were built without dropout;
    default: the encoder's own."""
    trained_layers: PositiveInt | None = None
    """Train so many of the last layers and what follows them, in less time and memory: all below
    stays as it is, and runs once for the views of a text, without dropout. Default: all layers."""
    lora: PositiveInt | None = None
    """Train low-rank adapters of so high a rank beside every linear layer, such as 16, and nothing
    else of the encoder (LoRA); they are merged into what is shipped. They take higher learning
    rates, such as 2e-4. Needs isospace[lora]. Default: all weights."""
    half_weights: bool = False
    """Keep the encoder's own weights in bfloat16 and compute with them so, in half the memory; for
    `lora`, whose adapters stay in float32. What ships is bfloat16 too. Default: float32."""
    gradient_checkpointing: bool = False
    """Keep no more than the input of each layer for the backward pass, which runs the layer again:
    less memory, a third more time. For objectives whose views are plain passes."""
    views: ViewsChoice = "dropout"
    """What is drawn together: dropout, views of one text; pairs, two texts of the corpus that
    belong together (`relations` of documents, or two `columns`), in both directions; both, such
    pairs and single texts mixed. For objectives that draw views of a text together."""
    relations: Annotated[tuple[RelationName, ...], Strict(False)] = ()
    """Which relations of documents give the pairs to train on. Default: those with 100 pairs or
    more but the one that judges, or that one where there is no other."""
    without_title_words: bool = False
    """Leave the words of a title or heading out of the passage that it is paired with, so that more
    than shared words is learnt."""
    queries: PathOrText | None = None
    """A file of queries that somebody logged or another program wrote (txt, jsonl, csv, tsv,
    parquet), each alone or with the passage that answers it: further pairs to train on, by which
    nothing is measured. A query alone is paired with the passage that the teacher, or the base
    model, finds."""
    teacher: NameOrPath | None = None
    """Whose ranking the objective follows, where it follows one: base+bm25, the base model fused
    with BM25; an encoder, a folder or Hub name (NAME+bm25: hybrid), or the average of several
    (NAME,NAME); a cross-encoder; or a file of query, passage and score."""
    mined: NonNegativeInt = 0
    """Texts of the corpus that are near to an example's first text and do not belong to it, drawn
    afresh each time, to be ranked beside its batch. Each is one more pass."""
    max_length: Annotated[int, Field(ge=3)] | None = None
    """Training texts are cut to this number of tokens. Default: 32 of lines of text (SimCSE's,
    appendix A); of documents and `columns` what 95 % of the texts have, up to the encoder's
    limit."""
    batch_size: Annotated[int, Field(ge=2)] = 64
    """Sentences in a batch, over all processes: each is contrasted with the others of its batch."""
    similar: Annotated[int, Field(ge=2)] | None = None
    """Batches are made of groups of so many examples whose first texts are near each other by the
    start's vectors, drawn anew each epoch: harder negatives than chance gives. The base model
    encodes
    these texts once, before the training. Default: batches are drawn freely."""
    accumulate: PositiveInt = 1
    """Batches whose gradients are summed for one update. A sentence is still contrasted with its
    own batch only."""
    pass_tokens: PositiveInt | None = None
    """So many tokens of a batch pass the encoder at a time, so that a large batch fits in memory;
    each passes twice (gradient caching, Gao et al. 2021), and the gradient is that of the whole
    batch. Default: a batch passes at once."""
    budget: Annotated[tuple[PositiveFloat, Unit], Strict(False), amount_of(Unit)] = (
        6_400,
        "sentences",
    )
    """How long to train: a number, and sentences (or examples of several texts), tokens, epochs or
    minutes. Evaluations take time beside these minutes."""
    learning_rate: PositiveFloat = 1e-5
    """AdamW's learning rate at the start; it falls linearly to 0, without warm-up."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight decay of AdamW."""
    hold_to_base: NonNegativeFloat = 0.0
    """How strongly each update also pulls the encoder's weights to those of the base model: by this
    times the learning rate of the way (L2-SP, Li et al. 2018, decoupled like AdamW's decay to 0).
    100 takes a thousandth of the way at the learning rate 1e-5."""
    clip_norm: PositiveFloat = 1.0
    """Largest norm of the gradient of an update; a larger one is scaled down to it."""
    precision: PrecisionChoice = "auto"
    """Arithmetic of the encoder: auto takes bf16 where the processor has it. Losses and weights are
    float32 always."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 42
    """Random seed of the data order, the dropout masks and the head's weights."""
    evaluations: PositiveInt = 2
    """How often the encoder is measured during training, at even distances, the last time at the
    end. The best of these states is kept (see `select`)."""
    select: Rule = "label-free"
    """Which of the measured states is kept: label-free takes the one that best finds texts of the
    corpus that belong together (the last one, where the corpus has no such pairs); labels takes the
    best on `labels`; last takes the last."""
    labels: NameOrPath = "stsb-dev"
    """The labelled pairs of `select` labels: stsb-dev or sickr-dev of `data`, or a file with the
    columns sentence1, sentence2, score."""
    pairs: PathOrText | None = None
    """A file of two columns, texts that belong together, on which the verdict is reached; default:
    pairs of the corpus that were held out."""
    data: NameOrPath | None = None
    """Folder with the STS sets in SentEval's layout, or hub; default: ISOSPACE_DATA, if set."""
    sts_sets: Annotated[tuple[STSColumn, ...], Strict(False)] = get_args(STSColumn)
    """Which STS sets of `data` are scored. Fewer sets take less time, but the papers' average needs
    all seven. Name none where `data` is given for its labels alone."""
    other_text: Files = ()
    """Other text, read as a corpus is by default: what happens to its held-out pairs is said beside
    the verdict, with small sets that isospace brings along and STS (`data`)."""
    output: PathOrText | None = None
    """The folder of the run; default: a new folder in runs/, named by date, objective and model."""
    checkpoint_minutes: NonNegativeFloat = 2.0
    """Minutes between two checkpoints, at most: what a kill can cost."""
    trackers: Annotated[tuple[Tracker, ...], Strict(False)] = ()
    """Also send the metrics to these trackers; each needs its own package."""

    def to_dict(self) -> dict[str, Any]:
        """The settings in JSON's own types."""
        return to_dict(self)

    def to_json(self) -> str:
        """The settings as JSON; `from_json` reads it back."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> TrainConfig:
        """Settings from the JSON that `to_json` wrote, of this version or an older one.

        Raises:
            UserError: not such JSON, a field that this version does not know, or a value that it
                cannot have.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"not the configuration of a run: {error}") from error
        if not isinstance(values, dict) or not {"text", "objective"} <= set(values):
            raise UserError(
                "not the configuration of a run: its keys text and objective are missing"
            )
        try:
            return cls(**_upgraded(values))
        except UserError as error:
            raise UserError(f"not the configuration of a run: {error}") from error


def _upgraded(values: dict[str, Any]) -> dict[str, Any]:
    """The JSON of an older version in the words of this one."""
    renamed = {"looks": "evaluations"}
    values = {renamed.get(name, name): value for name, value in values.items()}
    if isinstance(values["text"], dict):
        # Longer sentences were left out, and are cut now.
        values["text"] = {n: value for n, value in values["text"].items() if n != "max_chars"}
    objective = values["objective"]
    if isinstance(objective, dict):
        # Options that were called like settings of the run.
        own = {"consert": {"dropout": "with_dropout"}, "pcl": {"max_length": "longest_repeated"}}
        called = own.get(str(objective.get("name")), {})
        options = {called.get(name, name): value for name, value in objective.items()}
        if options.get("name") == "whitenedcse" and "momentum" in options:  # that nothing read
            logger.info("momentum %s: is no setting any more, nothing used it", options["momentum"])
            del options["momentum"]
        values["objective"] = options
    return values


def objective_name(objective: Objective) -> str:
    """The objective's name in the table."""
    return next(name for name, kind in OBJECTIVES.items() if type(objective) is kind)


def shared_options(base: Objective, kind: type[Objective]) -> dict[str, Any]:
    """The options that `base` sets away from its defaults, as far as they are options of `kind`.

    An option of the same name is the same one where its default is the same too: SimCSE's and
    DCL's `temperature` 0.05 is one setting, the 1.0 of SCD, which has no softmax, is another.
    """
    ours, usual, other = base.to_json(), type(base)().to_json(), kind().to_json()
    return {
        name: value
        for name, value in ours.items()
        if name in other and other[name] == usual[name] and value != usual[name]
    }
