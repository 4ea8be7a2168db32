"""Losses, heads and gradients are those of the authors' code, or of the papers' formulas."""

from functools import partial

import pytest
import torch
from golden_files import (
    BASELINE,
    DTYPES,
    SCALAR,
    check,
    check_gradient,
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
from isospace.objectives.auxiliaries import Network, Queue, follow
from isospace.objectives.heads import Differences, Projector, TanhMLP, seeded
from isospace.operators.similarity import cosine_matrix, nearest_others
from isospace.views import TokenStates, Views
from isospace.views.networks import Convolutions


def tau(file):
    return float(file["temperature"])


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
                objective = objectives.WhitenedCSE(temperature=tau(file), **options)
                yield key + weight_key, names, objective


@golden("scd_loss", rel=SCALAR["f32"])
def test_scd_as_released(file):
    objective = objectives.SCD(
        self_contrast_weight=float(file["task_alpha"]),
        decorrelation_weight=float(file["task_beta"]),
        off_diagonal_weight=float(file["task_lambda"]),
        temperature=tau(file),
    )

    def loss(h_a, h_b, p_a, p_b):
        return sum(objective(Views(torch.stack([h_a, h_b]), torch.stack([p_a, p_b]))).values())

    yield "official_", "hA hB pA pB", loss


@files("scd_loss")
def test_decorrelation_of_scd_as_two_readings_of_the_paper(path):
    file = read(path)
    readings = {"released": "barlow_centred_plus", "printed": "printed_raw_minus_as_printed"}
    for variant, key in readings.items():
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
    yield "official_dcl_tau5_", "z1 z2", objectives.DCL(**alone, dimension_temperature=5.0)
    yield "official_dcl_tau10_", "z1 z2", objectives.DCL(**alone, dimension_temperature=10.0)
    with_contrast = objectives.DCL(**both, dimension_temperature=10.0)
    yield "official_infonce_plus_0p1_dcl_tau10_", "z1 z2", with_contrast
    unbiased = objectives.DCL(**alone, dimension_temperature=tau_d, variant="paper")
    yield "paper_eq5_unbiased_", "z1 z2", unbiased
    for key, variant in (("official", "released"), ("paper", "paper")):
        form = "dcl_tau5_" if key == "official" else "dcl_eq5_"
        objective = objectives.SimCSEPP(**both, m=m, dimension_temperature=tau_d, variant=variant)
        yield f"combo_{key}_offdropout_m09_plus_0p1_{form}", "z1 z2 z0", objective


@golden("barlow_", rel=1e-5)
def test_barlow_twins_and_the_study_of_its_rank(file):
    rows, weight, eps = int(file["M"]), float(file["lambda_bt"]), float(file["eps"])
    drawn = file["gauss_A"] if rows else file["zA"][:0]

    def study(a, b):
        views = torch.stack([a, b])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "randn", lambda *_, **__: drawn)
            terms = objectives.RankStudy(rows=rows, barlow_weight=1.0)(Views(views, views))
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
    options = {"temperature": tau(file), "margin": float(file["margin_u"])}
    yield "ref_", "z1 z2", objectives.ArcCSE(triplet_weight=0.0, **options)


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
        return total(objectives.CTInBatch(), a, b, scale={"log": log_scale})

    yield "official_", "a b log_scale", loss


@golden("baselines/gs_infonce")
def test_gs_infonce(file):
    noise = file["noise"]
    objective = objectives.GSInfoNCE(temperature=tau(file), noise_rows=len(noise))

    def loss(a, b):
        """The head hands the noise on in views of a batch's size, the last one padded."""
        padded = nn.functional.pad(noise.to(a), (0, 0, 0, -len(noise) % len(a)))
        return total(objective, a, b, *padded.split(len(a)))

    yield "official_", "z1 z2", loss


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
    objective, rows = objectives.ESimCSE(temperature=tau(file)), file["queue"]
    queue = Queue(*rows.shape, view=2, start=rows)
    yield "official_", "z1 z2", lambda a, b: total(objective, a, b, a, queue=queue)


@golden("baselines/mocose_loss")
def test_mocose(file):
    objective, rows = objectives.MoCoSE(temperature=tau(file)), file["queue"].T
    queue = Queue(*rows.shape, view=1, start=rows)
    yield "official_", "query keys", lambda a, b: total(objective, a, b, queue=queue)


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


# Heads and auxiliary networks: the papers'


