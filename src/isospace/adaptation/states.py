"""What stands on the rungs: weights between a start and what was trained, and a map behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isospace.evaluation.elsewhere import CARRIED
from isospace.operators.fitted_whitening import Whitening, WhiteningMap
from isospace.operators.pair_whitening import PairMoments
from isospace.statistics.gains import Gain

SHARES = (0.75, 0.5, 0.25)
"""Of the way from the start to what was trained; all the way is the trained encoder itself."""

BY_PAIRS, BY_TEXTS = "whitened by pairs", "whitened by single texts"
"""Kinds of maps."""


@dataclass(frozen=True)
class MapChoice:
    """A map that is fitted on the corpus, before it is fitted.

    Attributes:
        kind: `BY_PAIRS` or `BY_TEXTS`.
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
        return Whitening().fit(moments.texts, self.power)


PAIR_MAPS = tuple(MapChoice(BY_PAIRS, power) for power in (0.5, 0.75, 1.0))
"""What is tried behind an encoder where the corpus has pairs, from the mildest on."""
TEXT_MAPS = tuple(MapChoice(BY_TEXTS, power) for power in (0.1, 0.25, 0.5))
"""What is tried where it has none: removing the mean alone, or leading directions, gains less
(docs/results/domains.md)."""


@dataclass(frozen=True)
class State:
    """An encoder on a rung.

    Attributes:
        share: of the way from the weights of the start, 0, to those that were trained, 1.
        change: a map behind it.
    """

    share: float = 0.0
    change: MapChoice | None = None

    @property
    def words(self) -> str:
        """What it is, in words."""
        weights = "the start"
        if self.share:
            weights = "the trained weights"
            if self.share < 1:
                weights = f"{self.share:g} of the way from the start's weights to the trained ones"
        return weights if self.change is None else f"{weights}, {self.change.words}"


START = State()


@dataclass(frozen=True)
class Kind:
    """A rung of the ladder: states of which the pairs that choose take the best.

    Attributes:
        name: for people.
        states: of which one is taken.
    """

    name: str
    states: tuple[State, ...]

    def best(self, choosing: Mapping[State, float], allowed: Sequence[State]) -> State:
        """The state that finds most of the pairs that choose, of those that lose little elsewhere.

        Where all lose too much the best of them stands for the kind; it is not taken.
        """
        own = [state for state in self.states if state in allowed] or list(self.states)
        return max(own, key=lambda state: choosing[state])


def allowed_states(elsewhere: Mapping[State, Mapping[str, Gain]], may_lose: float) -> list[State]:
    """The states that lose little enough elsewhere, as far as was seen.

    It is the change itself that is bounded, and no bound of its error: sets that are encoded in
    seconds could show of hardly any state that it loses less than half a point. Those that isospace
    carries are bounded together, by their mean, as the least of several such estimates lies below
    what is truly lost; those that were named are bounded one by one.

    Args:
        elsewhere: of each state set -> gain over the start on the part that chooses.
        may_lose: points of 100.
    """
    return [
        state
        for state, gains in elsewhere.items()
        if min(_changes(gains), default=0.0) >= -may_lose / 100
    ]


def _changes(gains: Mapping[str, Gain]) -> list[float]:
    """What is bounded: the mean of the sets that isospace carries, and each other set."""
    carried = [one.mean for name, one in gains.items() if name in CARRIED]
    together = [sum(carried) / len(carried)] if carried else []
    return [*together, *(one.mean for name, one in gains.items() if name not in CARRIED)]


def candidates(shares: Sequence[float], maps: Sequence[MapChoice]) -> list[State]:
    """List the candidates with these weights: as they are, and with each map behind them."""
    return [State(share, change) for share in shares for change in (None, *maps)]
