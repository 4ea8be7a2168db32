"""How one or two models use their space: measures, singular values, maps of a sample."""

from __future__ import annotations

from dataclasses import dataclass

from isospace.evaluation.isotropy import describe
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
"""What a measure says, and which way is which."""


@dataclass(frozen=True)
class Measure:
    """A measure of the space of each model; `meaning` says which way is more even."""

    name: str
    meaning: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Geometry:
    """The space of each model.

    Attributes:
        sentences: how many the sample has.
        spectra: singular values of both models.
        kept_share: mean share of a text's ten neighbours under the first model that it has under
            the second; `None` for one model.
        maps: of both models; none for one.
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
