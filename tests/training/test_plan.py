"""The passes of a run: an objective's plan over one text, and over pairs in both directions.

Of methods that add to a contrast of two views, values and gradients over pairs are tested too.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from loops import CONFIG, make_loop, views_of, with_clean_views
from toy import write_toy_model

from isospace.config import TrainConfig, objective_name
from isospace.errors import UserError
from isospace.objectives import (
    CT,
    DCLR,
    PCL,
    TSDAE,
    ArcCSE,
    ConSERT,
    CTInBatch,
    DiffCSE,
    ESimCSE,
    MoCoSE,
    NoiseStudy,
    PromptBERT,
    RankCSE,
    RankStudy,
    SimCSE,
    WhitenedCSE,
)
from isospace.training import batches as module
from isospace.training.build import PassPlan
from isospace.training.prepare import require_of_objective
from isospace.training.step import loss_terms
from isospace.views import View

FIRST, SECOND = View(text=0), View(text=1)


def over_pairs():
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
    assert [tuple(plan.views[place] for place in way) for way in plan.ways] == [expected, turned]
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


PHI = 0.98
"""Of the toy's clean vectors some are nearer to each other than that, and some are not."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The toy with a head for masked words."""
    return write_toy_model(tmp_path_factory.mktemp("masked") / "bert", masked_words=True)


@pytest.fixture
def in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def loop_of(model, folder, objective, views="pairs"):
    return make_loop(model, folder, replace(CONFIG, objective=objective, views=views))


def without_dropout(loop):
    loop.training = with_clean_views(loop.training)
    parts = [m for c in loop.training.auxiliaries.values() for m in c.modules()]
    for part in (loop.training.encoder, *parts):
        if hasattr(part, "noise"):
            part.noise.set(0.0)
    return loop


def terms_of(loop):
    terms = loss_terms(loop.training.config.objective, views_of(loop, 0))
    return {name: float(x.detach()) for name, x in terms.items()}


ALIKE = [
    ESimCSE(), ESimCSE(clean_negatives=True, dimension_weight=0.1, group_whitening=True),
    DCLR(noise_times=0.0, threshold=PHI), DCLR(noise_times=0.0, threshold=PHI, variant="released"),
    ArcCSE(), ArcCSE(clean_negatives=True, dimension_weight=0.1),
    MoCoSE(head_dropout=0.0),
    ConSERT(), ConSERT(first="token-cutoff", second="element-cutoff"),
    CTInBatch(), PromptBERT(), PCL(), PCL(peer="frozen", copies=1),
    DiffCSE(), DiffCSE(clean_negatives=True, dimension_weight=0.1),
    RankStudy(rows=13), NoiseStudy(passes=2), NoiseStudy(passes=2, part="positives"),
]  # fmt: skip


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("objective", ALIKE, ids=objective_name)
def test_a_text_paired_with_itself_is_its_two_views(model, tmp_path, monkeypatch, objective):
    """Without dropout, and where edits draw alike for all views: the plan adds nothing of its own."""
    draw = module._source
    monkeypatch.setattr(module, "_source", lambda view, place: draw(view, 1))
    if getattr(objective, "group_whitening", False):  # of groups that no draw makes
        monkeypatch.setattr(torch, "randperm", lambda n, **_: torch.arange(n))
    own = without_dropout(loop_of(model, tmp_path, objective, "dropout"))
    paired = without_dropout(loop_of(model, tmp_path, objective))
    lines, batches = own.training.batches.examples.rows[:, 0], paired.training.batches
    expected = terms_of(own)
    assert sum(abs(x) for x in expected.values()) > 1e-3
    batches.examples = replace(batches.examples, rows=np.stack([lines, lines], 1))
    assert terms_of(paired) == pytest.approx(expected, rel=1e-9)
    batches.examples = replace(batches.examples, rows=np.stack([lines, np.roll(lines, 1)], 1))
    assert terms_of(paired) != pytest.approx(expected, rel=1e-6)
