"""Our objectives in sentence-transformers' trainer."""

import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Normalize
from stock_trainer import train_scd
from toy import sentences
from warm import run_together

from isospace.encoders.loading import load_encoder
from isospace.encoders.noise import Noise
from isospace.errors import UserError
from isospace.losses import info_nce
from isospace.objectives import OBJECTIVES, SimCSE
from isospace.training.objective_loss import ObjectiveLoss
from isospace.views import Views

TEXTS = sentences(32)
SMALL = {name: OBJECTIVES[name]() for name in ("simcse", "simcse++", "whitenedcse")}
SMALL["scd"] = OBJECTIVES["scd"](projector=(64, 64))


@pytest.fixture
def model(toy_model):
    return load_encoder(str(toy_model), device="cpu").model


def features(model, columns=1):
    return [dict(model.preprocess(TEXTS[8 * i : 8 * i + 8])) for i in range(columns)]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("normalised", [False, True])
def test_the_loss_is_the_objective_of_the_same_views(model, name, normalised):
    if normalised:
        model.append(Normalize())
    objective = SMALL[name]
    loss = ObjectiveLoss(model, objective, seed=3)
    columns = features(model, objective.texts)
    torch.manual_seed(5)
    terms = loss(columns, None)
    torch.manual_seed(5)
    made = []
    for view in objective.views:
        with Noise(model).at(view.dropout):
            state = model[1](model[0](dict(columns[view.text])))
        made.append(state["sentence_embedding"])
    encoded = torch.stack(made)
    head = objective.build_head(32, seed=3)
    expected = objective(Views(encoded=encoded, projected=head(encoded)))
    assert terms.keys() == expected.keys()
    for term, value in expected.items():
        assert terms[term].item() == pytest.approx(value.item(), rel=1e-5)
    assert all(set(column) == set(features(model)[0]) for column in columns)  # not written into


def test_two_columns_are_pairs_in_both_directions(model):
    Noise(model).set(0.0)  # with pairs, two views of a text are not needed
    objective, columns = SimCSE(head="none"), features(model, 2)
    [loss] = ObjectiveLoss(model, objective)(columns).values()
    with torch.no_grad():
        sides = [model(dict(column))["sentence_embedding"] for column in columns]
    ways = [info_nce(*pair, objective.temperature) for pair in (sides, sides[::-1])]
    assert loss.item() == pytest.approx(sum(ways).item() / 2, rel=1e-5)
    assert ways[0].item() != pytest.approx(ways[1].item(), rel=1e-4)


def test_the_columns_are_the_texts_of_an_example(model):
    triples = SimCSE(supervision="triples")
    with pytest.raises(UserError, match=r"simcse .* 1 text\(s\) .*pairs.* has 3 text column"):
        ObjectiveLoss(model, SimCSE())(features(model, 3))
    assert torch.isfinite(sum(ObjectiveLoss(model, triples)(features(model, 3)).values()))


def test_a_model_without_dropout_is_refused(model):
    Noise(model).set(0.0)
    with pytest.raises(UserError, match=r"dropout of 0.*Noise\(model\)"):
        ObjectiveLoss(model, SimCSE())(features(model))


@pytest.mark.parametrize("name", SMALL)
def test_a_batch_of_one_sentence_teaches_nothing(model, name):
    objective = SMALL[name]
    loss = ObjectiveLoss(model, objective)
    nothing = loss([dict(model.preprocess(TEXTS[:1]))])
    assert nothing.item() == 0.0
    nothing.backward()
    assert all(p.grad is None or not p.grad.any() for p in loss.parameters())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_gradient_checkpointing_is_refused(model):
    """The layers would run again under the rates of another view."""
    loss = ObjectiveLoss(model, SMALL["scd"])
    model.gradient_checkpointing_enable()  # as the stock trainer switches it on
    with pytest.raises(UserError, match="gradient_checkpointing"):
        loss(features(model))


def test_the_stock_trainer_trains_it_and_logs_every_term(toy_model, tmp_path):
    pytest.importorskip("datasets", reason="needs isospace[hub]")
    logged = [entry for entry in train_scd(toy_model, tmp_path) if "loss" in entry]
    assert len(logged) == 2
    loss = ObjectiveLoss(load_encoder(str(toy_model), device="cpu").model, SMALL["scd"])
    for entry in logged:
        terms = [entry[term] for term in ("self_contrast", "on_diagonal", "off_diagonal")]
        assert entry["loss"] == pytest.approx(sum(terms), abs=1e-3)
    trained = torch.load(tmp_path / "rank-0.pt")
    before = dict(loss.named_parameters())
    moved = {name for name, value in trained.items() if not torch.equal(value, before[name])}
    assert any(name.startswith("head.") for name in moved)
    assert {name for name in before if ".layer." in name} <= moved
    assert loss.get_config_dict()["objective"] == "scd"
    assert "@" in loss.citation


@pytest.mark.slow
def test_two_processes_of_the_stock_trainer_keep_their_heads_equal(toy_model, tmp_path):
    pytest.importorskip("datasets", reason="needs isospace[hub]")
    run_together(2, train_scd, toy_model, tmp_path)
    first, second = (torch.load(tmp_path / f"rank-{rank}.pt") for rank in (0, 1))
    start = SMALL["scd"].build_head(32, seed=42).state_dict()
    heads = [name for name in first if name.startswith("head.")]
    for name in heads:
        torch.testing.assert_close(first[name], second[name], rtol=0, atol=1e-6)
    assert any(not torch.equal(first[name], start[name.removeprefix("head.")]) for name in heads)
