"""The steps: order, resumption, guards, adapters, parts of a batch, and many processes equal to one."""

import functools
import math
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from loops import CONFIG, SETTINGS, make_loop, of_each_kind, save_clean_terms, small, views_of
from toy import write_toy_model
from warm import run_together

from isospace.config import objective_name
from isospace.encoders import adapters
from isospace.errors import UserError
from isospace.objectives import CT, PCL, ArcCSE, DiffCSE, MoCoSE, OffDropout, SimCSE, WhitenedCSE
from isospace.system.lifecycle import random_state, set_random_state
from isospace.training import checkpoint, step
from isospace.training.build import build_parts
from isospace.training.step import Diverged, backward, loss_terms, make_views


def weights(loop):
    encoder, modules = loop.training.encoder, loop.training.modules
    parts = [*encoder.parameters(), *modules.parameters(), *modules.buffers()]
    return torch.cat([p.detach().flatten() for p in parts])


def stopped_and_resumed(model, folder, config):
    """A loop that goes on after two updates of another one, and the checkpoint between them."""
    first = make_loop(model, folder, config)
    iterator = iter(first)
    next(iterator), next(iterator)
    checkpoint.save(folder / "c.pt", {**first.state(), "random": random_state()})
    torch.rand(7)
    second = make_loop(model, folder, config)
    state = checkpoint.load(folder / "c.pt")
    second.load_state(state)
    set_random_state(state["random"])
    return second, state


@pytest.mark.parametrize("name", of_each_kind())
def test_every_objective_trains_and_resumes_bit_for_bit(toy_model, tmp_path, name):
    objective = small(name)
    config = replace(CONFIG, **({"objective": objective} | SETTINGS.get(name, {})))
    whole = make_loop(toy_model, tmp_path, config)
    before = weights(whole)
    steps = list(whole)
    assert [s.step for s in steps] == [1, 2, 3, 4]
    assert all(math.isfinite(s.loss) and s.gradient_norm > 0 for s in steps)
    assert not torch.equal(before, weights(whole))

    resumed, _ = stopped_and_resumed(toy_model, tmp_path, config)
    assert [s.step for s in resumed] == [3, 4]
    assert torch.equal(weights(whole), weights(resumed))


@pytest.mark.parametrize("objective", [PCL(peer="frozen"), DiffCSE(), MoCoSE()], ids=objective_name)
def test_a_checkpoint_has_no_network_that_never_changes(tmp_path, objective):
    model = write_toy_model(tmp_path / "model", masked_words=True)
    config = replace(CONFIG, objective=objective)
    whole = make_loop(model, tmp_path, config)
    before = {name: x.clone() for name, x in whole.training.modules.state_dict().items()}
    list(whole)
    resumed, saved = stopped_and_resumed(model, tmp_path, config)
    left_out = before.keys() - saved["auxiliaries"].keys()
    assert bool(left_out) != isinstance(objective, MoCoSE)  # whose copy follows the encoder
    list(resumed)
    after = resumed.training.modules.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in left_out)
    assert torch.equal(weights(whole), weights(resumed))


def test_inputs_are_the_tokens_of_the_batch(toy_model, tmp_path):
    """Of the sentence, and as an edit draws it: the same again for the same batch."""
    loop = make_loop(toy_model, tmp_path, replace(CONFIG, objective=small("diffcse")))
    original, *masked = views_of(loop, loop.training.batches.batch(3))[0].inputs
    batches = loop.training.batches
    expected = batches.tokens[0].batch(batches.order.batch(3))
    for ids, mask, row in zip(original.ids, original.mask, expected, strict=True):
        assert ids[mask.bool()].tolist() == row.tolist()
    mask_id = loop.training.encoder.tokenizer.mask_token_id
    for tokens in masked:
        assert torch.equal(tokens.mask, original.mask)
        assert (tokens.ids == mask_id).any()
        assert ((tokens.ids == original.ids) | (tokens.ids == mask_id)).all()
    assert not torch.equal(masked[0].ids, masked[1].ids)
    again = views_of(loop, 3)[0].inputs
    assert all(torch.equal(a.ids, b.ids) for a, b in zip((original, *masked), again, strict=True))


