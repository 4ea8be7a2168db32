"""What is measured and shipped is read as in training: PromptBERT's mask, IS-BERT's convolutions."""

from dataclasses import replace

import numpy as np
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from toy import short_run

from isospace.encoders.loading import load_encoder
from isospace.objectives import ISBERT, PromptBERT
from isospace.training import fit as training
from isospace.training.batches import Sources
from isospace.training.checkpoint import load
from isospace.training.train import train
from isospace.views import View


def run_of(objective, toy_model, toy_corpus, folder):
    """A run, and the vectors of its sample by the shipped model, which are those measured."""
    config = short_run(toy_model, toy_corpus, folder / "run")
    budget = (64, "sentences")
    run = train(replace(config, objective=objective, budget=budget, precision="float32")).run
    assert not run.finished.ships_base
    assert objective.paper.bibtex in (run.model_folder / "README.md").read_text()
    shipped = SentenceTransformer(str(run.model_folder), device="cpu")
    vectors = shipped.encode(list(run.sample.sentences))
    assert np.allclose(run.sample.after, vectors, atol=2e-3)  # kept in half precision
    again = load_encoder(str(run.folder)).embed(run.sample.sentences)
    assert np.allclose(again, vectors, atol=1e-5)
    return run, vectors


def test_promptbert_reads_the_mask(toy_model, toy_corpus, tmp_path, monkeypatch):
    measured, run_evaluation = [], training.run_evaluation

    def spied(settings, encoder, *rest):
        measured.append((encoder.pooling, settings.max_length))
        return run_evaluation(settings, encoder, *rest)

    monkeypatch.setattr(training, "run_evaluation", spied)
    objective = PromptBERT(first="the text {} reads [MASK] .", second="{} a [MASK]")
    run, vectors = run_of(objective, toy_model, toy_corpus, tmp_path)
    assert measured == [("mean", 32), ("mask", 32 + 5), ("mask", 32 + 5)]
    encoder = load_encoder(str(toy_model), device="cpu")
    assert np.allclose(run.sample.before, encoder.embed(run.sample.sentences), atol=2e-3)

    kept = load_file(run.kept_weights)
    encoder.model.load_state_dict({name: w for name, w in kept.items() if name.startswith("0.")})
    plan = [View(0.0, edit=objective.views[0].edit, read="mask")]
    sources = Sources(plan, encoder, 0)
    ids = [np.array(row) for row in encoder.tokens.ids(run.sample.sentences)]
    [trained] = encoder(sources.batch([ids], np.arange(len(ids)), 0), plan, sources.of_view)
    assert np.allclose(trained.detach(), vectors, atol=1e-5)


def test_is_bert_has_the_trained_convolutions(toy_model, toy_corpus, tmp_path):
    objective = ISBERT(channels=16)
    run, vectors = run_of(objective, toy_model, toy_corpus, tmp_path)
    assert (run.sample.before.shape[1], run.sample.after.shape[1]) == (32, 48)

    state = load(run.last_checkpoint)
    encoder = load_encoder(str(toy_model), device="cpu")
    encoder.model.load_state_dict(state["encoder"])
    layers = objective.build_auxiliaries(encoder, 1)["convolutions"]
    named = {n.removeprefix("convolutions."): w for n, w in state["auxiliaries"].items()}
    layers.load_state_dict(named)
    batch = encoder.tokens.collate(encoder.tokens.ids(run.sample.sentences))
    with torch.no_grad():
        [states] = encoder(batch, [View(0.0, read="tokens")])
        local = layers(states, batch.attention_mask)
    sentence = local.sum(1) / batch.attention_mask.sum(1, keepdim=True)
    assert np.allclose(sentence.numpy(), vectors, atol=1e-5)
