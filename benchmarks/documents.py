"""Corpora of documents, and objectives on their texts, shared by relations.py and domains.py."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from isospace.config import (
    CorpusConfig,
    PrecisionChoice,
    RelationName,
    TrainConfig,
    shared_options,
)
from isospace.objectives import CT, SCD, TSDAE, Iso, SimCSE, SimCSEPP, WhitenedCSE
from isospace.recipes import find

TOKENS = 200_000
"""On which every row is trained."""
PRECISION: PrecisionChoice = "float32"
"""On every machine, so that runs of several make one row."""


@dataclass(frozen=True)
class Source:
    """A corpus as benchmarks/corpora.py makes it.

    Attributes:
        place: how it is named where it lies in {folder}.
        test_relation: the relation whose pairs are the test pairs.
        relations: those that have pairs to train on; none where that is not asked.
        title_column: of records.
        group: of records, what is held out together.
    """

    place: str
    test_relation: RelationName
    relations: tuple[RelationName, ...] = ()
    title_column: str | None = None
    group: str | None = None

    def text(self, folder: Path) -> CorpusConfig:
        """The settings of the corpus in a folder of corpora."""
        return CorpusConfig(
            corpus=(self.place.format(folder=folder),),
            test_relation=self.test_relation,
            title_column=self.title_column,
            group=self.group,
        )


SOURCES = {
    "docstrings": Source(
        "docstrings:{folder}/docstrings",
        "summary-next",
        ("title-passage", "heading-section", "first-rest", "neighbours", "crops"),
    ),
    "debian-en": Source(
        "{folder}/debian-en",
        "title-passage",
        ("first-rest", "neighbours", "crops"),
        "title",
        "source",
    ),
    "python-docs": Source(
        "{folder}/python-docs",
        "heading-section",
        ("title-passage", "first-rest", "neighbours", "crops"),
    ),
    "foldoc": Source("{folder}/foldoc", "title-passage", title_column="title"),
    "webster": Source("{folder}/webster", "title-passage", title_column="title"),
    "anarchism": Source("{folder}/anarchism", "title-passage"),
    "debian-de": Source(
        "{folder}/debian-de", "title-passage", title_column="title", group="source"
    ),
    "debian-ja": Source(
        "{folder}/debian-ja", "title-passage", title_column="title", group="source"
    ),
}
BY_RELATION = tuple(name for name, source in SOURCES.items() if source.relations)
"""The corpora of which each relation trains alone, too."""


def on_one_text(source: Source, folder: Path, start: str = "minilm") -> dict[str, TrainConfig]:
    """Objectives on views of one text, set for an encoder that is finished.

    As in docs/results/baselines.md: no head, temperature 0.15, a learning rate of 1e-5. `simcse`
    is the recipe `dropout`.
    """
    simcse = _on(find("dropout").config, source, folder, start)
    shared = shared_options(simcse.objective, WhitenedCSE)
    return {
        "simcse": simcse,
        "whitenedcse": replace(simcse, objective=WhitenedCSE(**shared)),
        "iso": replace(simcse, objective=Iso()),
    }


def published(source: Source, folder: Path, start: str = "minilm") -> dict[str, TrainConfig]:
    """The papers' objectives with their heads and temperatures, at one learning rate."""
    base = replace(_on(find("dropout").config, source, folder, start), learning_rate=3e-5)
    objectives = {
        "simcse": SimCSE(),
        "whitenedcse": WhitenedCSE(),
        "scd": SCD(projector=(1024, 1024, 1024)),
        "simcse++": SimCSEPP(),
        "ct": CT(),
        "tsdae": TSDAE(),
    }
    return {
        f"{name}-published": replace(base, objective=objective)
        for name, objective in objectives.items()
    }


def pairs(source: Source, folder: Path, start: str = "minilm") -> TrainConfig:
    """The recipe `pairs` on as many tokens."""
    return _on(find("pairs").config, source, folder, start)


def _on(recipe: TrainConfig, source: Source, folder: Path, start: str) -> TrainConfig:
    return replace(
        recipe,
        model=start,
        text=source.text(folder),
        budget=(TOKENS, "tokens"),
        precision=PRECISION,
        seed=0,
    )
