"""Encoders found by name, and what cannot be loaded as one."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from toy import write_toy_model
from transformers import BertModel

import isospace
from isospace.encoders.loading import as_encoder, load_encoder, weights_hash
from isospace.encoders.places import wheel_minilm
from isospace.encoders.saving import save_model
from isospace.encoders.settings import EncoderSettings
from isospace.errors import UserError
from isospace.export.ship import export


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("./nowhere", "not a folder"),
        ("some-org/some-model", "Hub cannot be reached"),
        ("minilm", r"pip install 'isospace\[offline\]'"),
    ],
)
def test_missing_models_are_named(name, words, monkeypatch):
    monkeypatch.setattr("isospace.encoders.places.wheel_minilm", lambda: None)
    monkeypatch.setattr("isospace.encoders.places.try_to_load_from_cache", lambda *_, **__: None)
    monkeypatch.setattr(
        "isospace.encoders.places.HfApi.model_info",
        lambda *_, **__: (_ for _ in ()).throw(OSError()),
    )
    with pytest.raises(UserError, match=words) as caught:
        load_encoder(name)
    assert name in str(caught.value).lower()
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"neither modules.json .* nor config.json"):
        load_encoder(str(tmp_path))
    (tmp_path / "config.json").write_text("{broken")
    with pytest.raises(UserError, match="cannot be loaded as an encoder"):
        load_encoder(str(tmp_path))


def test_tampered_minilm_is_refused(monkeypatch):
    monkeypatch.setattr("isospace.encoders.places.MINILM_SHA256", "0" * 64)
    with pytest.raises(UserError, match="sha256"):
        wheel_minilm()


def test_half_precision_weights_are_loaded_in_float32(toy_model, tmp_path):
    folder = shutil.copytree(toy_model, tmp_path / "half")
    BertModel.from_pretrained(toy_model, dtype=torch.bfloat16).save_pretrained(folder)
    encoder = load_encoder(str(folder), device="cpu")
    assert {p.dtype for p in encoder.parameters()} == {torch.float32}


def test_weights_that_a_folder_lacks_are_the_same_in_every_process(toy_model, tmp_path):
    """A RoBERTa has no pooler on disk: one is drawn where it is loaded."""
    folder = shutil.copytree(toy_model, tmp_path / "bert")
    weights = load_file(folder / "model.safetensors")
    there = {name: tensor for name, tensor in weights.items() if "pooler" not in name}
    assert len(there) == len(weights) - 2
    save_file(there, folder / "model.safetensors", metadata={"format": "pt"})
    hashes = set()
    for seed in (1, 2):  # a process begins with a seed of its own
        torch.manual_seed(seed)
        expected = torch.rand(3)
        torch.manual_seed(seed)
        hashes.add(weights_hash(load_encoder(str(folder), device="cpu")))
        assert torch.equal(torch.rand(3), expected)
    assert len(hashes) == 1
    assert hashes != {weights_hash(load_encoder(str(toy_model), device="cpu"))}


def test_a_model_without_a_pooling_is_refused(toy_model):
    """Otherwise the first text would be a traceback."""
    with pytest.raises(UserError, match=r"none of its modules pools.*`pooling`"):
        as_encoder(SentenceTransformer(modules=[Transformer(str(toy_model))], device="cpu"))


def test_settings_that_would_not_be_followed_are_refused(toy_model, tmp_path):
    """Vectors cut by one broke every command; the other changed what is read without a word."""
    with pytest.raises(UserError, match="truncate_dim"):
        as_encoder(SentenceTransformer(str(toy_model), truncate_dim=8, device="cpu"))
    save_model(load_encoder(str(toy_model)), tmp_path / "model")
    path = tmp_path / "model" / "sentence_bert_config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(settings | {"processing_kwargs": {"text": {"max_length": 6}}}))
    with pytest.raises(UserError, match="processing_kwargs"):
        load_encoder(str(tmp_path / "model"))


def test_a_tokenizer_without_padding_is_refused(toy_model, tmp_path):
    folder = shutil.copytree(toy_model, tmp_path / "bert")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("pad_token")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match="padding token"):
        load_encoder(str(folder), device="cpu")


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_a_peft_adapter_is_to_be_merged_first(toy_model, tmp_path):
    peft = pytest.importorskip("peft")
    model = SentenceTransformer(str(toy_model), device="cpu")
    model.add_adapter(peft.LoraConfig(r=4, target_modules=["query"]))
    model.save_pretrained(str(tmp_path), create_model_card=False)
    alone = tmp_path / "alone"  # as peft writes it
    alone.mkdir()
    (alone / "adapter_config.json").write_text("{}")
    for given in (str(tmp_path), str(alone), model):
        with pytest.raises(UserError, match="a peft adapter"):
            as_encoder(given)


def test_python_users_read_what_is_assumed_in_the_log(tmp_path, caplog):
    plain = write_toy_model(tmp_path / "plain")  # no test before has loaded it
    isospace.load(str(plain))
    assert f"{plain}: a plain Hugging Face model" in caplog.text
    assert "pooling mean, texts cut to 64 tokens, no prompts of its own" in caplog.text
    export(str(plain), "st", tmp_path / "st", EncoderSettings(pooling="cls"))
    assert "pooling cls" not in caplog.text
    caplog.clear()
    assert isospace.load(str(tmp_path / "st")).encoder.pooling == "cls"
    assert "plain Hugging Face" not in caplog.text