@precisions
@files("whitenedcse_head")
@pytest.mark.parametrize("arrangement", ["viewwise", "interleaved_as_released"])
@pytest.mark.parametrize("stop_gradient", [True, False])
def test_whitening_of_whitenedcse(path, arrangement, stop_gradient, precision, monkeypatch):
    file = read(path)
    drawn = iter([file[f"perm{i}"] for i in (1, 2, 3)])
    monkeypatch.setattr(torch, "randperm", lambda *_, **__: next(drawn))
    objective = objectives.WhitenedCSE(
        num_views=file["cls"].shape[1],
        groups=int(file["groups"]),
        temperature=float(file["temperature"]),
        variant="paper" if arrangement == "viewwise" else "released",
        stop_gradient=stop_gradient,
        eps=0.0,
    )
    head = objective.build_head(file["cls"].shape[2], seed=0)
    dense = head[1].dense
    dense.load_state_dict({"weight": file["dense_weight"], "bias": file["dense_bias"]})
    cls = leaf(file["cls"], precision)
    loss = total(objective, *head.to(cls.dtype)(cls.transpose(0, 1)))
    scalar(loss, file[f"{arrangement}_loss_{precision}"], SCALAR[precision])
    loss.backward()
    if stop_gradient:
        vector(cls.grad, file[f"{arrangement}_grad_cls_detachedW_f64_as_f32"], 1e-5)
    else:
        vector(cls.grad, file[f"{arrangement}_grad_cls_fullW_f64_as_f32"], 1e-4)
    for name, parameter in dense.named_parameters():
        vector(parameter.grad, file[f"{arrangement}_grad_dense_{name}_f32"], 1e-5)


@files("scd_projector")
def test_projector_of_scd(path):
    file = read(path)
    weights = [file[f"layer{i}_linear_weight"] for i in (0, 3, 6)]
    widths = [len(weight) for weight in weights]
    head = Projector(weights[0].shape[1], seeded(0), widths=widths, first_bias=True)
    for i, weight in zip((0, 3, 6), weights, strict=True):
        head.layers[i].weight.data.copy_(weight)
    head.layers[0].bias.data.copy_(file["layer0_linear_bias"])
    h = leaf(torch.stack([file["hA"], file["hB"]]), "f64")
    p = head.double()(h)
    torch.testing.assert_close(p, torch.stack([file["pA_f64"], file["pB_f64"]]), rtol=0, atol=1e-9)
    (p[0] * file["upstream"]).sum().backward()
    vector(h.grad[0], file["grad_hA_f64"], 1e-8)
    for i in (1, 4):  # each view has batch statistics of its own
        for name in ("mean", "var"):
            recorded = file[f"layer{i}_bn_running_{name}_after_both"]
            running = getattr(head.layers[i], f"running_{name}")
            torch.testing.assert_close(running, recorded, rtol=0, atol=1e-10)


class Toy(nn.Module):
    """The encoder of the recorded steps: tanh(W mean of the embeddings of the tokens)."""

    def __init__(self, embeddings, weight):
        super().__init__()
        self.embeddings, self.weight = (nn.Parameter(x.double()) for x in (embeddings, weight))

    def forward(self, ids, mask):
        weights = mask.double() / mask.sum(1, keepdim=True)
        mean = (self.embeddings[ids] * weights.unsqueeze(-1)).sum(1)
        return torch.tanh(mean @ self.weight.T)


