"""Gradient caching: a batch in parts has the gradient of the whole batch, under the same noise."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from loops import CONFIG, make_loop

from isospace.errors import UserError
from isospace.objectives import DiffCSE, OffDropout, SimCSE, WhitenedCSE
from isospace.training.loop import require_plain_passes

TOKENS = 60
"""Of a batch of eight sentences of 10 to 16 tokens, in two views: at most two sentences a part."""


def gradients(loop):
    parts = [*loop.encoder.named_parameters(), *loop._beside.named_parameters()]
    return {name: p.grad.clone() for name, p in parts if p.grad is not None}


@pytest.mark.parametrize("objective", [SimCSE(), OffDropout(), WhitenedCSE(num_views=3, groups=4)])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_without_noise_it_is_the_gradient_of_the_whole_batch(
    toy_model, tmp_path, objective, accumulate
):
    config = replace(CONFIG, objective=objective, accumulate=accumulate)
    found = []
    for tokens in (None, TOKENS):
        loop = make_loop(toy_model, tmp_path, replace(config, pass_tokens=tokens))
        loop.encoder.double()
        loop.head.double()
        loop.encoder.noise.set(0.0)
        found.append((loop._backward(), gradients(loop)))
    (terms, whole), (same, parts) = found
    assert same == pytest.approx(terms, rel=1e-9)
    assert parts.keys() == whole.keys()
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, rtol=1e-9, atol=1e-12, msg=name)


def test_the_noise_of_the_second_pass_is_that_of_the_first(toy_model, tmp_path):
    """The gradient of a batch whose parts passed once, all of them remembered."""
    loop = make_loop(toy_model, tmp_path, replace(CONFIG, pass_tokens=TOKENS))
    loop.encoder.double()
    loop.head.double()
    batch = loop._micro_batch(0)
    parts = batch.parts(TOKENS * batch.texts // 2)
    assert len(parts) > 3
    torch.manual_seed(5)
    passed = [torch.stack(loop.encoder(batch.rows(rows), loop.plan.views)) for rows in parts]
    vectors = torch.cat(passed, dim=1)[:, torch.cat(parts).argsort()]
    terms = loop._terms(batch, vectors)
    torch.stack(list(terms.values())).sum().backward()
    expected = gradients(loop)
    after = torch.rand(1)
    loop.optimizer.zero_grad()

    torch.manual_seed(5)
    again = loop._backward_by_passes(batch)
    assert torch.rand(1) == after
    assert all(torch.equal(again[name], term) for name, term in terms.items())
    found = gradients(loop)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-12, msg=name)


def test_a_part_has_so_many_tokens_and_texts_of_like_length(toy_model, tmp_path):
    batch = make_loop(toy_model, tmp_path, CONFIG)._micro_batch(0)
    parts = batch.parts(TOKENS)
    lengths = batch.attention_mask.sum(1)
    assert sorted(torch.cat(parts).tolist()) == list(range(8))
    assert all(lengths[rows].sum() <= TOKENS for rows in parts)
    assert torch.cat([lengths[rows] for rows in parts]).diff().min() >= 0
    assert [rows.tolist() for rows in batch.parts(1)] == [[row] for row in torch.cat(parts)]


def test_an_objective_that_needs_the_batch_at_once_is_refused():
    config = replace(CONFIG, objective=DiffCSE(), pass_tokens=100)
    with pytest.raises(UserError, match=r"`pass_tokens` 100: diffcse .* needs a batch at once"):
        require_plain_passes(config)
