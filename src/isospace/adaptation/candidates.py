"""The candidates: weights between the base model's and the fine-tuned ones, and a linear map.

| when | weights | maps |
|---|---|---|
| before training | the base model's | `PAIR_MAPS`; `TEXT_MAPS` without pairs |
| queries alone | the base model's | `QUERY_MAPS` |
| after training | fine-tuned, then merged by `SHARES` | `THROUGH`; for the best all `PAIR_MAPS` |
| small folder | fine-tuned, merged by half (`FOLD_SHARES`) | `PAIR_MAPS` |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from isospace.evaluation.other_text import CARRIED
from isospace.evaluation.scores import BASE
from isospace.operators.fitted_whitening import Whitening, WhiteningMap
from isospace.operators.pair_whitening import PairMoments
from isospace.statistics.gains import Gain

SHARES = (0.75, 0.5, 0.25)
"""Of the way from the base model to what was trained; all the way is the trained encoder itself."""
FOLD_SHARES = (1.0, 0.5)
"""The same where a small folder is cross-validated, so that every part tries the same."""

BY_PAIRS, BY_TEXTS = "whitened by pairs", "whitened by single texts"
QUERIES_BY_PAIRS = "queries whitened by pairs"
"""Kinds of maps."""


@dataclass(frozen=True)
class MapChoice:
    """A linear map that is fitted on the corpus, before it is fitted.

    Attributes:
        kind: `BY_PAIRS`, `BY_TEXTS` or `QUERIES_BY_PAIRS`, which leaves documents as they are.
        power: how far it goes.
    """

    kind: str
    power: float

    @property
    def words(self) -> str:
        """Name the map."""
        return f"{self.kind}, power {self.power:g}"

    def fit(self, moments: PairMoments) -> WhiteningMap:
        """Fit the map for vectors of these moments."""
        if self.kind == BY_PAIRS:
            return moments.fit(self.power)
        if self.kind == QUERIES_BY_PAIRS:
            return moments.fit_queries(self.power)
        return Whitening().fit(moments.texts, self.power)


PAIR_MAPS = tuple(MapChoice(BY_PAIRS, power) for power in (0.5, 0.75, 1.0))
"""What is tried behind an encoder where the corpus has pairs, from the mildest on."""
QUERY_MAPS = tuple(MapChoice(QUERIES_BY_PAIRS, power) for power in (0.25, 0.5, 0.75))
"""What is tried where documents are to keep their vectors."""
THROUGH = PAIR_MAPS[1]
"""What training goes through where the corpus has pairs (docs/results/fine-tuning.md)."""
TEXT_MAPS = tuple(MapChoice(BY_TEXTS, power) for power in (0.1, 0.25, 0.5))
"""What is tried where it has none; removing the mean alone, or leading directions, gained less."""


@dataclass(frozen=True)
class Candidate:
    """One version of the model.

    Attributes:
        share: of the way from the weights of the base model, 0, to those that were trained, 1.
        change: a map behind it.
    """

    share: float = 0.0
    change: MapChoice | None = None

    @property
    def words(self) -> str:
        """Name the candidate for people."""
        weights = f"the {BASE}"
        if self.share:
            weights = "the fine-tuned model"
            if self.share < 1:
                weights = f"{self.share:g} of the way from the {BASE} to the fine-tuned one"
        return weights if self.change is None else f"{weights}, {self.change.words}"

    @property
    def kind(self) -> str:
        """Name the row of the table that it belongs to."""
        if not self.share:
            return BASE if self.change is None else self.change.kind
        weights = "merged" if self.share < 1 else "fine-tuned"
        return weights if self.change is None else f"{weights}, then {self.change.kind}"


BASE_MODEL = Candidate()


def candidates(shares: Sequence[float], maps: Sequence[MapChoice]) -> list[Candidate]:
    """List the candidates with these weights: as they are, and with each map behind them."""
    return [Candidate(share, change) for share in shares for change in (None, *maps)]


def by_kind(tried: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    """Group candidates by their kinds, in the order in which these come first."""
    found: dict[str, list[Candidate]] = {}
    for candidate in tried:
        found.setdefault(candidate.kind, []).append(candidate)
    return found


def best_of(
    tried: Iterable[Candidate], mrr: Mapping[Candidate, float], allowed: Sequence[Candidate]
) -> Candidate:
    """Return the candidate with the highest validation MRR among those that drop little.

    Where all drop too much, it is the best of them; it represents a kind and is not selected.
    """
    tried = list(tried)
    own = [candidate for candidate in tried if candidate in allowed] or tried
    return max(own, key=lambda candidate: mrr[candidate])


def allowed_candidates(
    other_text: Mapping[Candidate, Mapping[str, Gain]], max_drop: float
) -> list[Candidate]:
    """Return the candidates whose drop on other text is small enough.

    The measured change is bounded, not its confidence limit: sets that are encoded in seconds could
    show of hardly any candidate that it drops less than half a point. The sets that isospace
    carries are bounded by their mean, because the least of several such estimates lies below the
    true drop. Sets that the user named are bounded one by one.

    Args:
        other_text: candidate -> set -> gain over the base model on its validation part.
        max_drop: points of 100.
    """
    return [
        candidate
        for candidate, gains in other_text.items()
        if min(_bounded_changes(gains), default=0.0) >= -max_drop / 100
    ]


def _bounded_changes(gains: Mapping[str, Gain]) -> list[float]:
    """Return the mean change of the sets that isospace carries, and that of each other set."""
    carried = [one.mean for name, one in gains.items() if name in CARRIED]
    together = [sum(carried) / len(carried)] if carried else []
    return [*together, *(one.mean for name, one in gains.items() if name not in CARRIED)]
