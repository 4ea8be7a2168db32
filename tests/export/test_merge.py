"""`isospace merge`: two folders and a share, a folder that sentence-transformers loads."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from toy import sentences, write_toy_model

from isospace.cli import main
from isospace.encoders.loading import load_encoder
from isospace.encoders.saving import save_model
from isospace.errors import UserError
from isospace.export.merge import require_alike


@pytest.fixture
def trained(toy_model, tmp_path):
    """Two models that could have been trained from the toy."""
    folders = []
    for seed in range(2):
        encoder = load_encoder(str(toy_model), device="cpu")
        draws = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weights in encoder.parameters():
                weights += 0.1 * torch.randn(weights.shape, generator=draws)
        save_model(encoder, tmp_path / f"trained{seed}", "---\nlicense: mit\n---\n")
        folders.append(str(tmp_path / f"trained{seed}"))
    return folders


def test_the_folder_has_the_mean_of_the_weights(toy_model, trained, tmp_path, capsys):
    to = tmp_path / "merged"
    words = ["merge", str(toy_model), *trained, "--share", "0.5", "--to", str(to), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["gap"] <= 1e-6
    merged = SentenceTransformer(str(to), device="cpu").state_dict()
    start, *others = (load_encoder(f, device="cpu").model for f in (str(toy_model), *trained))
    for name, weights in start.state_dict().items():
        expected = weights / 2 + sum(other.state_dict()[name] for other in others) / 4
        torch.testing.assert_close(merged[name], expected)
    card = (to / "README.md").read_text()
    assert "0.5 of the base model's and 0.5 of the mean of these 2" in card
    assert "  - `trained0`, licence: mit\n  - `trained1`, licence: mit\n" in card
    assert f"Base model: `{toy_model.name}`; pooling: mean" in card
    assert str(tmp_path) not in card


def test_at_the_ends_the_vectors_are_those_of_start_and_model(toy_model, trained, tmp_path):
    for share, end in (("0", str(toy_model)), ("1", trained[0])):
        to = str(tmp_path / f"share{share}")
        assert main(["merge", str(toy_model), trained[0], "--share", share, "-o", to]) == 0
        ours, theirs = (load_encoder(f, device="cpu").embed(sentences(5)) for f in (to, end))
        assert np.array_equal(ours, theirs)
    assert (
        "0 of the base model's and 1 of this model's:"
        in (tmp_path / "share1/README.md").read_text()
    )


def test_what_cannot_be_merged_is_refused_and_named(toy_model, trained, tmp_path, capsys):
    def refused(*words: str) -> str:
        to = ["--to", str(tmp_path / "merged")] if "--to" not in words else []
        assert main(["merge", str(toy_model), *words, *to]) == 2
        assert not (tmp_path / "merged").exists()
        return " ".join(capsys.readouterr().err.split())

    wide = str(write_toy_model(tmp_path / "wide", intermediate_size=96))
    assert "setting intermediate_size 64 and 96" in refused(wide)
    assert "--share 1.5: expected a number from 0" in refused(trained[0], "--share", "1.5")
    assert "nothing to merge" in refused()
    (tmp_path / "file").touch()
    assert "cannot be written" in refused(trained[0], "--to", str(tmp_path / "file" / "model"))
    there = trained[1]
    assert f"--to {there}: exists already" in refused(trained[0], "--to", there)


def test_models_that_are_read_in_other_ways_are_refused(toy_model):
    start, other = (load_encoder(str(toy_model), device="cpu") for _ in range(2))
    require_alike(start, other)
    other.set_pooling("cls")
    with pytest.raises(UserError, match="pooling mean and cls"):
        require_alike(start, other)
    other = load_encoder(str(toy_model), device="cpu", query_prompt="query: ")
    with pytest.raises(UserError, match="prompts none and queries 'query: '"):
        require_alike(start, other)
    other = load_encoder(str(toy_model), device="cpu")
    other.model[0].model.config.num_attention_heads = 2
    with pytest.raises(UserError, match="num_attention_heads 4 and 2"):
        require_alike(start, other)
    other = load_encoder(str(toy_model), device="cpu")
    other.tokenizer.add_tokens(["zebra"])
    with pytest.raises(UserError, match=r"tokenizer [0-9a-f]{8} and [0-9a-f]{8}"):
        require_alike(start, other)
