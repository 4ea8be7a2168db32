"""Every setting of a run: frozen dataclasses, JSON both ways.

The line under a field is its help text on the command line.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import tyro

from isospace.encoders.pooling import PoolingName
from isospace.errors import UserError
from isospace.objectives import OBJECTIVES, SimCSE
from isospace.objectives.base import Objective

Unit = Literal["sentences", "epochs", "minutes"]
Rule = Literal["label-free", "labels", "last"]
PrecisionChoice = Literal["auto", "bf16", "float32"]
Tracker = Literal["tensorboard", "wandb"]


@dataclass(frozen=True)
class CorpusConfig:
    """What to train on and how to clean it."""

    corpus: tuple[str, ...] = ()
    """Text to adapt to: files (txt, jsonl, csv, tsv, parquet; .gz or .zst), folders, - for standard
    input, or docstrings for the prose of the installed Python packages."""
    column: str = "text"
    """Which column of jsonl, csv, tsv and parquet files holds the sentences."""
    columns: tuple[str, ...] = ()
    """For objectives that see several texts of an example: the columns of anchor and positive, or
    of anchor, positive and hard negative. A row is one example, and counts as one sentence."""
    encoding: str = "utf-8"
    """Encoding of the text files."""
    min_chars: int = 10
    """Shorter sentences are dropped (characters, after white space is folded)."""
    max_chars: int = 1000
    """Longer sentences are dropped."""
    near_duplicates: bool = True
    """Drop sentences that nearly repeat an earlier one (Jaccard of word bigrams >= 0.8); of the
    examples of `columns` only exact repetitions are dropped."""
    held_out: int = 2000
    """Sentences kept out of training to measure on without labels; at most one in ten."""

    def __post_init__(self) -> None:
        """Refuse values that leave no text."""
        if self.held_out < 0:
            raise UserError(f"`held_out` {self.held_out}: expected 0 or more")
        if self.min_chars > self.max_chars:
            raise UserError(
                f"`min_chars` {self.min_chars} `max_chars` {self.max_chars}: nothing is left"
            )


@dataclass(frozen=True)
class TrainConfig:
    """One run of `isospace train`."""

    text: CorpusConfig = field(default_factory=CorpusConfig)
    objective: Annotated[Objective, tyro.conf.Suppress] = field(default_factory=SimCSE)
    model: str = "minilm"
    """The encoder to start from: minilm, a model folder, the folder of a run, or a Hub name."""
    pooling: PoolingName | None = None
    """Tokens to sentence; by default the model's own pooling."""
    dropout: float | None = None
    """Set the encoder's own dropout rate, for encoders that were built without one."""
    max_length: int = 32
    """Training sentences are cut to so many tokens (SimCSE, appendix A)."""
    batch_size: int = 64
    """Sentences whose views meet in one loss, over all processes."""
    accumulate: int = 1
    """Batches per update. Negatives and batch statistics stay those of one batch."""
    budget: tuple[float, Unit] = (1.0, "epochs")
    """How long to train: a number and sentences, epochs or minutes (of updates; evaluations come
    on top)."""
    learning_rate: float = 3e-5
    """Peak of AdamW's learning rate; decays linearly to 0, without warm-up."""
    weight_decay: float = 0.0
    """AdamW's weight decay."""
    clip_norm: float = 1.0
    """Gradients are clipped to this norm."""
    precision: PrecisionChoice = "auto"
    """auto takes bf16 where the processor has it; losses and weights stay float32."""
    seed: int = 42
    """Of the data order, the dropout masks and the head."""
    evaluations: int = 5
    """Measurements by which the checkpoint is chosen, evenly spaced; the last one at the end."""
    select: Rule = "label-free"
    """How the checkpoint to keep is chosen: label-free is by natural pairs of the corpus, or the
    last where it has none."""
    labels: str = "stsb-dev"
    """What `select` labels reads: stsb-dev or sickr-dev (of `data`), or a file of sentence1,
    sentence2, score."""
    pairs: Path | None = None
    """A two-column file of texts that belong together: the score of the verdict."""
    data: str | None = None
    """Folder with the STS sets in SentEval's layout, or hub; default: ISOSPACE_DATA, if set."""
    output: Path | None = None
    """The run's folder; by default runs/ and a name made of date, objective and model."""
    checkpoint_minutes: float = 2.0
    """Longest time between two checkpoints."""
    trackers: tuple[Tracker, ...] = ()
    """Where else to send the metrics (Accelerate's trackers; each needs its own package)."""

    def __post_init__(self) -> None:
        """Refuse values that no run can have."""
        self._require_choices()
        self._require_numbers()
        if self.batch_size < 2:
            raise UserError("`batch_size` 1: a contrastive batch needs at least 2 sentences")
        if self.seed >= 2**63:
            raise UserError(f"`seed` {self.seed}: expected a number below 2^63")
        if self.max_length < 3:
            raise UserError(f"`max_length` {self.max_length}: no word is left; expected 3 or more")
        if self.dropout is not None and not 0.0 <= self.dropout < 1.0:
            raise UserError(f"`dropout` {self.dropout}: a rate lies in [0, 1)")

    def _require_choices(self) -> None:
        for name, given, choices in (
            ("pooling", self.pooling, (None, *get_args(PoolingName))),
            ("precision", self.precision, get_args(PrecisionChoice)),
            ("select", self.select, get_args(Rule)),
            ("budget", self.budget[1], get_args(Unit)),
            *(("trackers", tracker, get_args(Tracker)) for tracker in self.trackers),
        ):
            if given not in choices:
                known = ", ".join(map(str, filter(None, choices)))
                raise UserError(f"--{name} {given}: expected one of {known}")

    def _require_numbers(self) -> None:
        for name in ("max_length", "batch_size", "accumulate", "seed", "evaluations"):
            value = getattr(self, name)
            if type(value) is not int:
                raise UserError(f"--{name.replace('_', '-')} {value}: expected a whole number")
        for name in ("learning_rate", "weight_decay", "clip_norm", "dropout", "checkpoint_minutes"):
            value = getattr(self, name)
            absent = name == "dropout" and value is None
            if not absent and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise UserError(f"--{name.replace('_', '-')} {value}: expected a number")
        positive = (
            "max_length",
            "batch_size",
            "accumulate",
            "learning_rate",
            "clip_norm",
            "evaluations",
        )
        for name in positive:
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise UserError(f"--{name.replace('_', '-')} {value}: expected a number above 0")
        if not (math.isfinite(self.budget[0]) and self.budget[0] > 0):
            raise UserError(
                f"`budget` {self.budget[0]:g} {self.budget[1]}: expected a number above 0"
            )
        for name in ("seed", "weight_decay", "checkpoint_minutes"):
            value = getattr(self, name)
            if not value >= 0:
                raise UserError(f"--{name.replace('_', '-')} {value}: expected 0 or more")

    def to_dict(self) -> dict[str, Any]:
        """The settings in JSON's own types."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["text"] = dataclasses.asdict(self.text)
        values["objective"] = {"name": objective_name(self.objective), **self.objective.to_json()}
        for name in ("pairs", "output"):
            values[name] = None if values[name] is None else str(values[name])
        return values

    def to_json(self) -> str:
        """The settings as JSON; `from_json` reads it back."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> TrainConfig:
        """Settings from the JSON that `to_json` wrote.

        Raises:
            UserError: not such JSON, or a field that this version does not know.
        """
        try:
            values: dict[str, Any] = dict(json.loads(text))
            objective = dict(values.pop("objective"))
            kind = OBJECTIVES[objective.pop("name")]
            corpus = values.pop("text")
            lists = {name: tuple(corpus.get(name, ())) for name in ("corpus", "columns")}
            return cls(
                **{
                    **values,
                    "text": CorpusConfig(**{**corpus, **lists}),
                    "objective": kind.from_json(objective),
                    "budget": tuple(values["budget"]),
                    "trackers": tuple(values["trackers"]),
                    "pairs": Path(values["pairs"]) if values["pairs"] else None,
                    "output": Path(values["output"]) if values["output"] else None,
                }
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"not the configuration of a run: {error}") from error


def objective_name(objective: Objective) -> str:
    """The objective's name in the table."""
    return next(name for name, kind in OBJECTIVES.items() if type(objective) is kind)
