"""PromptBERT: denoised vectors and positions of the template, golden files."""

from __future__ import annotations

from pathlib import Path

import torch
from golden_files import BASELINE, check_gradient, files, leaf, precisions, read, scalar

from isospace.objectives.heads import TanhMLP, seeded
from isospace.objectives.promptbert import denoised, template_positions
from isospace.operators.similarity import cosine_matrix, info_nce

LIMIT = {"f64": 1e-10, "f32": 1e-5}


@precisions
@files("baselines/promptbert")
def test_denoised_views(path: Path, precision: str) -> None:
    file = read(path)
    tau = float(file["temperature"])
    names = ("mask_vectors", "template1_vectors", "template2_vectors")
    leaves = {name: leaf(file[name], precision) for name in names}
    masks, *templates = leaves.values()
    head = TanhMLP(masks.shape[2], seeded(0)).to(masks.dtype)
    head.load_state_dict({"dense.weight": file["mlp_weight"], "dense.bias": file["mlp_bias"]})
    counts = file["sentence_token_counts"]
    z1, z2 = (head(denoised(masks[:, v], templates[v], counts)) for v in (0, 1))
    for z, name in ((z1, "ref_z1_f64"), (z2, "ref_z2_f64")):
        torch.testing.assert_close(z.double(), file[name], rtol=0, atol=LIMIT[precision])
    logits = cosine_matrix(z1, z2).double() / tau
    torch.testing.assert_close(
        logits, file["official_logits_f64"], rtol=0, atol=20 * LIMIT[precision]
    )
    loss = info_nce(z1, z2, tau)
    scalar(loss, file["official_loss_f64"], 1e-10 if precision == "f64" else BASELINE)
    loss.backward()
    for name, x in {**leaves, "mlp_weight": head.dense.weight}.items():
        check_gradient(file, f"official_grad_{name}", precision, x)


@files("baselines/promptbert")
def test_positions_of_the_template_around_a_sentence(path: Path) -> None:
    file = read(path)
    counts = file["sentence_token_counts"]
    for v in (1, 2):
        ids, official = file[f"template{v}_ids"], file[f"official_template{v}_position_ids"]
        # The rule of the release has the first template's prefix for both.
        theirs = template_positions(len(file["prefix1"]), len(ids), len(official))
        assert torch.equal(theirs, official.long())
        ours = template_positions(len(file[f"prefix{v}"]), len(ids), len(official))
        mask = (ids == file["mask_token"]).nonzero().item()
        assert torch.equal(ours[counts, mask], file["mask_position_in_input"][:, v - 1])
