"""The passes of a run: the plan of an objective, or that plan over pairs of texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isospace.config import TrainConfig
from isospace.objectives.base import Objective
from isospace.views import View


@dataclass(frozen=True)
class PassPlan:
    """The passes through the encoder in an update, and the views that the objective sees.

    Attributes:
        views: the passes, each once.
        ways: in how many ways the objective sees them, and in each the place of each view of its
            own plan; its loss is the mean over the ways.
        texts: of an example, those that were mined for it among them.
        candidates: places of the passes of what was mined, which the objective sees in the first
            way, beside its own plan.
        inputs: whose tokens the objective reads: in the first way, and behind them in the second.
    """

    views: tuple[View, ...]
    ways: tuple[tuple[int, ...], ...]
    texts: int
    candidates: tuple[int, ...] = ()
    inputs: tuple[View, ...] = ()

    @classmethod
    def from_config(cls, config: TrainConfig) -> PassPlan:
        """Make the plan of a training.

        Over pairs the first view and those `of_anchor` are of one text and all others of the other,
        those that are clean too; and the other way round, by as few passes as serve both. Mined
        texts of an example are each passed once, behind its own.

        Args:
            config: its objective is one that `takes_pairs`, where there are such.
        """
        plan, mined = cls._of_own(config.objective, config.views != "dropout"), config.mined
        passes = tuple(View(text=plan.texts + number) for number in range(mined))
        places = tuple(range(len(plan.views), len(plan.views) + mined))
        views, texts = plan.views + passes, plan.texts + mined
        return replace(plan, views=views, texts=texts, candidates=places)

    @classmethod
    def _of_own(cls, objective: Objective, pairs: bool) -> PassPlan:
        own = objective.views
        if not pairs:
            every = tuple(range(len(own)))
            return cls(own, (every,), objective.texts, inputs=objective.inputs)
        sided = (replace(own[0], of_anchor=True), *own[1:])
        ways = [_over_pair(sided, anchor) for anchor in (0, 1)]
        # The ways share no input, as they share passes: each has edits drawn for itself.
        inputs = [view for anchor in (0, 1) for view in _over_pair(objective.inputs, anchor)]
        counts = Counter(ways[0]) | Counter(ways[1])
        views = tuple(counts.elements())
        places = tuple(_places(way, views) for way in ways)
        return cls(views, places, 2, inputs=tuple(inputs))


def _over_pair(views: Sequence[View], anchor: int) -> list[View]:
    """Each view of its text of a pair of which text number `anchor` is the anchor."""
    return [
        replace(view, text=anchor if view.of_anchor else 1 - anchor, of_anchor=False)
        for view in views
    ]


def _places(way: Sequence[View], views: Sequence[View]) -> tuple[int, ...]:
    """The place of each view of a way, equal ones one after the other."""
    places = []
    for number, view in enumerate(way):
        earlier = list(way[:number]).count(view)
        places.append([i for i, one in enumerate(views) if one == view][earlier])
    return tuple(places)
