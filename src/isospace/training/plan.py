"""The passes of an update: the plan of an objective, for single texts or for pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isospace.config import TrainConfig
from isospace.objectives.base import Objective
from isospace.views import View


@dataclass(frozen=True)
class PassPlan:
    """The passes through the encoder in an update, and the views that the objective gets.

    Attributes:
        views: the passes.
        ways: the directions in which the objective is computed (two for pairs), each with the
            position in `views` of each view of the objective. The loss is the mean over them.
        texts: number of texts of an example, mined ones included.
        candidates: positions in `views` of the mined texts. The objective gets them in the first
            direction only.
        inputs: views whose tokens the objective reads, of the first direction and then the second.
    """

    views: tuple[View, ...]
    ways: tuple[tuple[int, ...], ...]
    texts: int
    candidates: tuple[int, ...] = ()
    inputs: tuple[View, ...] = ()

    @classmethod
    def from_config(cls, config: TrainConfig) -> PassPlan:
        """Return the plan of a training.

        With pairs, the first view and views `of_anchor` encode one text, and all others the other
        text. The second direction exchanges the texts; both share passes where they can. Each mined
        text is passed once.

        Args:
            config: the settings; with pairs, the objective must have `takes_pairs`.
        """
        plan, mined = cls.of_objective(config.objective, config.views != "dropout"), config.mined
        passes = tuple(View(text=plan.texts + number) for number in range(mined))
        places = tuple(range(len(plan.views), len(plan.views) + mined))
        views, texts = plan.views + passes, plan.texts + mined
        return replace(plan, views=views, texts=texts, candidates=places)

    @classmethod
    def of_objective(cls, objective: Objective, pairs: bool) -> PassPlan:
        """Return the plan of an objective without mined texts; with pairs, for both directions."""
        own = objective.views
        if not pairs:
            every = tuple(range(len(own)))
            return cls(own, (every,), objective.texts, inputs=objective.inputs)
        sided = (replace(own[0], of_anchor=True), *own[1:])
        ways = [_over_pair(sided, anchor) for anchor in (0, 1)]
        # Directions share passes but no inputs, because each draws its own edits.
        inputs = [view for anchor in (0, 1) for view in _over_pair(objective.inputs, anchor)]
        counts = Counter(ways[0]) | Counter(ways[1])
        views = tuple(counts.elements())
        places = tuple(_places(way, views) for way in ways)
        return cls(views, places, 2, inputs=tuple(inputs))


def _over_pair(views: Sequence[View], anchor: int) -> list[View]:
    """Return the views for a pair whose anchor is text number `anchor`."""
    return [
        replace(view, text=anchor if view.of_anchor else 1 - anchor, of_anchor=False)
        for view in views
    ]


def _places(way: Sequence[View], views: Sequence[View]) -> tuple[int, ...]:
    """Return the position of each view of a direction; equal views get different positions."""
    places = []
    for number, view in enumerate(way):
        earlier = list(way[:number]).count(view)
        places.append([i for i, one in enumerate(views) if one == view][earlier])
    return tuple(places)


def has_equal_views(views: Sequence[View], inputs: Sequence[int], rates: Sequence[float]) -> bool:
    """Return true if two views are equal because the encoder has no dropout.

    `inputs` (view,) is the number of the input of each view, and `rates` are the encoder's dropout
    rates. Two views may both be clean by their own rate of 0.
    """
    noisy = [
        (number, view.read)
        for view, number in zip(views, inputs, strict=False)
        if view.by == "encoder" and view.dropout is None
    ]
    return len(noisy) > len(set(noisy)) and not any(rates)
