"""The class of recipes, and the common parts of the papers' settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from isospace.config import CorpusConfig, TrainConfig
from isospace.encoders.pooling import PoolingName
from isospace.objectives.base import Objective

STS_COLUMNS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg")
TRANSFER_COLUMNS = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC", "Avg")

WIKI = "wiki1m_for_simcse.txt: 10^6 Wikipedia sentences (Hub: princeton-nlp/datasets-for-simcse)"
NLI = "the sentences of SNLI and MultiNLI, one per line, without labels"

LEEWAY = 2.0
"""Points by which a score may differ from the published one if no one reports several runs. Seeds
of SimCSE differ by as much (https://github.com/princeton-nlp/SimCSE/issues/63)."""


@dataclass(frozen=True)
class Reruns:
    """Scores of other runs of a published row.

    Attributes:
        words: description of the runs, with their scores.
        source: URL of the paper, README or thread that reports the scores.
        span: lowest and highest score, in points; `None` if no exact scores are given.
    """

    words: str
    source: str
    span: tuple[float, float] | None = None


def over_seeds(mean: float, sd: float, seeds: int, source: str) -> Reruns:
    """Return the authors' scores over seeds; the span is 3 `sd`, one point or more, either way."""
    half = max(1.0, 3 * sd)
    words = f"{seeds} seeds of the authors, standard deviation {sd}"
    return Reruns(words, source, (round(mean - half, 2), round(mean + half, 2)))


@dataclass(frozen=True)
class Recipe:
    """Settings, the published scores that they should reach, and notes on reproducing them.

    Attributes:
        config: the settings; the user gives corpus, data and output.
        table: source of the scores: the paper, and its table or study. The recipe's name tells the
            row.
        published: Spearman x 100 by column of the STS table ("all", test sets); some studies have
            the average only. Empty for our own settings.
        note: notes on reproducing the scores, and differences to the paper.
        published_transfer: accuracy in per cent by column of the transfer table.
        published_dev: Spearman x 100 on STS-B dev.
        corpus: training text of the paper.
        reruns: scores of other runs, if there is a source.
    """

    config: TrainConfig
    table: str
    published: dict[str, float] = field(default_factory=dict)
    note: str = ""
    published_transfer: dict[str, float] = field(default_factory=dict)
    published_dev: float | None = None
    corpus: str = WIKI
    reruns: Reruns | None = None

    @property
    def target(self) -> tuple[str, float] | None:
        """The published score to compare a run with: its name, and its value in points.

        It is the first published one of: STS average, average of STS12-16, average of the transfer
        tasks, score on STS-B dev. `None` if none is published.
        """
        scores = {
            "STS": self.published.get("Avg"),
            "STS12-16": self.published.get("STS12-16"),
            "transfer": self.published_transfer.get("Avg"),
            "STS-B dev": self.published_dev,
        }
        return next(((name, value) for name, value in scores.items() if value is not None), None)

    @property
    def reproduced(self) -> tuple[float, float] | None:
        """Lowest and highest score of a run that counts as a reproduction.

        The span covers the published score and all re-runs. Without scores of re-runs, it is the
        published score plus or minus `LEEWAY` points.
        """
        if self.target is None:
            return None
        published = self.target[1]
        if self.reruns is None or self.reruns.span is None:
            return published - LEEWAY, published + LEEWAY
        low, high = self.reruns.span
        return min(low, published), max(high, published)


def sts(*values: float) -> dict[str, float]:
    """Return a full row of an STS table."""
    return dict(zip(STS_COLUMNS, values, strict=True))


def transfer(*values: float) -> dict[str, float]:
    """Return a full row of a transfer table."""
    return dict(zip(TRANSFER_COLUMNS, values, strict=True))


def average(value: float) -> dict[str, float]:
    """Return a row with only the average, if a paper publishes no more."""
    return {"Avg": value}


def weights(name: str, pooling: PoolingName = "cls") -> str:
    """Return a note on how to score the authors' published weights."""
    return (
        "The authors' weights check the table without training: "
        f"isospace evaluate {name} with `pooling` {pooling} and `data` FOLDER."
    )


def setting(
    objective: Objective,
    model: str = "bert-base-uncased",
    *,
    batch_size: int = 64,
    learning_rate: float = 3e-5,
    epochs: float = 1.0,
    sentences: int = 1_000_000,
    every: int = 125,
    labels: str = "stsb-dev",
    columns: tuple[str, ...] = (),
    pooling: PoolingName = "cls",
    max_length: int = 32,
    dropout: float | None = None,
    weight_decay: float = 0.0,
) -> TrainConfig:
    """Return settings by SimCSE's protocol, which most papers follow; defaults for BERT-base.

    The protocol: [CLS], sentences of 32 tokens, AdamW with linear decay, and the best checkpoint by
    Spearman on a labelled dev set, evaluated every `every` updates. Our settings have a number of
    evaluations instead of an interval: the number on the paper's corpus of `sentences` sentences.
    """
    return TrainConfig(
        text=CorpusConfig(columns=columns, near_duplicates=False, min_chars=1, passage_words=None),
        objective=objective,
        model=model,
        pooling=pooling,
        dropout=dropout,
        max_length=max_length,
        batch_size=batch_size,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        budget=(epochs, "epochs"),
        evaluations=int(epochs * sentences / (batch_size * every)),
        select="labels",
        labels=labels,
    )