@files("baselines/esimcse_steps")
def test_momentum_and_queue_of_esimcse_over_three_steps(path):
    file = read(path)
    encoder = Toy(file["emb0"], file["W0"])
    head = nn.Linear(*file["mlp_weight0"].T.shape).double()
    head.load_state_dict({key: file[f"mlp_{key}0"] for key in ("weight", "bias")})
    start = Toy(file["momentum_emb0"], file["momentum_W0"])
    momentum = Network(start, momentum=float(file["momentum"]))
    queue = Queue(int(file["queue_size"]), head.out_features, view=2).double()
    objective = objectives.ESimCSE(temperature=float(file["temperature"]))
    parameters = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=float(file["lr_sgd"]))
    # The release follows the encoder before a step, which is after the one before it.
    momentum.after_update(encoder, Views(*[torch.zeros(1, 2, 1)] * 2))
    batches = zip(file["input_ids"].long(), file["attention_mask"], strict=True)
    for step, (ids, mask) in enumerate(batches):
        first, second = ((ids[:, view], mask[:, view]) for view in (0, 1))
        third = momentum.encoder(*first)
        assert not third.requires_grad
        encoded = torch.stack([encoder(*first), encoder(*second), third])
        projected = torch.tanh(head(encoded))
        loss = objective(Views(encoded, projected, {}, {"queue": queue}))["info_nce"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        views = Views(encoded.detach(), projected.detach())
        for found, key in (
            (loss.detach(), "loss_f64"),
            (momentum.encoder.weight, "momentum_W_after_forward_f64"),
            (encoder.weight.detach(), "W_after_sgd_f64"),
        ):
            expected = file[f"official_{key}"][step]
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
        queue.after_update(encoder, views)
        momentum.after_update(encoder, views)
        expected = file[f"official_queue_after_step{step + 1}_f64"]
        torch.testing.assert_close(queue.rows, expected, rtol=0, atol=1e-10)


LAYERS = {
    "pooler_dense": "projection.0",
    "projection_dense": "projection.1",
    "projection_LayerNorm": "projection.2",
    "predictor_mlp_mlp_0": "predictor.0",
    "predictor_mlp_layer_norm_0": "predictor.1",
    "predictor_dense": "predictor.3",
}
"""Layers of the released MoCoSE -> ours."""


@files("baselines/mocose_heads")
def test_heads_of_mocose(path):
    file = read(path)
    dim = len(file["pooler_dense_bias"])
    head = objectives.MoCoSE(head_dropout=0.0).build_head(dim, 0).double()
    weights = {
        f"{ours}.{kind}": file[f"{theirs}_{kind}"]
        for theirs, ours in LAYERS.items()
        for kind in ("weight", "bias")
    }
    head.load_state_dict(weights, strict=False)
    follow(head.copied.encoder, head.projection, 0.0)
    hidden = leaf(file["hidden"], "f64")
    query, key = head(torch.stack([hidden, hidden]))
    for found, name in (
        (head.projection[0](hidden), "pooler"), (key, "projection"), (query, "predictor"),
    ):  # fmt: skip
        torch.testing.assert_close(found, file[f"official_{name}_out_f64"], rtol=0, atol=1e-10)
    (query * file["upstream"]).sum().backward()
    vector(hidden.grad, file["official_grad_hidden_f64"], 1e-8)


@files("baselines/mocose_steps")
def test_the_followers_of_mocose(path):
    file = read(path)
    last = int(file["ema_total_step"])
    objective = objectives.MoCoSE(momentum=float(file["ema_decay_start"]), momentum_updates=last)
    assert objective.momentum_at(last) == objective.momentum_at(last + 3) == 1.0
    rows = file["ema_params_per_step"].double()
    original, copied = (nn.Linear(*rows.shape[:0:-1], bias=False).double() for _ in range(2))
    with torch.no_grad():
        copied.weight.copy_(rows[0])
        for update, (decay, expected) in enumerate(
            zip(file["ema_decay_per_step"], file["official_ema_after_step_f64"], strict=True), 1
        ):
            if update <= last:  # behind it the authors' falls again
                assert objective.momentum_at(update) == pytest.approx(float(decay), abs=1e-12)
            original.weight.copy_(rows[update])
            follow(copied, original, float(decay))
            torch.testing.assert_close(copied.weight, expected, rtol=0, atol=1e-10)


def vascl_of(file, precision, **options):
    objective = objectives.VaSCL(
        neighbours=int(file["topk"]),
        radius=float(file["eps"]),
        start_radius=float(file["xi"]),
        width=len(file["head_W2"]),
        temperature=float(file["temperature"]),
        **options,
    )
    head = objective.build_head(file["e1"].shape[1], 0)
    for layer, name in ((0, "head_W1"), (2, "head_W2")):
        head.layers[layer].weight.data.copy_(file[name])
    return objective, head.to(DTYPES[precision])


@precisions
@files("baselines/vascl")
def test_terms_and_the_step_of_vascl_s_virtual_views(path, precision):
    file = read(path)
    objective, head = vascl_of(file, precision)
    e1, e2 = leaf(file["e1"], precision), leaf(file["e2"], precision)
    step = head.step(e1.detach(), file["start_uniform"].to(e1))
    limit = 1e-9 if precision == "f64" else 2e-4
    torch.testing.assert_close(step, file["official_delta_f64"].to(e1), rtol=0, atol=limit)
    nearest = nearest_others(e1.detach(), objective.neighbours)
    assert [row.nonzero().flatten().tolist() for row in nearest] == [
        sorted(row.tolist()) for row in file["neighbours_sorted"]
    ]

    views = torch.stack([head.project(x) for x in (e1, e2, e1.detach() + step)])
    terms = objective(Views(torch.stack([e1, e2]), views))
    rel = SCALAR["f64"] if precision == "f64" else BASELINE
    for term, key in (("nt_xent", "ntxent"), ("virtual", "virtual")):
        scalar(terms[term], file[f"official_{key}_f64"], rel)
    weights = {"head_W1": head.layers[0].weight, "head_W2": head.layers[2].weight}
    terms["virtual"].backward(retain_graph=True)
    assert not e1.grad.any()
    for name, weight in weights.items():
        check_gradient(file, f"official_virtual_grad_{name}", precision, weight)
    terms["nt_xent"].backward()
    for name, x in {"e1": e1, "e2": e2, **weights}.items():
        check_gradient(file, f"official_grad_{name}", precision, x)


@precisions
@files("baselines/vascl")
def test_virtual_views_train_the_encoder_where_nothing_is_held_constant(path, precision):
    file = read(path)
    objective, head = vascl_of(file, precision, stop_gradient=False)
    e1 = leaf(file["e1"], precision)
    step = head.step(e1.detach(), file["start_uniform"].to(e1))
    views = torch.stack([head.project(x) for x in (e1, e1, e1 + step)])
    objective(Views(torch.stack([e1, e1]), views))["virtual"].backward()
    check_gradient(file, "undetached_virtual_grad_e1", precision, e1)


@precisions
@files("baselines/promptbert")
def test_head_and_loss_of_promptbert(path, precision):
    file = read(path)
    mlp = TanhMLP(len(file["mlp_bias"]), seeded(0))
    mlp.dense.load_state_dict({name: file[f"mlp_{name}"] for name in ("weight", "bias")})
    head, counts = Differences(mlp.to(DTYPES[precision])), file["sentence_token_counts"]
    objective = objectives.PromptBERT(temperature=float(file["temperature"]))

    def loss(masked, *templates):
        encoded = torch.stack([*masked.unbind(1), *(template[counts] for template in templates)])
        return objective(Views(encoded, head(encoded)))["info_nce"]

    names = ("mask_vectors", "template1_vectors", "template2_vectors")
    check(file, "official_", precision, {name: file[name] for name in names}, loss, rel=BASELINE)
    check_gradient(file, "official_grad_mlp_weight", precision, mlp.dense.weight)


@precisions
@pytest.mark.parametrize("key", ["official", "official_pads_zeroed", "paper_relu"])
@files("baselines/isbert_conv")
def test_convolutions_of_is_bert(path, key, precision):
    file = read(path)
    dim, kernels = file["h"].shape[2], file["kernel_sizes"].tolist()
    relu = key == "paper_relu"
    layers = Convolutions(dim, int(file["channels"]), kernels, relu=relu, generator=seeded(0))
    convolutions = layers.to(DTYPES[precision])
    named = dict(zip(kernels, convolutions.layers, strict=True))
    for kernel, layer in named.items():
        layer.load_state_dict({n: file[f"conv{kernel}_{n}"] for n in ("weight", "bias")})
    mask, objective = file["mask"], objectives.ISBERT(variant="paper" if relu else "released")

    def loss(h):
        # What the encoder gives is zero at the padding; the release lets it leak.
        states = h if key == "official" else h * mask.unsqueeze(-1)
        encoded = states.mean(1).unsqueeze(0)
        tokens = {0: TokenStates(states, mask)}
        views = Views(encoded, encoded, tokens, {"convolutions": convolutions})
        own, others = objective(views).values()
        if precision == "f64":
            scalar(-own, file[f"{key}_e_pos_f64"], 1e-10)
            local = convolutions(states, mask)
            vector(local.sum(1) / mask.sum(1, keepdim=True), file[f"{key}_global_f64"], 1e-10)
        return own + others

    check(file, f"{key}_", precision, {"h": file["h"]}, loss, rel=BASELINE)
    for kernel, layer in named.items():
        for name, parameter in layer.named_parameters():
            check_gradient(file, f"{key}_grad_conv{kernel}_{name}", precision, parameter)
