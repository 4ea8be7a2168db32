"""IS-BERT against a loop and against vectors of its authors' code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from golden_files import BASELINE, check, files, precisions, read, scalar, vector
from sentence_transformers import SentenceTransformer
from toy import short_run

from isospace.encoders.loading import load_encoder
from isospace.objectives.decoders import Convolutions
from isospace.objectives.heads import seeded
from isospace.objectives.is_bert import ISBERT
from isospace.training.checkpoint import load
from isospace.training.train import train
from isospace.views import TokenStates, View, Views


def test_what_is_measured_and_shipped_has_the_trained_convolutions(toy_model, toy_corpus, tmp_path):
    config = replace(
        short_run(toy_model, toy_corpus, tmp_path / "run"),
        objective=ISBERT(channels=16),
        budget=(64, "sentences"),
        precision="float32",
    )
    run = train(config).run
    sample = run.sample
    assert not run.finished.ships_base
    assert (sample.before.shape[1], sample.after.shape[1]) == (32, 48)
    shipped = SentenceTransformer(str(run.model_folder), device="cpu")
    vectors = shipped.encode(list(sample.sentences))
    assert np.allclose(sample.after, vectors, atol=2e-3)  # kept in half precision
    assert np.allclose(load_encoder(str(run.folder)).embed(sample.sentences), vectors, atol=1e-5)

    # As in training, with the convolutions as the checkpoint has them.
    state = load(run.last_checkpoint)
    encoder = load_encoder(str(toy_model), device="cpu")
    encoder.model.load_state_dict(state["encoder"])
    layers = config.objective.build_auxiliaries(encoder, 1)["convolutions"]
    named = {n.removeprefix("convolutions."): w for n, w in state["auxiliaries"].items()}
    layers.load_state_dict(named)
    batch = encoder.tokens.collate(encoder.tokens.ids(sample.sentences))
    with torch.no_grad():
        [states] = encoder(batch, [View(0.0, read="tokens")])
        local = layers(states, batch.attention_mask)
        sentence = local.sum(1) / batch.attention_mask.sum(1, keepdim=True)
    assert np.allclose(sentence.numpy(), vectors, atol=1e-5)


@precisions
@pytest.mark.parametrize("key", ["official", "official_pads_zeroed", "paper_relu"])
@files("baselines/isbert_conv")
def test_convolutions_are_the_authors(path, key, precision):
    file = read(path)
    dim, kernels = file["h"].shape[2], file["kernel_sizes"].tolist()
    dtype = torch.float64 if precision == "f64" else torch.float32
    relu = key == "paper_relu"
    convolutions = Convolutions(
        dim, int(file["channels"]), kernels, relu=relu, generator=seeded(0)
    ).to(dtype)
    for kernel, layer in zip(kernels, convolutions.layers, strict=True):
        layer.load_state_dict({n: file[f"conv{kernel}_{n}"] for n in ("weight", "bias")})
    mask, objective = file["mask"], ISBERT(variant="paper" if relu else "released")

    def loss(h):
        # What the encoder gives is zero at the padding; the release lets it leak.
        states = h if key == "official" else h * mask.unsqueeze(-1)
        tokens = TokenStates(states, mask)
        encoded = states.mean(1).unsqueeze(0)
        found = objective(Views(encoded, encoded, {0: tokens}, {"convolutions": convolutions}))
        own, others = found.values()
        if precision == "f64":
            scalar(-own, file[f"{key}_e_pos_f64"], 1e-10)
            scalar(others, file[f"{key}_e_neg_f64"], 1e-10)
            local = convolutions(tokens.states, tokens.mask)
            vector(local, file[f"{key}_local_f64_as_f32"], 1e-6)
            vector(local.sum(1) / mask.sum(1, keepdim=True), file[f"{key}_global_f64"], 1e-10)
        return own + others

    check(file, f"{key}_", precision, {"h": file["h"]}, loss, rel=BASELINE)
    for kernel, layer in zip(kernels, convolutions.layers, strict=True):
        for name, parameter in layer.named_parameters():
            expected = file.get(f"{key}_grad_conv{kernel}_{name}_{precision}")
            if expected is not None:
                vector(parameter.grad, expected, 1e-8 if precision == "f64" else 1e-5)
