import numpy as np
import pytest
import torch
from torch import nn
from toy import sentences

from isospace.encoders import fast
from isospace.encoders.loading import as_encoder, load_encoder
from isospace.encoders.modules import pooling_modules
from isospace.encoders.saving import cosines
from isospace.encoders.settings import POOLINGS, EncoderSettings, Prompts
from isospace.encoders.tokenisation import Batch
from isospace.views import View

TEXTS = ["the cat sat", "a big red house runs over the river in the night", "x"]


def one_batch(encoder, texts=TEXTS):
    return encoder.tokens.collate(encoder.tokens.ids(texts))


def test_clean_views_are_bit_identical_and_noisy_ones_differ(encoder):
    plan = [View(), View(dropout=0.0), View(), View(dropout=0.3)]
    first, second = (encoder(one_batch(encoder), plan) for _ in range(2))
    assert [view.shape for view in first] == [(len(TEXTS), 32)] * 4
    assert torch.equal(first[1], second[1])
    assert torch.equal(first[1], encoder(one_batch(encoder), [View(dropout=0.0)])[0])
    for noisy in (0, 2, 3):
        assert not torch.equal(first[noisy], second[noisy])
    assert not torch.equal(first[0], first[2])


def test_views_of_one_text_are_one_pass_over_copies(encoder):
    """What the noise hits, row by row: nothing else may move when examples get several texts."""
    batch = one_batch(encoder)
    torch.manual_seed(0)
    views = encoder(batch, [View(), View(0.0), View()])
    torch.manual_seed(0)
    copies = Batch(batch.input_ids.repeat(2, 1), batch.attention_mask.repeat(2, 1))
    (noisy,) = encoder(copies, [View()])
    (clean,) = encoder(batch, [View(0.0)])
    assert torch.equal(torch.stack(views), torch.stack([noisy[:3], clean, noisy[3:]]))


def test_each_view_is_made_from_its_text(encoder):
    texts = [sentences(4, seed) for seed in range(3)]
    ids = [row for column in texts for row in encoder.tokens.ids(column)]
    batch = encoder.tokens.collate(ids, sources=3)
    assert len(batch) == 4
    encoder.noise.set(0.0)
    plan = [View(text=2), View(), View(text=1), View(text=2)]
    views = np.stack([v.detach().numpy() for v in encoder(batch, plan)])
    for view, row in zip(plan, views, strict=True):
        assert np.allclose(row, encoder.embed(texts[view.text]), atol=1e-6)
    passes = []  # the number of texts of each
    encoder.model[1].register_forward_hook(
        lambda *call: passes.append(len(call[-1]["sentence_embedding"]))
    )
    encoder(batch, [View(), View(text=1), View(0.3, text=2), View(text=2)])
    assert passes == [12, 4]


