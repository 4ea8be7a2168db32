"""Gradient caching: a batch in parts has the gradient of the whole batch, under the same noise."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from loops import CONFIG, make_loop

from isospace.objectives import OffDropout, SimCSE, WhitenedCSE
from isospace.training.step import backward, loss_terms, make_views

TOKENS = 60
"""Of a batch of eight sentences of 10 to 16 tokens, in two views: at most two sentences a part."""


def gradients(loop):
    parts = [*loop.training.encoder.named_parameters(), *loop.training.modules.named_parameters()]
    return {name: p.grad.clone() for name, p in parts if p.grad is not None}


@pytest.mark.parametrize(
    ("objective", "more"),
    [
        (SimCSE(), {}),
        (SimCSE(), {"lora": 4}),
        (OffDropout(), {"accumulate": 2}),
        (WhitenedCSE(num_views=3, groups=4), {"accumulate": 2}),
    ],
)
def test_without_noise_it_is_the_gradient_of_the_whole_batch(toy_model, tmp_path, objective, more):
    config = replace(CONFIG, objective=objective, **more)
    found = []
    for tokens in (None, TOKENS):
        loop = make_loop(toy_model, tmp_path, replace(config, pass_tokens=tokens))
        loop.training.encoder.double()
        loop.training.head.double()
        loop.training.encoder.noise.set(0.0)
        found.append((backward(loop.training, 0).terms, gradients(loop)))
    (terms, whole), (same, parts) = found
    assert same == pytest.approx(terms, rel=1e-9)
    assert parts.keys() == whole.keys()
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, rtol=1e-9, atol=1e-12, msg=name)


def test_the_noise_of_the_second_pass_is_that_of_the_first(toy_model, tmp_path):
    """The gradient of a batch whose parts passed once, all of them remembered."""
    loop = make_loop(toy_model, tmp_path, replace(CONFIG, pass_tokens=TOKENS))
    loop.training.encoder.double()
    loop.training.head.double()
    batch = loop.training.batches.batch(0)
    parts = batch.parts(TOKENS * batch.sources // 2)
    assert len(parts) > 3
    torch.manual_seed(5)
    passed = [
        torch.stack(loop.training.encoder(batch.rows(rows), loop.training.plan.views))
        for rows in parts
    ]
    vectors = torch.cat(passed, dim=1)[:, torch.cat(parts).argsort()]
    terms = loss_terms(loop.training, make_views(loop.training, batch, vectors))
    torch.stack(list(terms.values())).sum().backward()
    expected = gradients(loop)
    after = torch.rand(1)
    loop.training.optimizer.zero_grad()

    torch.manual_seed(5)
    again = backward(loop.training, 0).terms
    assert torch.rand(1) == after
    assert again == {name: float(term.detach()) for name, term in terms.items()}
    found = gradients(loop)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-12, msg=name)


def test_a_part_has_so_many_tokens_and_texts_of_like_length(toy_model, tmp_path):
    batch = make_loop(toy_model, tmp_path, CONFIG).training.batches.batch(0)
    parts = batch.parts(TOKENS)
    lengths = batch.attention_mask.sum(1)
    assert sorted(torch.cat(parts).tolist()) == list(range(8))
    assert all(lengths[rows].sum() <= TOKENS for rows in parts)
    assert torch.cat([lengths[rows] for rows in parts]).diff().min() >= 0
    assert [rows.tolist() for rows in batch.parts(1)] == [[row] for row in torch.cat(parts)]
