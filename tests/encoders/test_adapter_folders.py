"""Folders of peft adapters: they load with the adapter merged, and ship as whole models."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import replace

import numpy as np
import peft
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from stranger import save_vectors
from toy import sentences, short_run, write_toy_model
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM
from warm import WarmProcess

from isospace.encoders.adapters import has_adapters
from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.export.merge import merge_models
from isospace.export.ship import export
from isospace.training.train import train
from isospace.whiten.whiten import whiten_model
from isospace.whiten.whiten_config import WhitenConfig

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

TEXTS = sentences(5)
LORA = {"r": 4, "lora_alpha": 8}
KINDS = {
    "lora": peft.LoraConfig(**LORA, target_modules=["query", "value"]),
    "words": peft.LoraConfig(**LORA, target_modules=["word_embeddings", "query"]),
    "some words": peft.LoraConfig(**LORA, target_modules=["query"], trainable_token_indices=[5, 6]),
    "whole modules": peft.LoraConfig(**LORA, target_modules=["query"], modules_to_save=["key"]),
    "biases": peft.LoraConfig(**LORA, target_modules=["query"], bias="all"),
    "ia3": peft.IA3Config(target_modules=["key", "value"], feedforward_modules=[]),
}
DORA = peft.LoraConfig(**LORA, use_dora=True, target_modules="all-linear")


def move(model):
    """Something of a size that training could have come to."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))


def vectors(model):
    return model.encode(TEXTS, show_progress_bar=False)


@pytest.fixture
def base(tmp_path):
    return write_toy_model(tmp_path / "base")


def write_st(base, folder, kind="lora"):
    """A folder of sentence-transformers, read at [CLS], and its vectors there."""
    first = SentenceTransformer(str(base), device="cpu")[0]
    model = SentenceTransformer(modules=[first, Pooling(32, "cls")], device="cpu")
    model.add_adapter(copy.deepcopy(KINDS[kind]))
    move(model)
    model.eval().save_pretrained(str(folder), create_model_card=False)
    return vectors(model)


def write_peft(base, folder, settings=KINDS["lora"]):
    """A folder of peft alone, and the means over tokens of the last states that peft makes."""
    model = peft.get_peft_model(AutoModel.from_pretrained(base), copy.deepcopy(settings))
    move(model)
    model.save_pretrained(folder)
    batch = AutoTokenizer.from_pretrained(base)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model.eval()(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    return ((states * mask).sum(1) / mask.sum(1)).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_sentence_transformers_adapters_are_merged(base, tmp_path, kind):
    expected = write_st(base, tmp_path / "adapter", kind)
    encoder = load_encoder(str(tmp_path / "adapter"), device="cpu")
    assert np.allclose(encoder.embed(TEXTS), expected, atol=1e-6)
    assert encoder.pooling == "cls"
    assert not has_adapters(encoder)
    assert all(weights.requires_grad for weights in encoder.parameters())


@pytest.mark.parametrize("settings", [*KINDS.values(), DORA], ids=[*KINDS, "dora"])
def test_peft_folders_are_their_base_with_the_adapter(base, tmp_path, settings):
    expected = write_peft(base, tmp_path / "adapter", settings)
    encoder = load_encoder(str(tmp_path / "adapter"), "mean", device="cpu")
    assert np.allclose(encoder.embed(TEXTS), expected, atol=1e-6)
    assert not has_adapters(encoder)


def test_a_peft_folder_is_read_as_its_base_is(base, tmp_path):
    """Pooling and prompts are those of a base of sentence-transformers."""
    write_st(base, tmp_path / "first")
    export(str(tmp_path / "first"), "st", tmp_path / "whole", query_prompt="query: ")
    write_peft(tmp_path / "whole", tmp_path / "adapter")
    encoder = load_encoder(str(tmp_path / "adapter"), device="cpu")
    assert (encoder.pooling, encoder.prompts.query) == ("cls", "query: ")


def test_weights_of_half_precision_keep_what_the_adapter_adds(base, tmp_path):
    """bfloat16 would round an update of 0.1 % away."""
    AutoModel.from_pretrained(base).bfloat16().save_pretrained(base)
    AutoModel.from_pretrained(base, dtype=torch.float32).save_pretrained(tmp_path / "float32")
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "float32")
    expected = write_peft(tmp_path / "float32", tmp_path / "adapter")
    settings = tmp_path / "adapter" / "adapter_config.json"
    content = json.loads(settings.read_text())
    settings.write_text(json.dumps(content | {"base_model_name_or_path": str(base)}))
    found = load_encoder(str(tmp_path / "adapter"), "mean", device="cpu").embed(TEXTS)
    assert np.allclose(found, expected, atol=1e-6)