@pytest.mark.parametrize("rate", [0.05, 0.9])
def test_rate_of_a_view_is_the_rate_used(encoder, rate):
    zeros, rates = [], []

    def count(module, inputs, output):
        zeros.append(float((output[inputs[0] != 0] == 0).float().mean()))

    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(count)
    attention = torch.nn.functional.scaled_dot_product_attention

    def spy(*args, dropout_p=0.0, **kwargs):
        rates.append(dropout_p)
        return attention(*args, dropout_p=dropout_p, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(fast.FAMILIES, "bert")  # its own dropout: tests/encoders/fast
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
        encoder(one_batch(encoder, sentences(64)), [View(rate)])
    assert zeros
    assert np.allclose(zeros, rate, atol=0.03)
    assert rates == [rate] * 3


def test_a_failed_pass_restores_rates_and_modes(encoder):
    def state():
        return [(m.training, getattr(m, "p", None)) for m in encoder.model.modules()]

    encoder.model.eval()
    encoder.model[0].train()
    before = state()
    encoder.model[1].register_forward_hook(lambda *_: 1 / 0)
    for rate in (None, 0.0, 0.4):
        with pytest.raises(ZeroDivisionError):
            encoder(one_batch(encoder), [View(rate)])
        assert state() == before


def test_set_rate_becomes_the_own_rate(encoder):
    encoder.noise.set(0.25)
    with encoder.noise.at(0.0), encoder.noise.at(0.5):
        assert encoder.noise.rates == (0.5,)
    assert encoder.noise.rates == (0.25,)
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        encoder.noise.set(1.0)


@pytest.mark.parametrize(("own", "other"), [("last2", "mean"), ("mean", "last2")])
def test_another_pooling_leaves_the_callers_model_as_it_is(toy_model, own, other):
    mine = load_encoder(str(toy_model), EncoderSettings(pooling=own), device="cpu").model
    before = mine.encode(sentences(3))
    encoder = as_encoder(mine, EncoderSettings(pooling=other))
    assert encoder.pooling == other
    assert np.array_equal(mine.encode(sentences(3)), before)
    assert not np.allclose(encoder.embed(sentences(3)), before, atol=1e-3)


def test_poolings_by_hand():
    """Hidden states that hold their layer's number, with one token of padding."""
    states = [torch.full((1, 3, 1), float(layer)) for layer in range(4)]
    states[3][0, :, 0] = torch.tensor([5.0, 7.0, 100.0])
    values = {}
    for name in POOLINGS:
        features = {
            "token_embeddings": states[-1],
            "all_layer_embeddings": states,
            "attention_mask": torch.tensor([[1, 1, 0]]),
        }
        for module in pooling_modules(name, 1, 3):
            features = module(features)
        values[name] = float(features["sentence_embedding"])
    assert values == {
        "cls": 5, "mean": 6, "first_last": 3.5, "embedding_last": 3, "last2": 4, "lasttoken": 7,
    }  # fmt: skip


def test_an_embedding_depends_on_its_sentence_only(encoder):
    texts = sentences(40)
    alone = np.concatenate([encoder.embed([text]) for text in texts])
    for order, tokens in ((slice(None), 64), (slice(None, None, -1), 100_000)):
        together = encoder.embed(texts[order], batch_tokens=tokens)
        assert np.allclose(together, alone[order], atol=1e-6)


def test_a_tokenizer_without_a_limit_cuts_nothing(encoder):
    encoder.model[0].tokenizer.model_max_length = int(1e30)
    encoder.model[0].model.config.max_position_embeddings = -1  # as XLNet's
    assert encoder.max_length is None
    assert len(encoder.tokens.ids(["the cat " * 100])[0]) == 202


def test_fingerprint_names_what_decides_the_ids(encoder, toy_model):
    first = encoder.tokens.fingerprint(32)
    encoder.tokens.ids(TEXTS, 8)
    assert encoder.tokens.fingerprint(32) == first
    assert encoder.tokens.fingerprint(16) != first
    assert load_encoder(str(toy_model), device="cpu").tokens.fingerprint(32) == first
    encoder = encoder.with_prompts(Prompts("query: "))
    assert encoder.tokens.fingerprint(32) != first


def test_bf16_vectors_are_float32_and_near(encoder):
    texts = sentences(40)
    exact, near = encoder.embed(texts), encoder.embed(texts, precision="bf16")
    assert near.dtype == np.float32
    assert not np.array_equal(near, exact)
    assert cosines(exact, near).min() > 0.999


def test_long_and_short_texts_pass_apart_where_that_spares_attention(encoder, monkeypatch):
    encoder.noise.set(0.0)
    texts = [f"cat {'dog ' * length}" for length in (61, 3, 58, 2, 5)]
    batch = encoder.tokens.collate([np.array(ids) for ids in encoder.tokens.ids(texts)])
    lengths = batch.attention_mask.sum(1)
    assert [lengths[rows].tolist() for rows in batch.by_length()] == [[61, 64], [5, 6, 8]]
    plan, shapes, forward = (View(dropout=0.0),), [], fast.forward

    def noting(model, ids, *rest):
        shapes.append(tuple(ids.shape))
        return forward(model, ids, *rest)

    monkeypatch.setattr(fast, "forward", noting)
    [found] = encoder(batch, plan)
    assert shapes == [(2, 64), (3, 8)]
    for row, text in enumerate(texts):
        [alone] = encoder(encoder.tokens.collate(encoder.tokens.ids([text])), plan)
        torch.testing.assert_close(found[row], alone[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("truncation_side", ["right", "left"])
@pytest.mark.parametrize("prompt", ["", "big red: "])
def test_ids_are_cut_as_the_tokenizer_truncates(encoder, truncation_side, prompt):
    encoder = encoder.with_prompts(Prompts(document=prompt))
    encoder.tokenizer.truncation_side = truncation_side
    texts = ["the cat", "the cat sat on a xyz " * 5, "big red dog reads " * 9 + "xyz"]
    whole = encoder.tokens.ids(texts, side="document")
    assert max(map(len, whole)) > 20
    for longest in (6, 12, 20):
        cut = [encoder.tokens.cut(np.array(ids), longest, "document").tolist() for ids in whole]
        assert cut == encoder.tokens.ids(texts, longest, side="document")
