"""Another reading of an encoder: the vectors by hand, in a saved folder, and what is refused."""

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from loops import CONFIG
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize
from stranger import save_vectors
from toy import sentences, write_toy_roberta
from transformers import AutoModel, AutoTokenizer
from warm import WarmProcess

from isospace.corpus.lines import tokenise
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.encoders.saving import save_model
from isospace.encoders.trained_pooling import at_mask, convolved
from isospace.errors import UserError
from isospace.objectives.heads import seeded
from isospace.training.build import build_training
from isospace.training.examples import Examples
from isospace.views.edits import Template
from isospace.views.networks import Convolutions

TEMPLATE = Template(before="the text : '", after="' reads [MASK] .")
TEXTS = [*sentences(12), "", "x", "the cat " * 90, "😀 大きさ"]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def folder(request, toy_model, tmp_path_factory):
    if request.param == "bert":
        return toy_model
    return write_toy_roberta(tmp_path_factory.mktemp("toy") / "roberta")


@pytest.fixture
def encoder(folder):
    return load_encoder(str(folder), device="cpu")


def at_mask_by_hand(folder, texts):
    """The states at the mask token, of transformers alone, and how many tokens are read."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)

    def encode(text):
        return tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]

    first, last = tokenizer("")["input_ids"]
    around = [first, *encode(TEMPLATE.before)], [*encode("' reads"), tokenizer.mask_token_id]
    closing = [*encode(" ."), last]
    states, lengths = [], []
    for text in texts:
        room = 64 - len(closing) - sum(map(len, around))
        ids = [*around[0], *encode(text)[:room], *around[1], *closing]
        with torch.no_grad():
            last_states = model.eval()(input_ids=torch.tensor([ids])).last_hidden_state[0]
        states.append(last_states[-len(closing) - 1].numpy())
        lengths.append(len(ids))
    return np.array(states), lengths


def test_the_vector_is_the_state_at_the_mask_of_the_template(folder, encoder, tmp_path):
    """A saved folder gives it too, where isospace cannot be imported."""
    read = at_mask(encoder, TEMPLATE)
    by_hand, lengths = at_mask_by_hand(folder, TEXTS)
    assert max(lengths) == 64  # one is cut, and not its template
    assert np.allclose(read.embed(TEXTS), by_hand, atol=1e-5)
    assert read.pooling == "mask"
    assert read.is_fast
    save_model(read, tmp_path / "model")
    process = WarmProcess(save_vectors, {tmp_path / "model": tmp_path / "v.npy"}, TEXTS)
    assert process.wait() == 0, process.err
    assert np.allclose(np.load(tmp_path / "v.npy"), by_hand, atol=1e-5)
    again = load_encoder(str(tmp_path / "model"), device="cpu")
    assert again.pooling == "mask"
    assert weights_hash(again) == weights_hash(read) != weights_hash(encoder)
    assert np.allclose(again.embed(TEXTS), read.embed(TEXTS), atol=1e-6)


@pytest.mark.parametrize("relu", [False, True])
def test_convolutions_see_no_padding_and_are_saved(encoder, tmp_path, relu):
    layers = Convolutions(32, 8, (1, 3, 5), relu=relu, generator=seeded(0))
    read = convolved(encoder, layers)
    alone = []
    for text in TEXTS:
        tokens = torch.tensor(encoder.tokens.ids([text]))
        with torch.no_grad():
            states = encoder.token_states(tokens, torch.ones_like(tokens), 0.0)
            alone.append(layers(states, torch.ones_like(tokens))[0].mean(0))
    wanted = torch.stack(alone).numpy()
    assert np.allclose(read.embed(TEXTS, batch_tokens=4096), wanted, atol=1e-5)
    save_model(read, tmp_path / "model")
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert np.allclose(theirs.encode(TEXTS, batch_size=16), wanted, atol=1e-5)
    again = load_encoder(str(tmp_path / "model"), device="cpu")
    assert again.pooling == read.pooling
    assert again.dim == 24
    with torch.no_grad():
        layers.layers[0].weight.mul_(2)
    assert not np.allclose(read.embed(TEXTS), wanted, atol=1e-3)


def test_prompt_and_closing_normalisation_stay(folder):
    plain = load_encoder(str(folder), device="cpu")
    prompts = {"prompts": {"query": "find: "}, "default_prompt_name": "query"}
    model = SentenceTransformer(modules=[*plain.model, Normalize()], device="cpu", **prompts)
    read = at_mask(Encoder(model, "test"), TEMPLATE)
    [wanted], _ = at_mask_by_hand(folder, ["find: the cat"])
    assert np.allclose(read.embed(["the cat"])[0], wanted / np.linalg.norm(wanted), atol=1e-5)


def test_a_template_is_not_cropped_as_if_it_were_text(encoder, tmp_path):
    """The mask was cut away, and the vectors of all crops were 0."""
    lines = sentences(40)
    examples = Examples(np.repeat(np.arange(40)[:, None], 2, 1), cropped=np.ones(40, bool))
    read = at_mask(encoder, TEMPLATE)
    tokens = tokenise(lines, "40", read.tokens.ids, read.tokens.fingerprint(None), tmp_path)
    with pytest.raises(UserError, match="template"):
        build_training(CONFIG, read, [tokens, tokens], examples, Accelerator(cpu=True))


def test_a_template_that_leaves_no_room(encoder):
    encoder.model[0].tokenizer.model_max_length = 10
    with pytest.raises(ValueError, match="it reads 10 tokens, and the template takes"):
        at_mask(encoder, TEMPLATE)