def test_every_sentence_once_an_epoch_and_another_order_in_the_next(toy_model, tmp_path):
    order = make_loop(toy_model, tmp_path, CONFIG).training.batches.order
    epochs = np.split(np.concatenate([order.batch(number) for number in range(10)]), 2)
    assert all(sorted(rows) == list(range(40)) for rows in epochs)
    assert not np.array_equal(*epochs)


def test_accumulation_is_the_mean_over_batches(toy_model, tmp_path):
    config = replace(CONFIG, objective=SimCSE(head="none"))
    single = make_loop(toy_model, tmp_path, config)
    double = make_loop(toy_model, tmp_path, replace(config, accumulate=2))
    gradients = []
    for loop, number in ((single, 0), (single, 1), (double, 0)):
        loop.training.encoder.noise.set(0.0)
        backward(loop.training, number)
        words = loop.training.encoder.model[0].model.embeddings.word_embeddings
        gradients.append(words.weight.grad.clone())
        loop.training.optimizer.zero_grad()
    assert torch.allclose(gradients[2], (gradients[0] + gradients[1]) / 2, atol=1e-7)
    assert double.sentences_per_step == 16


def test_an_encoder_without_dropout_is_refused(encoder):
    encoder.noise.set(0.0)
    with pytest.raises(UserError, match=r"identical.*`dropout` 0\.1"):
        build_parts(CONFIG, encoder)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e9])
def test_divergence_names_step_and_term(toy_model, tmp_path, value, monkeypatch):
    loop = make_loop(toy_model, tmp_path, CONFIG)
    steps = iter(loop)
    next(steps)
    before = weights(loop)
    original = step.loss_terms
    monkeypatch.setattr(
        step, "loss_terms", lambda *of: {k: v * 0 + value for k, v in original(*of).items()}
    )
    with pytest.raises(Diverged, match="step 2: info_nce") as caught:
        next(steps)
    assert (caught.value.step, caught.value.term) == (2, "info_nce")
    assert torch.equal(before, weights(loop))


def test_every_network_computes_in_the_precision_of_the_run(toy_model, tmp_path):
    """Towers that base model equal give equal vectors, in bf16 too."""
    loop = make_loop(toy_model, tmp_path, replace(CONFIG, objective=small("ct")), precision="bf16")
    first, second = views_of(loop, 0)[0].encoded
    assert torch.equal(first, second)
    with torch.no_grad():
        batch, views = loop.training.batches.batch(0), loop.training.config.objective.views[:1]
        exact = torch.stack(loop.training.encoder(batch, views))[0]
    assert not torch.equal(first, exact)


@pytest.mark.parametrize("name", ["whitenedcse", "mocose"])
def test_timing_leaves_no_trace(toy_model, tmp_path, name):
    """In weights, moments, queues, copies that follow, or random states."""
    config = replace(CONFIG, objective=small(name))
    timed, plain = (make_loop(toy_model, tmp_path, config) for _ in range(2))
    state = random_state()
    assert timed.seconds_per_step() > 0
    set_random_state(state)
    list(timed)
    set_random_state(state)
    list(plain)
    assert torch.equal(weights(timed), weights(plain))


