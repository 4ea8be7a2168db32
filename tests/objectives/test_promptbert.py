"""PromptBERT against a loop and against vectors of its authors' code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from golden_files import (
    BASELINE,
    DTYPES,
    check_gradient,
    files,
    leaf,
    precisions,
    read,
    scalar,
    vector,
)
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from toy import short_run

from isospace.encoders.loading import load_encoder
from isospace.objectives.heads import Differences, TanhMLP
from isospace.objectives.promptbert import PromptBERT
from isospace.training import fit as training
from isospace.training.sources import Sources
from isospace.training.train import train
from isospace.views import View, Views


def test_what_is_measured_and_shipped_reads_the_mask(toy_model, toy_corpus, tmp_path, monkeypatch):
    config = replace(
        short_run(toy_model, toy_corpus, tmp_path / "run"),
        objective=PromptBERT(first="the text {} reads [MASK] .", second="{} a [MASK]"),
        budget=(64, "sentences"),
        precision="float32",
    )
    measured, run_evaluation = [], training.run_evaluation

    def spied(settings, encoder, *rest):
        measured.append((encoder.pooling, settings.max_length))
        return run_evaluation(settings, encoder, *rest)

    monkeypatch.setattr(training, "run_evaluation", spied)
    run = train(config).run
    assert measured == [("mean", 32), ("mask", 32 + 5), ("mask", 32 + 5)]
    sample, results = run.sample, run.finished
    assert not results.ships_base
    start = load_encoder(str(toy_model), device="cpu")
    assert np.allclose(sample.before, start.embed(sample.sentences), atol=2e-3)
    shipped = SentenceTransformer(str(run.model_folder), device="cpu")
    vectors = shipped.encode(list(sample.sentences))
    assert np.allclose(sample.after, vectors, atol=2e-3)  # kept in half precision
    assert np.allclose(load_encoder(str(run.folder)).embed(sample.sentences), vectors, atol=1e-5)

    # As in training: the tokens by the objective's own edit, the state at the mask token.
    kept = load_file(run.kept_weights)
    weights = {name: w for name, w in kept.items() if name.startswith("0.")}
    start.model.load_state_dict(weights)
    plan = [View(0.0, edit=config.objective.views[0].edit, read="mask")]
    sources = Sources(plan, start, 0)
    ids = [np.array(row) for row in start.tokens.ids(sample.sentences)]
    [trained] = start(sources.batch([ids], np.arange(len(ids)), 0), plan, sources.of_view)
    assert np.allclose(trained.detach(), vectors, atol=1e-5)


@precisions
@files("baselines/promptbert")
def test_loss_is_the_authors(path, precision):
    file = read(path)
    dim = file["mlp_bias"].shape[0]
    head = Differences(mlp := TanhMLP(dim, torch.Generator())).to(DTYPES[precision])
    mlp.dense.load_state_dict({name: file[f"mlp_{name}"] for name in ("weight", "bias")})
    names = ("mask_vectors", "template1_vectors", "template2_vectors")
    leaves = {name: leaf(file[name], precision) for name in names}
    masked, *templates = leaves.values()
    counts = file["sentence_token_counts"]
    encoded = torch.stack([*masked.unbind(1), *(template[counts] for template in templates)])
    objective = PromptBERT(temperature=float(file["temperature"]))
    projected = head(encoded)
    [loss] = objective(Views(encoded, projected)).values()
    limit = 1e-10 if precision == "f64" else BASELINE
    scalar(loss, file.get(f"official_loss_{precision}", file["official_loss_f64"]), limit)
    if precision == "f64":
        for view, z in enumerate(projected.detach()):
            vector(z, file[f"ref_z{view + 1}_f64"], 1e-10)
    loss.backward()
    for name, x in leaves.items():
        check_gradient(file, f"official_grad_{name}", precision, x)
    check_gradient(file, "official_grad_mlp_weight", precision, mlp.dense.weight)
