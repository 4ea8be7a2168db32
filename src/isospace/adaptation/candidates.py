"""The candidates: base, fine-tuned or merged weights, with or without a linear map.

| when | weights | maps |
|---|---|---|
| before training | the base model's | `PAIR_MAPS`; `TEXT_MAPS` if the text has no pairs |
| after training | fine-tuned, then merged by `SHARES` | `THROUGH`; all `PAIR_MAPS` for the best |
| documents keep their vectors | the base model's | `QUERY_MAPS` |
| queries fine-tuned alone | fine-tuned, then merged | the first; all `QUERY_MAPS` for the best |
| small folder | fine-tuned, merged by half (`FOLD_SHARES`) | `PAIR_MAPS` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isospace.evaluation.benchmark import BASE
from isospace.evaluation.other_text import CARRIED
from isospace.operators.fitted_whitening import Moments, PairMoments, Whitening, WhiteningMap
from isospace.statistics.gains import Gain

SHARES = (0.75, 0.5, 0.25)
"""Shares of the trained weights in merged weights; the rest is the base model's."""
FOLD_SHARES = (1.0, 0.5)
"""Shares for a small folder that is cross-validated; every part tries the same ones."""


@dataclass(frozen=True)
class MapChoice:
    """A linear map to be fitted on the corpus.

    Attributes:
        fit_power: returns the map from the moments of texts or pairs, and the power.
        of_texts: true if the map is fitted on single texts, and not on pairs.
        of_queries: true if documents keep their vectors.
    """

    kind: str
    power: float
    fit_power: Callable[[Any, float], WhiteningMap]
    of_texts: bool = False
    of_queries: bool = False

    @property
    def name(self) -> str:
        """Name of the map for people."""
        return f"{self.kind}, power {self.power:g}"

    def fit(self, moments: Moments | PairMoments) -> WhiteningMap:
        """Fit the map to the moments of some vectors."""
        return self.fit_power(moments, self.power)


def by_pairs(power: float) -> MapChoice:
    """Return the whitening by pairs of texts."""
    return MapChoice("whitened by pairs", power, PairMoments.fit)


_OF_TEXTS = Whitening()  # one for all: candidates are equal if their functions are


def by_texts(power: float) -> MapChoice:
    """Return the whitening by single texts."""
    return MapChoice("whitened by single texts", power, _OF_TEXTS.fit, of_texts=True)


def queries_by_pairs(power: float) -> MapChoice:
    """Return the whitening by pairs that maps queries alone."""
    return MapChoice("queries whitened by pairs", power, PairMoments.fit_queries, of_queries=True)


PAIR_MAPS = tuple(map(by_pairs, (0.5, 0.75, 1.0)))
"""Maps that are tried if the corpus has pairs, the weakest first."""
QUERY_MAPS = tuple(map(queries_by_pairs, (0.25, 0.5, 0.75)))
"""Maps that are tried if documents must keep their vectors. A fine-tuned encoder of queries is not
tried without one: on validation pairs of three in four corpora it scores higher with the first."""
THROUGH = by_pairs(0.75)
"""The map that training goes through if the corpus has pairs (docs/results/fine-tuning.md)."""
TEXT_MAPS = tuple(map(by_texts, (0.1, 0.25, 0.5)))
"""Maps that are tried if the corpus has no pairs. Removing only the mean, or leading directions,
gained less."""


@dataclass(frozen=True)
class Candidate:
    """One version of the model.

    Attributes:
        share: share of the trained weights: 0 is the base model, 1 the fine-tuned model.
        change: the map behind the encoder, if any.
    """

    share: float = 0.0
    change: MapChoice | None = None

    @property
    def name(self) -> str:
        """Name of the candidate for people."""
        weights = f"the {BASE}"
        if self.share:
            weights = "the fine-tuned model"
            if self.share < 1:
                weights = f"{self.share:g} of the way from the {BASE} to the fine-tuned one"
        return weights if self.change is None else f"{weights}, {self.change.name}"

    @property
    def kind(self) -> str:
        """Name of the candidate's row in the table."""
        if not self.share:
            return BASE if self.change is None else self.change.kind
        weights = "merged" if self.share < 1 else "fine-tuned"
        return weights if self.change is None else f"{weights}, then {self.change.kind}"


BASE_MODEL = Candidate()


def candidates(shares: Sequence[float], maps: Sequence[MapChoice]) -> list[Candidate]:
    """Return the candidates with these shares, each without a map and with each map."""
    return [Candidate(share, change) for share in shares for change in (None, *maps)]


def allowed_candidates(
    other_text: Mapping[Candidate, Mapping[str, Gain]], max_drop: float
) -> list[Candidate]:
    """Return the candidates whose drop on other text is small enough.

    The limit applies to the measured change, and not to its confidence limit. Sets small enough to
    be encoded in seconds have wide intervals, so that hardly any candidate would pass.

    For the small sets that come with isospace the limit applies to their mean, because the worst of
    several noisy estimates looks worse than the true drop. For sets that the user named it applies
    to each set.

    Args:
        other_text: candidate -> set -> gain over the base model on the set's validation part.
        max_drop: largest drop, in points of 100.
    """
    return [
        candidate
        for candidate, gains in other_text.items()
        if min(_bounded_changes(gains), default=0.0) >= -max_drop / 100
    ]


def _bounded_changes(gains: Mapping[str, Gain]) -> list[float]:
    """Return the mean change on the sets that come with isospace, and that on each other set."""
    carried = [one.mean for name, one in gains.items() if name in CARRIED]
    together = [sum(carried) / len(carried)] if carried else []
    return [*together, *(one.mean for name, one in gains.items() if name not in CARRIED)]
