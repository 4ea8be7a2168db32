"""Masked-language models of an encoder's vocabulary; states with something changed on the way."""

import pytest
import torch
from model_families import make
from toy import sentences, write_toy_model

from isospace.encoders.loading import load_encoder
from isospace.encoders.tokenisation import EmbeddingChanges, changed_embeddings, embedding_refusal


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = write_toy_model(tmp_path_factory.mktemp("masked") / "bert", masked_words=True)
    return load_encoder(str(folder), device="cpu")


def test_logits_are_those_of_the_checkpoint(encoder):
    batch = encoder.tokens.collate(encoder.tokens.ids(sentences(3)))
    before = torch.get_rng_state()
    model = encoder.language_model().train()
    assert torch.equal(torch.get_rng_state(), before)
    logits = model(batch.input_ids, batch.attention_mask)
    assert logits.shape == (*batch.input_ids.shape, len(encoder.tokenizer))
    states = encoder.token_states(batch.input_ids, batch.attention_mask, 0.0)
    head = model.head()
    transformed = states @ head["dense.weight"].T + head["dense.bias"]
    transformed = torch.nn.functional.layer_norm(
        torch.nn.functional.gelu(transformed), states.shape[-1:], eps=1e-12
    )
    expected = transformed @ encoder.word_embeddings.weight.T + head["bias"]
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    assert not logits.requires_grad


def test_an_encoder_alone_is_refused(toy_model):
    encoder = load_encoder(str(toy_model), device="cpu")
    with pytest.raises(ValueError, match=r"no trained head for masked words \(cls.* is missing\)"):
        encoder.language_model()


def test_functions_stand_behind_the_embeddings_and_every_attention(encoder):
    batch = encoder.tokens.collate(encoder.tokens.ids(sentences(2)))
    seen = []

    def note(x):
        seen.append(x.shape)
        return x

    attended = [note] * len(encoder.attentions)
    args = batch.input_ids, batch.attention_mask, 0.0
    states = encoder.token_states(*args, embedded=note, attended=attended)
    assert torch.equal(states, encoder.token_states(*args))
    assert seen == [(*batch.input_ids.shape, encoder.dim)] * 4  # three layers
    changed = encoder.token_states(*args, embedded=torch.neg)
    assert not torch.allclose(changed, states, atol=0.1)
    changed = encoder.token_states(*args, attended=[*attended[1:], torch.neg])
    assert not torch.allclose(changed, states, atol=0.1)


def test_a_mask_of_pairs_says_what_each_token_sees(encoder):
    ids = torch.tensor(encoder.tokens.ids(["the cat sat on the mat"]))
    causal = torch.ones(1, ids.shape[1], ids.shape[1]).long().tril()
    states = encoder.token_states(ids, causal, 0.0)
    for length in range(1, ids.shape[1] + 1):
        beginning = encoder.token_states(ids[:, :length], causal[:, :length, :length], 0.0)
        torch.testing.assert_close(states[:, :length], beginning, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["roberta", "mpnet", "distilbert"])
def test_unchanged_positions_are_the_models_own(family):
    """Two of the families begin to count behind the padding."""
    model = make(family)
    assert embedding_refusal(model) is None
    ids = torch.tensor([[4, 9, 8, 7, 5], [4, 8, 5, 1, 1]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    kept = torch.ones(2, 5, 24, dtype=torch.bool)
    places = torch.arange(5).repeat(2, 1)
    with torch.no_grad():
        expected = model(ids, attention_mask=mask).last_hidden_state
        with changed_embeddings(model, EmbeddingChanges(places, kept)):
            found = model(ids, attention_mask=mask).last_hidden_state
        with changed_embeddings(model, EmbeddingChanges(places.flip(1), kept)):
            other = model(ids, attention_mask=mask).last_hidden_state
        after = model(ids, attention_mask=mask).last_hidden_state
    real = mask.bool()
    assert torch.allclose(found[real], expected[real], atol=1e-6)
    assert not torch.allclose(other[real], expected[real], atol=1e-3)
    assert torch.equal(after, expected)


def test_rotary_positions_are_refused():
    assert "ModernBertModel" in embedding_refusal(make("modernbert"))