@pytest.fixture(scope="module")
def by_processes(request, toy_model, tmp_path_factory):
    """What each of some processes makes of the objectives that are tested; made once."""
    tests = [one for one in request.session.items if "several_processes_equal" in one.name]
    names = tuple(dict.fromkeys(one.callspec.params["name"] for one in tests))
    # In float32 rounding is what the processor's kernels make of it.
    dtype, usual = torch.float64, torch.get_default_dtype()

    @functools.cache
    def found(count):
        folder = tmp_path_factory.mktemp("processes")
        if count == 1:
            save_clean_terms(toy_model, folder, dtype, names)
            torch.set_default_dtype(usual)
        else:
            run_together(count, save_clean_terms, toy_model, folder, dtype, names)
        return [torch.load(folder / f"{rank}.pt") for rank in range(count)]

    return found


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", of_each_kind())
def test_several_processes_equal_one(by_processes, name, count):
    """Loss and gradient of W x B/W sentences are those of 1 x B (design contract 3)."""
    terms, grads = by_processes(1)[0][name]
    total = torch.stack([gradient.norm() for gradient in grads.values()]).norm()
    for process in by_processes(count):
        theirs, their_grads = process[name]
        assert theirs == pytest.approx(terms, rel=1e-13, abs=1e-14)
        assert their_grads.keys() == grads.keys()
        for parameter, gradient in grads.items():
            assert gradient.dtype == torch.float64
            gap = (their_grads[parameter] - gradient).norm()
            # Whitening undoes the last bias: its gradient is rounding, and has no relative error.
            assert gap < 1e-12 * gradient.norm() + 1e-14 * total, parameter


ADAPTERS = replace(CONFIG, lora=4, learning_rate=1e-2)
OF_ADAPTERS = {
    "clean and edited views": {"objective": ArcCSE()},
    "pairs": {"views": "pairs", "objective": WhitenedCSE(num_views=3, groups=4)},
    "in passes": {"pass_tokens": 60, "views": "pairs"},
    "a momentum copy": {"objective": small("mocose")},
    "another tower": {"objective": small("ct")},
    "a discriminator": {"objective": small("diffcse")},
    "a template": {"objective": small("promptbert")},
    "a decoder": {"objective": small("tsdae")},
    "spans": {"objective": small("declutr")},
}


@pytest.mark.parametrize("more", OF_ADAPTERS.values(), ids=OF_ADAPTERS)
@pytest.mark.parametrize("precision", ["no", pytest.param("bf16", marks=pytest.mark.exhaustive)])
def test_only_adapters_move(toy_model, tmp_path, more, precision):
    loop = make_loop(toy_model, tmp_path, replace(ADAPTERS, **more), precision=precision)
    before = deepcopy(loop.training.encoder.model.state_dict())
    assert len(list(loop)) == 4
    after = loop.training.encoder.model.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert {name for name in before if adapters.OUT in name and ".layer." in name} <= moved
    networks = [part for part in loop.training.auxiliaries.values() if hasattr(part, "encoder")]
    named = [pair for network in networks for pair in network.encoder.named_parameters()]
    trained = {name for name, parameter in named if parameter.requires_grad}
    assert bool(trained) == isinstance(more.get("objective"), CT)  # the other tower
    assert all(adapters.IN in name or adapters.OUT in name for name in moved | trained)


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
def test_without_noise_the_parts_of_a_batch_have_its_gradient(toy_model, tmp_path, objective, more):
    config = replace(CONFIG, objective=objective, **more)
    found = []
    for tokens in (None, TOKENS):
        loop = make_loop(toy_model, tmp_path, replace(config, pass_tokens=tokens))
        loop.training.encoder.double()
        loop.training.head.double()
        loop.training.encoder.noise.set(0.0)
        found.append((backward(loop.training, 0)[0], gradients(loop)))
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
    encoder, views = loop.training.encoder, loop.training.plan.views
    passed = [torch.stack(encoder(batch.rows(rows), views)) for rows in parts]
    vectors = torch.cat(passed, dim=1)[:, torch.cat(parts).argsort()]
    terms = loss_terms(loop.training.config.objective, make_views(loop.training, batch, vectors))
    torch.stack(list(terms.values())).sum().backward()
    expected = gradients(loop)
    after = torch.rand(1)
    loop.training.optimizer.zero_grad()

    torch.manual_seed(5)
    passes = []
    encoder.register_forward_pre_hook(lambda *_: passes.append(1))
    again = backward(loop.training, 0)[0]
    assert len(passes) == 2 * len(parts), "a part is encoded again, because nothing of it is kept"
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