SHIPPED = ("st", "hf", "whiten", "train", "merge")


def test_what_is_shipped_loads_where_nothing_else_is(base, tmp_path, toy_corpus):
    """In a process that has neither peft nor isospace nor any other model."""
    adapter, of = tmp_path / "adapter", {name: tmp_path / name for name in SHIPPED}
    expected = dict.fromkeys(SHIPPED, write_st(base, adapter))
    text = short_run(adapter, toy_corpus, tmp_path).text
    whiten_model(WhitenConfig(text=text, model=str(adapter), output=of["whiten"]))
    # whiten leaves Accelerate in float32, in which one process then stays.
    config = short_run(adapter, toy_corpus, of["train"])
    config = replace(config, precision="float32")
    of["train"] = train(config).run.model_folder
    merge_models(adapter, adapter, 0.5, of["merge"])
    for to in ("st", "hf"):
        export(str(adapter), to, of[to])
    for name in ("whiten", "train"):
        expected[name] = load_encoder(str(of[name]), device="cpu").embed(TEXTS)
    assert not np.allclose(expected["train"], expected["st"], atol=1e-3)
    shutil.rmtree(base)
    shutil.rmtree(adapter)
    outputs = {of[name]: tmp_path / f"{name}.npy" for name in SHIPPED}
    process = WarmProcess(save_vectors, outputs, TEXTS)
    assert process.wait() == 0, process.err
    for name in SHIPPED:
        assert np.allclose(np.load(tmp_path / f"{name}.npy"), expected[name], atol=1e-5), name


@pytest.mark.parametrize("write", [write_st, write_peft])
def test_a_base_that_is_missing_is_named(base, tmp_path, write):
    write(base, tmp_path / "adapter")
    shutil.rmtree(base)
    missing = (
        f"adapter: an adapter, and its base model is missing. {base}: .*base_model_name_or_path"
    )
    with pytest.raises(UserError, match=missing):
        load_encoder(str(tmp_path / "adapter"))


@pytest.mark.parametrize("write", [write_st, write_peft])
def test_parts_that_are_missing_are_named(base, tmp_path, monkeypatch, write):
    folder = tmp_path / "adapter"
    write(base, folder)
    monkeypatch.setattr("isospace.system.extras.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs peft: pip install 'isospace\[lora\]'"):
        load_encoder(str(folder))
    monkeypatch.undo()
    settings = folder / "adapter_config.json"
    content = json.loads(settings.read_text())
    for damaged, message in [
        (json.dumps(content | {"base_model_name_or_path": None}), "names no base model"),
        ("{", "settings of an adapter"),
        ("[]", "settings of an adapter"),
    ]:
        settings.write_text(damaged)
        with pytest.raises(UserError, match=message):
            load_encoder(str(folder))
    settings.write_text(json.dumps(content))
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(UserError, match=r"but no adapter_model\.safetensors"):
        load_encoder(str(folder))


@pytest.mark.parametrize("other", ["masked words", "narrow"])
def test_an_adapter_of_other_layers_is_refused(base, tmp_path, other):
    """And not left out in silence."""
    masked = other == "masked words"
    model = write_toy_model(
        tmp_path / "other", masked_words=masked, hidden_size=32 if masked else 16
    )
    kind = BertForMaskedLM if masked else AutoModel
    adapted = peft.get_peft_model(kind.from_pretrained(model), copy.deepcopy(KINDS["lora"]))
    adapted.save_pretrained(tmp_path / "adapter")
    settings = tmp_path / "adapter" / "adapter_config.json"
    content = json.loads(settings.read_text())
    settings.write_text(json.dumps(content | {"base_model_name_or_path": str(base)}))
    with pytest.raises(UserError, match="other layers"):
        load_encoder(str(tmp_path / "adapter"))
