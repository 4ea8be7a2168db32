"""The candidates: weights between the base model's and the fine-tuned ones, and a linear map."""

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

BY_PAIRS, BY_TEXTS = "whitened by pairs", "whitened by single texts"
QUERIES_BY_PAIRS = "queries whitened by pairs"
"""Kinds of maps."""


@dataclass(frozen=True)
class MapChoice:
    """A map that is fitted on the corpus, before it is fitted.

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
class State:
    """One candidate.

    Attributes:
        share: of the way from the weights of the base model, 0, to those that were trained, 1.
        change: a map behind it.
    """

    share: float = 0.0
    change: MapChoice | None = None

    @property
    def words(self) -> str:
        """What it is, in words."""
        weights = "the base model"
        if self.share:
            weights = "the fine-tuned model"
            if self.share < 1:
                weights = f"{self.share:g} of the way from the base model to the fine-tuned one"
        return weights if self.change is None else f"{weights}, {self.change.words}"

    @property
    def kind(self) -> str:
        """Name the row of the table that it belongs to."""
        if not self.share:
            return BASE if self.change is None else self.change.kind
        weights = "merged" if self.share < 1 else "fine-tuned"
        return weights if self.change is None else f"{weights}, then {self.change.kind}"


START = State()


@dataclass(frozen=True)
class Kind:
    """A row of the table: candidates of which the validation pairs select the best.

    Attributes:
        name: for people.
        states: of which one is selected.
    """

    name: str
    states: tuple[State, ...]

    def best(self, choosing: Mapping[State, float], allowed: Sequence[State]) -> State:
        """Return the candidate with the highest validation MRR among those that drop little.

        Where all drop too much, the best of them represents the kind; it is not selected.
        """
        own = [state for state in self.states if state in allowed] or list(self.states)
        return max(own, key=lambda state: choosing[state])


def by_kind(states: Iterable[State]) -> list[Kind]:
    """Group candidates by their kinds, in the order in which these come first."""
    found: dict[str, list[State]] = {}
    for state in states:
        found.setdefault(state.kind, []).append(state)
    return [Kind(name, tuple(own)) for name, own in found.items()]


def allowed_states(other_text: Mapping[State, Mapping[str, Gain]], max_drop: float) -> list[State]:
    """Return the candidates whose drop on other text is small enough, as far as was seen.

    It is the change itself that is bounded, and no bound of its error: sets that are encoded in
    seconds could show of hardly any state that it loses less than half a point. Those that isospace
    carries are bounded together, by their mean, as the least of several such estimates lies below
    what is truly lost; those that were named are bounded one by one.

    Args:
        other_text: of each state set -> gain over the base model on its validation part.
        max_drop: points of 100.
    """
    return [
        state
        for state, gains in other_text.items()
        if min(_changes(gains), default=0.0) >= -max_drop / 100
    ]


def _changes(gains: Mapping[str, Gain]) -> list[float]:
    """What is bounded: the mean of the sets that isospace carries, and each other set."""
    carried = [one.mean for name, one in gains.items() if name in CARRIED]
    together = [sum(carried) / len(carried)] if carried else []
    return [*together, *(one.mean for name, one in gains.items() if name not in CARRIED)]


def candidates(shares: Sequence[float], maps: Sequence[MapChoice]) -> list[State]:
    """List the candidates with these weights: as they are, and with each map behind them."""
    return [State(share, change) for share in shares for change in (None, *maps)]
