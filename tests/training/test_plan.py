"""The passes of a run: an objective's plan over one text, and over pairs in both directions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isospace.config import TrainConfig, objective_name
from isospace.errors import UserError
from isospace.objectives import (
    CT,
    PCL,
    TSDAE,
    ArcCSE,
    ConSERT,
    CTInBatch,
    DiffCSE,
    ESimCSE,
    NoiseStudy,
    PromptBERT,
    RankCSE,
    SimCSE,
    WhitenedCSE,
)
from isospace.objectives.base import Objective
from isospace.training.plan import PassPlan
from isospace.training.prepare import require_of_objective
from isospace.views import View

FIRST, SECOND = View(text=0), View(text=1)


def over_pairs() -> dict[Objective, tuple[View, ...]]:
    """What an objective sees of a pair, text 0 the anchor."""
    repeated = ESimCSE().views[1].edit
    cut, shuffled = (view.perturb for view in ConSERT().views)
    short, long = (view.edit for view in ArcCSE().views[3:])
    one, other, one_empty, other_empty = (view.edit for view in PromptBERT().views)
    edits = [view.edit for view in PCL(copies=1).views[2:6]]
    triplet = (View(0.0), View(0.0, edit=short), View(0.0, edit=long))
    return {
        SimCSE(): (FIRST, SECOND),
        WhitenedCSE(num_views=3): (FIRST, SECOND, SECOND),
        ESimCSE(clean_negatives=True): (
            FIRST, View(text=1, edit=repeated), View(0.0, 1, by="momentum"), View(0.0, 1),
        ),
        ConSERT(): (View(0.0, perturb=cut), View(0.0, 1, perturb=shuffled)),
        CTInBatch(): (FIRST, View(text=1, by="second")),
        PromptBERT(): (
            View(edit=one, read="mask"), View(text=1, edit=other, read="mask"),
            View(edit=one_empty, read="mask"), View(text=1, edit=other_empty, read="mask"),
        ),
        ArcCSE(clean_negatives=True): (FIRST, SECOND, *triplet, View(0.0, 1)),
        PCL(copies=1): tuple(
            View(text=text, edit=edit, by=by)
            for by in ("encoder", "peer")
            for text, edit in ((0, None), (1, None), *((1, edit) for edit in edits))
        ),
        NoiseStudy(passes=2): (FIRST, SECOND, FIRST, FIRST, SECOND, SECOND),
    }  # fmt: skip


@pytest.mark.parametrize("objective", over_pairs(), ids=objective_name)
def test_every_view_knows_of_which_text_of_a_pair_it_is(objective):
    """Edits, networks and readings stay with their view; the other direction has the texts turned."""
    plan = PassPlan.from_config(TrainConfig(objective=objective, views="pairs"))
    expected = over_pairs()[objective]
    turned = tuple(replace(view, text=1 - view.text) for view in expected)
    ways = [tuple(plan.views[place] for place in way) for way in plan.ways]
    assert ways == [expected, turned]
    assert all(len(set(way)) == len(way) for way in plan.ways)
    assert set(plan.ways[0]) | set(plan.ways[1]) == set(range(len(plan.views)))
    for view in plan.views:  # directions share their passes
        assert plan.views.count(view) == max(expected.count(view), turned.count(view))
    assert plan.texts == 2


@pytest.mark.parametrize(
    "objective",
    [SimCSE(supervision="triples"), WhitenedCSE(positives="permutation"), TSDAE(), CT()],
    ids=objective_name,
)
def test_what_takes_no_pairs_names_what_does(objective):
    assert not objective.takes_pairs
    with pytest.raises(UserError, match=r"`views` both: .* does not use it.*\(simcse, "):
        require_of_objective(TrainConfig(objective=objective, views="both"))


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (TrainConfig(relations=("crops",)), "`relations`"),
        (TrainConfig(objective=DiffCSE(), pass_tokens=100), "`pass_tokens` 100: diffcse"),
        (TrainConfig(objective=RankCSE()), "`teacher` is missing: rankcse"),
        (
            TrainConfig(objective=RankCSE(distillation_weight=0.0), teacher="base"),
            r"`teacher` base: rankcse .*\(rankcse",
        ),
        (TrainConfig(objective=SimCSE(), mined=2), r"`mined` 2: simcse .*\(rankcse"),
    ],
)
def test_settings_that_do_not_fit_the_objective_are_refused(config, named):
    with pytest.raises(UserError, match=named):
        require_of_objective(config)
