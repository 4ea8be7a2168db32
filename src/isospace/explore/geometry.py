"""How one or two models use their space: measures, singular values, maps of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isospace.evaluation.isotropy import describe
from isospace.explore.session import Session
from isospace.explore.words import LONGEST_SHOWN
from isospace.report import figures
from isospace.report.space import SMALLEST_SAMPLE, kept_shares
from isospace.report.write import MAPPED, MEASURES, Picture, maps
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
"""What a measure says, and which way is which."""


@dataclass(frozen=True)
class Measure:
    """A measure of each model's space.

    Attributes:
        name: for people.
        meaning: what it says, and which way is more even.
        values: for each model.
    """

    name: str
    meaning: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Geometry:
    """The space of each model.

    Attributes:
        sentences: texts of the sample.
        measures: of each model.
        spectra: singular values of both.
        kept_share: mean share of a text's ten neighbours under the first model that it has under
            the second; `None` for one model.
        maps: of both; none for one model.
        mapped: texts on a map.
    """

    sentences: int
    measures: tuple[Measure, ...]
    spectra: Picture
    kept_share: float | None
    maps: tuple[Picture, ...]
    mapped: int


def measure(session: Session) -> Geometry | None:
    """Measure and draw the space of each model; `None` for a corpus of very few texts."""
    sample = session.sample
    if len(sample) < SMALLEST_SAMPLE:
        return None
    vectors = [model.sample for model in session.models]
    titles = [f"{model.letter}: {model.name}" for model in session.models]
    described = [describe(one) for one in vectors]
    measures = [
        Measure(MEASURES[key], meaning, tuple(f"{one[key]:.4g}" for one in described))
        for key, meaning in _MEANINGS.items()
    ]
    spaces = dict(zip(titles, vectors, strict=True))
    svg = figures.to_svg(figures.spectra(spaces), "spectra", "Line chart: singular values")
    caption = "The flatter, the more evenly the space is used; the scale is logarithmic."
    spectra = Picture("Singular values", caption, svg)
    shown = tuple(text[:LONGEST_SHOWN] for text in sample)
    kept_share: float | None = None
    pictures: tuple[Picture, ...] = ()
    if len(vectors) == 2:
        kept_share, pictures = _compare(Sample(shown, *vectors), titles)
    mapped = min(MAPPED, len(sample))
    return Geometry(len(sample), tuple(measures), spectra, kept_share, pictures, mapped)


def _compare(sample: Sample, titles: Sequence[str]) -> tuple[float, tuple[Picture, ...]]:
    """What the second model keeps of the neighbours under the first; and both maps."""
    shares = kept_shares(sample)
    return float(shares.mean()), tuple(maps(sample, shares, (titles[0], titles[1])))
