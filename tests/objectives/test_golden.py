"""Losses and their gradients are those of the authors' code, or of the papers' formulas."""

from functools import partial

import torch
from golden_files import (
    DTYPES,
    SCALAR,
    files,
    golden,
    leaf,
    precisions,
    read,
    scalar,
    total,
    vector,
)
from torch import nn

from isospace import losses, objectives
from isospace.encoders.modules import pooling_modules
from isospace.objectives.auxiliaries import Queue
from isospace.objectives.heads import GaussianRows, seeded
from isospace.operators.similarity import cosine_matrix
from isospace.views import Views


def tau(file):
    return float(file["temperature"])


def packed(noise, batch):
    """The noise as the head hands it on: views of `batch` rows, the last one padded."""
    views = noise.new_zeros(-(-len(noise) // batch) * batch, noise.shape[1])
    views[: len(noise)] = noise
    return list(views.split(batch))


# The three papers


@golden("infonce", rel=SCALAR["f32"])
def test_simcse(file):
    triples = "z3" in file
    objective = objectives.SimCSE(
        temperature=tau(file),
        supervision="triples" if triples else "none",
        hard_negative_weight=float(file.get("hard_negative_weight", 0.0)),
    )
    yield "", "z1 z2 z3" if triples else "z1 z2", objective


@golden("whitenedcse_multipos", rel=SCALAR["f32"])
def test_several_positives_of_whitenedcse(file):
    m = int(file["num_positives"])
    names = " ".join(["h", *(f"p{i}" for i in range(1, m + 1))])
    forms = {"eq7": "l1", "eq8_plus": "l2-plus", "eq8_printed": "l2-printed", "official": "l1"}
    for key, form in forms.items():
        for weight_key, weight in (("_lambda1_", 1.0), ("_lambda_1_over_m_", 1 / m), ("_", 1.0)):
            if f"{key}{weight_key}loss_f64" in file:
                options = {"num_views": m + 1, "loss": form, "positive_weight": weight}
                yield (
                    key + weight_key,
                    names,
                    objectives.WhitenedCSE(temperature=tau(file), **options),
                )


@golden("scd_loss", rel=SCALAR["f32"])
def test_scd_as_released(file):
    objective = objectives.SCD(
        self_contrast_weight=float(file["task_alpha"]),
        decorrelation_weight=float(file["task_beta"]),
        off_diagonal_weight=float(file["task_lambda"]),
        temperature=tau(file),
    )

    def loss(h_a, h_b, p_a, p_b):
        views = Views(torch.stack([h_a, h_b]), torch.stack([p_a, p_b]))
        return sum(objective(views).values())

    yield "official_", "hA hB pA pB", loss


@files("scd_loss")
def test_decorrelation_of_scd_as_two_readings_of_the_paper(path):
    file = read(path)
    for variant, key in (
        ("released", "barlow_centred_plus"),
        ("printed", "printed_raw_minus_as_printed"),
    ):
        a, b = leaf(file["pA"], "f64"), leaf(file["pB"], "f64")
        on, off = losses.decorrelation(a, b, eps=0.0, variant=variant)
        loss = on + float(file["paper_lambda"]) * off
        scalar(loss, file[f"paper_{key}_LC_f64"], 1e-10)
        (float(file["paper_alpha"]) * loss).backward()
        vector(a.grad, file[f"paper_{key}_grad_pA_f64"], 1e-8)


@golden("simcsepp_offdropout", rel=SCALAR["f32"])
def test_off_dropout(file):
    options = {"temperature": tau(file), "m": float(file["m"])}
    yield "official_", "z1 z2 z0", objectives.OffDropout(**options)
    yield "paper_", "z1 z2 z0", objectives.OffDropout(**options, variant="paper")
    yield "official_m1_", "z1 z2 z0", objectives.OffDropout(temperature=tau(file), m=1.0)


@golden("simcsepp_dcl", rel=1e-5)
def test_dimension_contrast(file):
    tau_d, m = float(file["tau_dcl"]), float(file["m"])
    alone = {"contrast_weight": 0.0, "dimension_weight": 1.0}
    both = {"temperature": tau(file), "dimension_weight": float(file["lambda_dcl"])}
    for key, objective in {
        "official_dcl_tau5_": objectives.DCL(**alone, dimension_temperature=5.0),
        "official_dcl_tau10_": objectives.DCL(**alone, dimension_temperature=10.0),
        "official_infonce_plus_0p1_dcl_tau10_": objectives.DCL(**both, dimension_temperature=10.0),
        "paper_eq5_unbiased_": objectives.DCL(
            **alone, dimension_temperature=tau_d, variant="paper"
        ),
    }.items():
        yield key, "z1 z2", objective
    for key, variant in (("official", "released"), ("paper", "paper")):
        form = "dcl_tau5_" if key == "official" else "dcl_eq5_"
        objective = objectives.SimCSEPP(**both, m=m, dimension_temperature=tau_d, variant=variant)
        yield f"combo_{key}_offdropout_m09_plus_0p1_{form}", "z1 z2 z0", objective


@golden("barlow_", rel=1e-5)
def test_barlow_twins_and_the_study_of_its_rank(file):
    rows, weight, eps = int(file["M"]), float(file["lambda_bt"]), float(file["eps"])
    add_rows = nn.Identity()
    if rows:
        add_rows = GaussianRows(rows, file["zA"].shape[1], seeded(0), fixed=True)
        add_rows.drawn.copy_(file["gauss_A"])

    def study(a, b):
        views = torch.stack([a, b])
        terms = objectives.RankStudy(rows=rows, barlow_weight=1.0)(Views(views, add_rows(views)))
        return terms["on_diagonal"] + terms["off_diagonal"]

    def plain(a, b, noise="gauss_A"):
        more = (file["gauss_A"], file[noise]) if rows else (a[:0], b[:0])
        padded = (torch.cat([z, extra.to(z)]) for z, extra in zip((a, b), more, strict=True))
        on, off = losses.barlow_twins(*padded, eps=eps)
        return on + weight * off

    yield "same_noise_", "zA zB", plain
    yield "official_lambda012_same_noise_", "zA zB", study
    if rows:
        yield "independent_noise_", "zA zB", partial(plain, noise="gauss_B")


# Baselines


@golden("baselines/vicreg")
def test_vicreg(file):
    names = ("invariance", "variance", "covariance")
    given = [float(file[f"{key}_coeff"]) for key in ("sim", "std", "cov")]
    whole = {f"{name}_weight": value for name, value in zip(names, given, strict=True)}
    yield "official_", "x y", objectives.VICReg(projector=(), **whole)
    yield "paper_", "x y", objectives.VICReg(projector=(), variant="paper", **whole)
    for name in names:
        alone = {weight: float(weight == f"{name}_weight") for weight in whole}
        yield f"official_{name}_only_", "x y", objectives.VICReg(projector=(), **alone)


@golden("baselines/arccse_arccon", "baselines/arccse_edge")
def test_arccse_at_angles_from_nought_to_nearly_pi(file):
    margin = float(file["margin_u"])
    yield (
        "ref_",
        "z1 z2",
        objectives.ArcCSE(triplet_weight=0.0, temperature=tau(file), margin=margin),
    )


@golden("baselines/arccse_triplet")
def test_triplet_of_arccse(file):
    for key, margin in (("", float(file["margin"])), ("margin_0p1_", 0.1)):
        yield f"matching_rows_{key}", "x x20 x40", partial(losses.masking_triplet, margin=margin)


@golden("baselines/consert_ntxent")
def test_consert(file):
    objective = objectives.ConSERT(temperature=tau(file))
    yield "paper_", "z1 z2", objective
    # The code adds the means of both directions, and weighs the sum.
    weight = 2 * float(file["loss_rate"])
    yield "official_", "z1 z2", lambda *z: weight * total(objective, *z)


@files("baselines/consert_views")
def test_the_pooling_of_consert_is_the_mean_of_two_layers(path):
    file = read(path)
    layers = (file["last_but_one_layer"].double(), file["last_layer"].double())
    features = {"all_layer_embeddings": layers, "attention_mask": file["mask"]}
    for module in pooling_modules("last2", layers[0].shape[-1], 1):
        features = module(features)
    found = features["sentence_embedding"]
    torch.testing.assert_close(found, file["mean_last_2_f64"], rtol=0, atol=1e-10)


@golden("baselines/ct_loss")
def test_ct(file):
    labels = file["labels"]
    yield "official_", "a b", lambda a, b: losses.contrastive_tension(a, b, labels).mean()
    yield "official_sum_", "a b", lambda a, b: losses.contrastive_tension(a, b, labels).sum()


@golden("baselines/ct_inbatch")
def test_ct_in_batch(file):
    def loss(a, b, log_scale):
        views = Views(torch.stack([a, b]), torch.stack([a, b]), {}, {"scale": {"log": log_scale}})
        return sum(objectives.CTInBatch()(views).values())

    yield "official_", "a b log_scale", loss


@golden("baselines/gs_infonce")
def test_gs_infonce(file):
    noise = file["noise"]
    objective = objectives.GSInfoNCE(temperature=tau(file), noise_rows=len(noise))
    yield "official_", "z1 z2", lambda a, b: total(objective, a, b, *packed(noise.to(a), len(a)))


@golden("baselines/mixcse")
def test_mixcse(file):
    options = {"temperature": tau(file), "mix_weight": float(file["lambda_mix"])}
    yield "official_", "z1 z2", objectives.MixCSE(**options, variant="released")
    yield "code_masked_neg_inf_", "z1 z2", objectives.MixCSE(**options)
    yield "paper_unitmix_", "z1 z2", objectives.MixCSE(**options, variant="paper")


def hardened(file, z1, z2, steps):
    options = {"temperature": tau(file), "steps": steps, "step_size": float(file["step_size"])}
    return losses.hardened_noise(file["noise0"].to(z1), z1, z2, **options)


@golden("baselines/dclr")
def test_dclr(file):
    weights = losses.negative_weights(file["frozen1"], file["frozen2"], float(file["phi"]))
    assert weights.tolist() == file["weights_in_batch"].tolist()

    def loss(z1, z2, released):
        noise = hardened(file, z1, z2, int(file["pgd_steps"]))
        logits = cosine_matrix(z1, torch.cat([z2, noise])) / tau(file)
        return losses.weighted_cross_entropy(logits, weights.to(z1), released=released)

    yield "official_", "z1 z2", partial(loss, released=True)
    yield "paper_posdenom_", "z1 z2", partial(loss, released=False)


@precisions
@files("baselines/dclr")
def test_hardened_noise_of_dclr(path, precision):
    file = read(path)
    z1, z2 = (file[name].to(DTYPES[precision]) for name in ("z1", "z2"))
    limit = {"f64": 1e-12, "f32": 2e-6}[precision]
    for steps, key in ((1, "step1"), (int(file["pgd_steps"]), "final")):
        found = hardened(file, z1, z2, steps).double()
        torch.testing.assert_close(found, file[f"official_noise_{key}_f64"], rtol=0, atol=limit)


@golden("baselines/declutr_loss")
def test_declutr(file):
    def loss(anchors, positives):
        grouped = positives.view(-1, int(file["num_positives"]), positives.shape[1])
        return losses.nt_xent(anchors, grouped.mean(1), tau(file))

    yield "official_", "anchors positives", loss


@golden("baselines/esimcse_loss")
def test_esimcse(file):
    def loss(z1, z2):
        queue = Queue(*file["queue"].shape, view=2, start=file["queue"])
        views = torch.stack([z1, z2, z1])
        return sum(
            objectives.ESimCSE(temperature=tau(file))(
                Views(views, views, {}, {"queue": queue})
            ).values()
        )

    yield "official_", "z1 z2", loss


@golden("baselines/mocose_loss")
def test_mocose(file):
    rows = file["queue"].T

    def loss(query, keys):
        queue = Queue(*rows.shape, view=1, start=rows)
        views = torch.stack([query, keys])
        return sum(
            objectives.MoCoSE(temperature=tau(file))(
                Views(views, views, {}, {"queue": queue})
            ).values()
        )

    yield "official_", "query keys", loss


@golden("baselines/isbert_jsd")
def test_is_bert(file):
    def loss(local, sentence, constants):
        own, others = losses.token_information(local, sentence, file["mask"], constants=constants)
        return others - own

    yield "official_", "local sentence", partial(loss, constants=True)
    yield "paper_", "local sentence", partial(loss, constants=False)


@golden("baselines/pcl_loss")
def test_pcl(file):
    def loss(p, q, peer):
        views = torch.cat([p, q], dim=1).transpose(0, 1)
        objective = objectives.PCL(temperature=tau(file), peer=peer, variant="released")
        return sum(objective.terms(Views(views, views)).values())

    yield "official_", "p q", partial(loss, peer="trained")
    yield "official_fixed_peer_", "p q", partial(loss, peer="frozen")


@golden("baselines/pcl_terms")
def test_terms_of_pcl(file):
    def rows(x, y):
        return losses.group_logits(x[:, 0], y.transpose(0, 1), tau(file))

    def group(x, released):
        return losses.group_cross_entropy(rows(x, x), int(file["num_copies"]), released=released)

    for x in ("p", "q"):
        yield f"infonce_{x}_", x, lambda x: losses.info_nce(x[:, 0], x[:, 1], tau(file))
        yield f"group_bce_{x}_", x, partial(group, released=True)
    yield "variant_bce_on_probabilities_", "p", partial(group, released=False)
    yield "kl_within_", "p q", lambda p, q: losses.softmax_divergence(rows(p, p), rows(q, q))
    yield "kl_cross_", "p q", lambda p, q: losses.softmax_divergence(rows(p, q), rows(q, p))


@golden("baselines/sbert_softmax")
def test_sbert_softmax(file):
    def loss(u, v, weight, bias=None, **options):
        objective = objectives.SBERTSoftmax(**options, bias=bias is not None)
        head = objective.build_head(u.shape[1], 0, int(file["num_labels"]))
        parameters = {"layer.weight": weight} | ({} if bias is None else {"layer.bias": bias})
        encoded = torch.stack([u, v])
        logits = torch.func.functional_call(head, parameters, encoded)
        return objective(Views(encoded, logits, labels=file["labels"]))["relation"]

    yield "official_", "u v weight bias", loss
    yield "paper_no_bias_", "u v weight", loss
    file["weight"] = file["weight_with_product"]
    yield "official_with_product_", "u v weight bias", partial(loss, with_product=True)
