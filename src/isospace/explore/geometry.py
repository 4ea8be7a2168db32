"""The vector space of one or two models: measures, singular values, and maps of a sample."""

from __future__ import annotations

from dataclasses import dataclass

from isospace.evaluation.geometry import describe
from isospace.explore.session import LONGEST_SHOWN, Session
from isospace.report.figures import Picture
from isospace.report.space import SMALLEST_SAMPLE, kept_shares
from isospace.report.write import MAPPED, MEASURES, maps, spectra_picture
from isospace.training.run import Sample

_MEANINGS = {
    "effective_rank": "How many directions the vectors really use. More is more even.",
    "isoscore": "Share of the directions that the variance spreads over, 0 to 1. "
    "Higher is more even.",
    "mean_cosine": "Of two different texts. Near 0 is even; high says that all texts look alike.",
    "uniformity": "How texts spread over the sphere, from 0 (all in one place) down to about -4. "
    "Lower is more even.",
    "hubness": "Whether a few texts are neighbours of the many; 0 if all are found equally often. "
    "Lower is more even.",
}
"""Measure -> its meaning, and the direction of more even."""


@dataclass(frozen=True)
class Measure:
    """A measure of the space of each model; `meaning` tells if high or low values are more even."""

    name: str
    meaning: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Geometry:
    """The vector space of each model.

    Attributes:
        sentences: number of texts in the sample.
        measures: measures of each model.
        spectra: picture of each model's singular values.
        kept_share: mean share of a text's ten neighbours by the first model that the second model
            keeps; `None` for one model.
        maps: maps of both models; empty for one model.
        mapped: number of texts on a map.
    """

    sentences: int
    measures: tuple[Measure, ...]
    spectra: Picture
    kept_share: float | None
    maps: tuple[Picture, ...]
    mapped: int


def measure(session: Session) -> Geometry | None:
    """Measure and draw the space of each model; return `None` for too few texts."""
    sample = session.sample
    if len(sample) < SMALLEST_SAMPLE:
        return None
    vectors = [model.sample for model in session.models]
    titles = [f"{model.letter}: {model.name}" for model in session.models]
    described = [describe(one) for one in vectors]
    measures = tuple(
        Measure(MEASURES[key], meaning, tuple(f"{one[key]:.4g}" for one in described))
        for key, meaning in _MEANINGS.items()
    )
    spaces = dict(zip(titles, vectors, strict=True))
    spectra = spectra_picture(spaces, "spectra", "Line chart: singular values")
    kept_share: float | None = None
    pictures: tuple[Picture, ...] = ()
    if len(vectors) == 2:
        both = Sample(tuple(text[:LONGEST_SHOWN] for text in sample), *vectors)
        shares = kept_shares(both)
        kept_share = float(shares.mean())
        pictures = tuple(maps(both, shares, (titles[0], titles[1])))
    mapped = min(MAPPED, len(sample))
    return Geometry(len(sample), measures, spectra, kept_share, pictures, mapped)
