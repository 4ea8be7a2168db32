"""What stands on the rungs: weights between a start and what was trained, and a map behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isospace.evaluation.elsewhere import CARRIED
from isospace.operators.fitted_whitening import Moments, Whitening, WhiteningMap
from isospace.statistics.gains import Gain

SHARES = (0.75, 0.5, 0.25)
"""Of the way from the start to what was trained; all the way is the trained encoder itself."""

MEAN, WHITENED, DIRECTIONS = "mean removed", "softly whitened", "leading directions removed"
"""Kinds of maps."""


@dataclass(frozen=True)
class MapChoice:
    """A map that is fitted on the corpus, before it is fitted.

    Attributes:
        kind: one of `MEAN`, `WHITENED`, `DIRECTIONS`.
        whitening: how it is fitted.
        power: how far it goes.
    """

    kind: str
    whitening: Whitening
    power: float

    @property
    def words(self) -> str:
        """Which map, in words."""
        if self.whitening.remove:
            count = self.whitening.remove
            return f"{count} leading direction{'s' * (count > 1)} removed"
        return f"whitened by power {self.power:g}" if self.power else MEAN

    def fit(self, moments: Moments) -> WhiteningMap:
        """The map for vectors of these moments."""
        return self.whitening.fit(moments, self.power)


MAPS = (
    MapChoice(MEAN, Whitening(), 0.0),
    *(MapChoice(WHITENED, Whitening(), power) for power in (0.1, 0.25, 0.5)),
    *(MapChoice(DIRECTIONS, Whitening(remove=count), 0.0) for count in (1, 2, 4)),
)
"""What is tried behind an encoder, from the mildest on."""


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


KINDS_OF_MAPS = tuple(
    Kind(kind, tuple(State(0.0, change) for change in MAPS if change.kind == kind))
    for kind in (MEAN, WHITENED, DIRECTIONS)
)
"""The maps behind the start, a rung each kind."""
