"""An encoder whose weights are divided over processes (FSDP), as far as the CPU goes."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from sentence_transformers import SentenceTransformer
from toy import sentences
from warm import run_together

from isospace.errors import UserError
from isospace.objectives import SimCSE
from isospace.training.objective_loss import ObjectiveLoss
from isospace.training.train import train

OBJECTIVES = {
    "simcse": SimCSE(),
    "hard negatives": SimCSE(supervision="triples"),
}
LINES = sentences(24)


def gradients(model, objective, rows):
    """Terms, and name -> whole gradient, of these rows of every column."""
    loss = ObjectiveLoss(model, objective)
    loss.head.double()
    loss._noise.set(0.0)
    texts = max(2, objective.texts)
    columns = [LINES[i::texts][rows] for i in range(texts)]
    terms = loss([dict(model.preprocess(column)) for column in columns])
    sum(terms.values()).backward()
    found = {
        name: p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad
        for name, p in model.named_parameters()
        if p.grad is not None
    }
    return {name: float(value.detach()) for name, value in terms.items()}, found


def divided(folder, out, name):
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    model = SentenceTransformer(str(folder), device="cpu").double()
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model[0].model.encoder.layer:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    local = sum(p.to_local().numel() for p in model.parameters())
    assert local < 0.6 * sum(p.numel() for p in model.parameters())
    rows = slice(dist.get_rank() * 4, dist.get_rank() * 4 + 4)
    found = gradients(model, OBJECTIVES[name], rows)
    torch.save(found, out / f"{dist.get_rank()}.pt")


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", OBJECTIVES)
def test_divided_weights_get_the_gradient_of_whole_ones(toy_model, tmp_path, name):
    """Every process has its rows of the batch, and a part of each weight."""
    run_together(2, divided, toy_model, tmp_path, name)
    model = SentenceTransformer(str(toy_model), device="cpu").double()
    terms, whole = gradients(model, OBJECTIVES[name], slice(8))
    for rank in (0, 1):
        same, found = torch.load(tmp_path / f"{rank}.pt")
        assert same == pytest.approx(terms, rel=1e-12)
        assert found.keys() >= whole.keys()
        for parameter, gradient in whole.items():
            torch.testing.assert_close(found[parameter], gradient, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("name", ["FSDP", "DEEPSPEED"])
def test_train_refuses_what_would_divide_its_weights(config, monkeypatch, name):
    monkeypatch.setenv(f"ACCELERATE_USE_{name}", "true")
    with pytest.raises(UserError, match=f"asks for {name}"):
        train(config)
    assert not config.output.exists()
