"""The reference files of the baselines of the papers' tables; run make_golden.py."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from golden_reference import cos, cross_entropy, draw, near, save, with_gradients
from torch import Tensor
from torch.nn.functional import normalize

TAU = 0.05


def two_views(seed: int, n: int = 8, dim: int = 6) -> dict[str, Tensor]:
    z1 = draw(seed, n, dim)
    return {"z1": z1, "z2": near(z1, seed + 1)}


def rows_of_cosines(a: Tensor, b: Tensor, tau: float = TAU) -> list[list[Tensor]]:
    return [[cos(x, y) / tau for y in b] for x in a]


def mixes(z: Tensor, share: float = 0.2) -> list[Tensor]:
    z = z.detach()
    return [share * z[i] + (1 - share) * z[(i + 1) % len(z)] for i in range(len(z))]


def mixcse_code(masked: bool) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(z1: Tensor, z2: Tensor) -> Tensor:
        m1, m2, n = mixes(z1), mixes(z2), len(z1)
        rows = rows_of_cosines(z1, z2)
        for i in range(n):
            kept = [cos(z1[i], m2[j]) / TAU for j in range(n) if (j + 1) % n != i]
            kept += [cos(m1[i], z2[j]) / TAU for j in range(n) if j != (i + 1) % n]
            rows[i] += kept if masked else [*kept, z1.new_zeros(()), z1.new_zeros(())]
        return cross_entropy(rows)

    return loss


def mixcse_paper(unit: bool, every: bool) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(z1: Tensor, z2: Tensor) -> Tensor:
        m2, n = mixes(normalize(z2) if unit else z2), len(z1)
        rows = rows_of_cosines(z1, z2)
        for i in range(n):
            chosen = [j for j in range(n) if (j + 1) % n != i] if every else [i]
            rows[i] += [cos(z1[i], m2[j]) / TAU for j in chosen]
        return cross_entropy(rows)

    return loss


def make_mixcse() -> None:
    two = two_views(200)
    losses = {
        "official_": mixcse_code(False),
        "code_masked_neg_inf_": mixcse_code(True),
        "paper_rawmix_": mixcse_paper(False, False),
        "paper_unitmix_": mixcse_paper(True, False),
        "paper_unitmix_all_": mixcse_paper(True, True),
    }
    arrays = {f"mix_of_{k}": torch.stack(mixes(z.double())) for k, z in two.items()}
    for key, loss in losses.items():
        arrays |= with_gradients(key, two, loss)
    save("baselines/mixcse", **two, temperature=TAU, lambda_mix=0.2, **arrays)


def make_gs_infonce() -> None:
    two, noise = two_views(210), draw(212, 5, 6)

    def loss(times: float) -> Callable[[Tensor, Tensor], Tensor]:
        def value(z1: Tensor, z2: Tensor) -> Tensor:
            return cross_entropy(rows_of_cosines(z1, torch.cat([z2, times * noise.to(z2)])))

        return value

    arrays = with_gradients("official_", two, loss(1.0))
    arrays["ref_loss_noise_times_7_f64"] = loss(7.0)(*(z.double() for z in two.values()))
    constants = {"temperature": TAU, "random_size": len(noise)}
    save("baselines/gs_infonce", **two, noise=noise, **constants, **arrays)


def hinge(x: Tensor, eps: float) -> Tensor:
    values = [(1 - (c.var(unbiased=True) + eps).sqrt()).clamp(min=0) for c in x.T]
    return torch.stack(values).mean()


def covariances(x: Tensor) -> Tensor:
    (n, dim), c = x.shape, (x - x.mean(0)).T
    cells = [(c[j] * c[k]).sum() / (n - 1) for j in range(dim) for k in range(dim) if j != k]
    return torch.stack(cells).square().sum() / dim


def make_vicreg() -> None:
    eps, coefficients = 1e-4, (25.0, 25.0, 1.0)
    two = {k: 0.7 * z for k, z in zip(("x", "y"), two_views(220).values(), strict=True)}

    def loss(
        similar: float, vary: float, apart: float, paper: bool = False
    ) -> Callable[..., Tensor]:
        def value(x: Tensor, y: Tensor) -> Tensor:
            distance = (x - y).square().sum() / (len(x) if paper else x.numel())
            variance = (hinge(x, eps) + hinge(y, eps)) * (1 if paper else 0.5)
            return similar * distance + vary * variance + apart * (covariances(x) + covariances(y))

        return value

    arrays = with_gradients("official_", two, loss(*coefficients))
    arrays |= with_gradients("paper_", two, loss(*coefficients, paper=True))
    for i, name in enumerate(("invariance", "variance", "covariance")):
        key = f"official_{name}_only_"
        arrays |= with_gradients(key, two, loss(*(float(i == j) for j in range(3))))
    for name, z in two.items():
        arrays[f"paper_variance_{name}_f64"] = hinge(z.double(), eps)
        arrays[f"paper_covariance_{name}_f64"] = covariances(z.double())
    constants = dict(zip(("sim_coeff", "std_coeff", "cov_coeff"), coefficients, strict=True))
    save("baselines/vicreg", **two, **constants, gamma=1.0, eps=eps, **arrays)


VASCL = {"topk": 3, "eps": 15.0, "xi": 12.0, "temperature": TAU}


def vascl_head(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    y = (x @ w1.T).clamp(min=0) @ w2.T
    return y / (y * y).sum(-1, keepdim=True).sqrt()


def vascl_step(e: Tensor, uniform: Tensor, near: list[list[int]], *w: Tensor) -> Tensor:
    d = torch.stack([u / (u.norm() + 1e-8) for u in uniform]).requires_grad_()
    g, moved, losses = vascl_head(e, *w), vascl_head(e + VASCL["xi"] * d, *w), []
    for i, rivals in enumerate(near):
        s = torch.stack([(g[j] * moved[i]).sum() / TAU for j in [i, *rivals]])
        losses.append(s.exp().sum().log() - s[0])
    (gradient,) = torch.autograd.grad(torch.stack(losses).mean(), d)
    return torch.stack([VASCL["eps"] * x / (x.norm() + 1e-8) for x in gradient])


def vascl_virtual(a: Tensor, b: Tensor, near: list[list[int]]) -> Tensor:
    losses = []
    for one, other in ((a, b), (b, a)):
        for i, rivals in enumerate(near):
            candidates = [other[i], *(v[j] for j in rivals for v in (a, b))]
            s = torch.stack([(one[i] * c).sum() / TAU for c in candidates])
            losses.append(s.exp().sum().log() - s[0])
    return torch.stack(losses).mean()


def nt_xent(a: Tensor, b: Tensor, tau: float = TAU) -> Tensor:
    rows, n, losses = torch.cat([a, b]), len(a), []
    for i, x in enumerate(rows):
        s = {j: cos(x, y) / tau for j, y in enumerate(rows) if j != i}
        losses.append(torch.stack(list(s.values())).exp().sum().log() - s[(i + n) % (2 * n)])
    return torch.stack(losses).mean()


def make_vascl() -> None:
    e1, e2 = (4 * z for z in two_views(230, dim=10).values())
    # Centred weights: a sentence at which no hidden unit is on has no projection.
    w1, w2, uniform = ((draw(s, n, 10) - 0.5) / 3 for s, n in ((232, 10), (233, 5), (234, 8)))
    products = e1.double() @ e1.double().T
    near = [
        sorted((j for j in range(8) if j != i), key=lambda j: -products[i, j])[: VASCL["topk"]]
        for i in range(8)
    ]
    a, b, v1, v2 = (x.double().requires_grad_() for x in (e1, e2, w1, w2))
    delta = vascl_step(a.detach(), uniform.double(), near, v1.detach(), v2.detach())
    plain = nt_xent(vascl_head(a, v1, v2), vascl_head(b, v1, v2))
    fixed = vascl_head(a.detach(), v1, v2).detach()
    virtual = vascl_virtual(fixed, vascl_head(a.detach() + delta, v1, v2), near)
    free = vascl_virtual(vascl_head(a, v1, v2), vascl_head(a + delta, v1, v2), near)
    names = ("e1", "e2", "head_W1", "head_W2")
    gradients = torch.autograd.grad(plain + virtual, (a, b, v1, v2), retain_graph=True)
    arrays = {f"official_grad_{k}_f64": g for k, g in zip(names, gradients, strict=True)}
    gradients = torch.autograd.grad(virtual, (v1, v2))
    arrays |= {
        f"official_virtual_grad_{k}_f64": g for k, g in zip(names[2:], gradients, strict=True)
    }
    arrays |= {
        "undetached_virtual_grad_e1_f64": torch.autograd.grad(free, a)[0],
        "official_delta_f64": delta,
        "neighbours_sorted": torch.tensor(near),
        "official_ntxent_f64": plain,
        "official_virtual_f64": virtual,
        "official_total_f64": plain + virtual,
    }
    weights = {"head_W1": w1, "head_W2": w2, "start_uniform": uniform}
    save("baselines/vascl", e1=e1, e2=e2, **weights, **VASCL, **arrays)


def arc(x: Tensor, y: Tensor, margin: float, form: str) -> Tensor:
    angle = cos(x, y).acos()
    if form == "easy":
        return (angle + margin).cos() if angle < math.pi / 2 else angle.cos()
    if form == "ref" or angle + margin < math.pi:
        return (angle + margin).cos()
    return angle.cos() - (margin * math.sin(margin) if form == "cut_with_penalty" else 0)


def arccon(margin: float, form: str = "ref", reading: str = "ref") -> Callable[..., Tensor]:
    def loss(z1: Tensor, z2: Tensor) -> Tensor:
        rows = rows_of_cosines(z1, z1 if reading == "samefirst" else z2)
        if reading == "transposed":
            rows = [list(column) for column in zip(*rows, strict=True)]
        for i, row in enumerate(rows):
            row[i] = arc(z1[i], z2[i], margin, form) / TAU
        return cross_entropy(rows)

    return loss


def make_arccse() -> None:
    two, margin = two_views(240), math.pi / 18
    constants = {"temperature": TAU, "margin_u": margin}
    arrays: dict[str, Tensor] = {}
    for reading in ("ref", "transposed", "samefirst"):
        arrays |= with_gradients(f"{reading}_", two, arccon(margin, reading=reading))
    save("baselines/arccse_arccon", **two, **constants, **arrays)

    z1, arrays = two["z1"], {}
    other = torch.stack(
        [z - (z * x).sum() / (x * x).sum() * x for x, z in zip(z1, two["z2"], strict=True)]
    )
    angles = torch.tensor([3.1, 3.0, 2.98, 1.65, 1.56, 1.5, 0.01, 0.05])[:, None]
    two = {"z1": z1, "z2": angles.cos() * normalize(z1) + angles.sin() * normalize(other)}
    for form in ("ref", "easy", "cut_at_pi", "cut_with_penalty"):
        arrays |= with_gradients(f"{form}_", two, arccon(margin, form))
    save("baselines/arccse_edge", **two, **constants, **arrays)

    x = draw(242, 8, 6)
    three = {"x": x, "x20": near(x, 243), "x40": near(x, 244)}

    def triplet(margin: float) -> Callable[..., Tensor]:
        def value(x: Tensor, x20: Tensor, x40: Tensor) -> Tensor:
            gaps = [cos(a, c) - cos(a, b) for a, b, c in zip(x, x20, x40, strict=True)]
            return (margin + torch.stack(gaps)).clamp(min=0).mean()

        return value

    arrays = with_gradients("matching_rows_", three, triplet(0.0))
    arrays |= with_gradients("matching_rows_margin_0p1_", three, triplet(0.1))
    rows = [triplet(0.0)(*(z[i : i + 1].double() for z in three.values())) for i in range(8)]
    arrays["active"] = torch.stack(rows) > 0
    save("baselines/arccse_triplet", **three, margin=0.0, **arrays)


DCLR = {"temperature": TAU, "phi": 0.9, "noise_times": 1.5, "pgd_steps": 2, "step_size": 1e-3}


def dclr_logits(z1: Tensor, z2: Tensor, noise: Tensor) -> Tensor:
    rows = rows_of_cosines(z1, torch.cat([z2, noise.to(z2)]))
    return torch.stack([torch.stack(row) for row in rows])


def dclr_loss(noise: Tensor, weights: Tensor, form: str) -> Callable[..., Tensor]:
    def loss(z1: Tensor, z2: Tensor) -> Tensor:
        logits = dclr_logits(z1, z2, noise)
        w = torch.cat([weights.double(), torch.ones(len(z1), len(noise)).double()], dim=1)
        q = w * logits
        p = q.exp() / q.exp().sum(1, keepdim=True)
        own = [logits[i, i] for i in range(len(z1))]
        if form == "official":
            cells = [
                -(p[i, c].log() if i == c else (1 - p[i, c]).log())
                for i in range(len(p))
                for c in range(p.shape[1])
            ]
            return torch.stack(cells).mean()
        if form == "logitweight_ce":
            return -torch.stack([p[i, i].log() for i in range(len(p))]).mean()
        sums = (w * logits.exp()).sum(1)
        if form == "paper_noposdenom":
            sums = sums - torch.stack(own).exp()
        return (sums.log() - torch.stack(own)).mean()

    return loss


def make_dclr() -> None:
    two, frozen = two_views(250), draw(252, 8, 6)
    frozen = torch.cat([frozen[:6], frozen[:1] + 0.1, frozen[2:3] - 0.1])
    noise, frozen2 = draw(253, 12, 6), frozen + 0.05 * draw(254, 8, 6)
    weights = torch.tensor(
        [
            [float(i == j or cos(x, y) <= DCLR["phi"]) for j, y in enumerate(frozen2)]
            for i, x in enumerate(frozen)
        ]
    )
    arrays: dict[str, Tensor] = {}
    moved, before = noise.double(), []
    for _ in range(int(DCLR["pgd_steps"])):
        moved = moved.detach().requires_grad_()
        logits = dclr_logits(*(z.double() for z in two.values()), moved)
        before.append(cross_entropy([list(row) for row in logits]))
        (gradient,) = torch.autograd.grad(before[-1], moved)
        moved = moved + DCLR["step_size"] * torch.stack([g / g.norm() for g in gradient])
        arrays.setdefault("official_noise_step1_f64", moved.detach())
    arrays |= {f"{k}_f64": moved.detach() for k in ("official_noise_final", "noise_final_ref")}
    arrays["official_infonce_before_step_f64"] = torch.stack(before).detach()
    for form in ("official", "logitweight_ce", "paper_posdenom", "paper_noposdenom"):
        arrays |= with_gradients(f"{form}_", two, dclr_loss(moved.detach(), weights, form))
    arrays |= {"weights_in_batch": weights.to(torch.int8), "masked_pairs": (weights == 0).nonzero()}
    given = {"noise0": noise, "frozen1": frozen, "frozen2": frozen2}
    save("baselines/dclr", **two, **given, **DCLR, **arrays)


def make_esimcse() -> None:
    two, queue = two_views(260), draw(262, 5, 6)

    def loss(length: int) -> Callable[..., Tensor]:
        def value(z1: Tensor, z2: Tensor) -> Tensor:
            return cross_entropy(rows_of_cosines(z1, torch.cat([z2, queue[:length].to(z2)])))

        return value

    arrays = with_gradients("official_", two, loss(5))
    arrays["official_loss_empty_queue_f64"] = loss(0)(*(z.double() for z in two.values()))
    save("baselines/esimcse_loss", **two, queue=queue, temperature=TAU, **arrays)


def bce(score: Tensor, label: int) -> Tensor:
    p = 1 / (1 + (-score).exp())
    return -(p if label else 1 - p).log()


def make_ct() -> None:
    a, labels = draw(270, 8, 6) / 2, [1, 0, 0, 0, 1, 0, 0, 0]
    two = {"a": a, "b": near(a, 271) / 2}

    def pairs(wanted: tuple[int, ...], mean: bool) -> Callable[..., Tensor]:
        def loss(a: Tensor, b: Tensor) -> Tensor:
            triples = zip(a, b, labels, strict=True)
            losses = [bce((x * y).sum(), label) for x, y, label in triples if label in wanted]
            return torch.stack(losses).mean() if mean else torch.stack(losses).sum()

        return loss

    arrays = with_gradients("official_", two, pairs((0, 1), True))
    arrays |= with_gradients("official_sum_", two, pairs((0, 1), False))
    for name, label in (("positive", 1), ("negative", 0)):
        part = pairs((label,), False)(*(z.double() for z in two.values()))
        arrays[f"official_{name}_sum_f64"] = part
    save("baselines/ct_loss", **two, labels=labels, num_negatives=3, **arrays)

    three = {**two, "log_scale": torch.tensor(2.5)}

    def in_batch(a: Tensor, b: Tensor, log_scale: Tensor) -> Tensor:
        rows = [[log_scale.exp() * cos(x, y) for y in b] for x in a]
        columns = [list(column) for column in zip(*rows, strict=True)]
        return (cross_entropy(rows) + cross_entropy(columns)) / 2

    arrays = with_gradients("official_", three, in_batch)
    scores = [torch.stack(row) for row in rows_of_cosines(*(z.double() for z in two.values()), 1.0)]
    arrays["scores_f64"] = three["log_scale"].double().exp() * torch.stack(scores)
    save("baselines/ct_inbatch", **three, **arrays)


def make_consert() -> None:
    two = two_views(280)
    arrays = with_gradients("paper_", two, lambda a, b: nt_xent(a, b, 0.1))
    arrays |= with_gradients("official_", two, lambda a, b: 0.3 * nt_xent(a, b, 0.1))
    save("baselines/consert_ntxent", **two, temperature=0.1, loss_rate=0.15, **arrays)


def make_declutr() -> None:
    anchors = draw(290, 6, 6)
    positives = torch.cat([near(anchors, 291)[:, None], near(anchors, 292)[:, None]], dim=1)
    inputs = {"anchors": anchors, "positives": positives.flatten(0, 1)}

    def mean(positives: Tensor) -> Tensor:
        return torch.stack([(a + b) / 2 for a, b in positives.view(6, 2, 6)])

    arrays = with_gradients("official_", inputs, lambda a, p: nt_xent(a, mean(p)))
    wrong = nt_xent(anchors.double(), mean(normalize(inputs["positives"].double())))
    arrays |= {"variant_normalise_before_averaging_loss_f64": wrong}
    arrays |= {"mean_positive_f64": mean(inputs["positives"].double())}
    save(
        "baselines/declutr_loss",
        **inputs,
        temperature=TAU,
        num_anchors=6,
        num_positives=2,
        **arrays,
    )


def make_promptbert() -> None:
    n, longest, prefixes, tokens = 6, 9, (2, 3), (6, 8)
    masks = torch.stack([draw(300, n, 6), near(draw(300, n, 6), 301)], dim=1)
    weight, bias, counts = (
        draw(302, 6, 6) / 3,
        draw(303, 1, 6)[0] / 3,
        torch.tensor([1, 8, 3, 3, 5, 1]),
    )
    vectors = {f"template{v}_vectors": draw(303 + v, longest, 6) / 2 for v in (1, 2)}
    inputs = {"mask_vectors": masks, **vectors, "mlp_weight": weight, "mlp_bias": bias}

    def views(masks: Tensor, first: Tensor, second: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        z = [
            (weight @ (masks[i, v] - template[counts[i]]) + bias).tanh()
            for v, template in enumerate((first, second))
            for i in range(n)
        ]
        return torch.stack(z).view(2, n, 6)

    arrays = with_gradients(
        "official_", inputs, lambda *x: cross_entropy(rows_of_cosines(*views(*x)))
    )
    z1, z2 = views(*(x.double() for x in inputs.values()))
    logits = torch.stack([torch.stack(row) for row in rows_of_cosines(z1, z2)])
    arrays |= {"ref_z1_f64": z1, "ref_z2_f64": z2, "official_logits_f64": logits}
    places = []
    for v, (prefix, length) in enumerate(zip(prefixes, tokens, strict=True), start=1):
        ids = torch.arange(1, length + 1)
        ids[prefix + 2] = 99
        arrays |= {f"prefix{v}": ids[1 : prefix + 1], f"template{v}_ids": ids}
        arrays[f"official_template{v}_position_ids"] = torch.tensor(
            [[t + n * (t > prefixes[0]) for t in range(length)] for n in range(longest)]
        )
        places.append(prefix + 2 + counts)
    arrays |= {"mask_position_in_input": torch.stack(places, dim=1), "mask_token": torch.tensor(99)}
    save("baselines/promptbert", **inputs, temperature=TAU, sentence_token_counts=counts, **arrays)


def pcl_rows(x: Tensor, y: Tensor) -> list[list[Tensor]]:
    n = len(x)
    return [
        [cos(x[i, 0], z) / TAU for z in (*y[i, 1:], *(y[j, 0] for j in range(n) if j != i))]
        for i in range(n)
    ]


def pcl_bce(x: Tensor, probabilities: bool) -> Tensor:
    losses = []
    for row in pcl_rows(x, x):
        exps = torch.stack(row).exp()
        for c, w in enumerate(exps / exps.sum()):
            label = int(c < x.shape[1] - 1)
            losses.append(-(w if label else 1 - w).log() if probabilities else bce(w, label))
    return torch.stack(losses).mean()


def pcl_kl(rows: list[list[Tensor]], peers: list[list[Tensor]], cells: bool) -> Tensor:
    sums = []
    for row, peer in zip(rows, peers, strict=True):
        p, q = (torch.stack(x).exp() / torch.stack(x).exp().sum() for x in (row, peer))
        sums.append((q * (q.log() - p.log())).sum() / (len(row) if cells else 1))
    return torch.stack(sums).mean()


def make_pcl() -> None:
    anchor = draw(310, 6, 6)
    p, q = (
        torch.stack([anchor, *(near(anchor, s + k) for k in range(3))], dim=1) for s in (311, 321)
    )
    two = {"p": p, "q": q + 0.2 * draw(331, 6, 4, 6)}
    terms: dict[str, Callable[..., Tensor]] = {
        "infonce_p": lambda p, q: cross_entropy(rows_of_cosines(p[:, 0], p[:, 1])),
        "infonce_q": lambda p, q: cross_entropy(rows_of_cosines(q[:, 0], q[:, 1])),
        "group_bce_p": lambda p, q: pcl_bce(p, False),
        "group_bce_q": lambda p, q: pcl_bce(q, False),
        "kl_within": lambda p, q: pcl_kl(pcl_rows(p, p), pcl_rows(q, q), True),
        "kl_cross": lambda p, q: pcl_kl(pcl_rows(p, q), pcl_rows(q, p), True),
    }
    constants = {"temperature": TAU, "num_copies": 3}

    def fixed(p: Tensor, q: Tensor) -> Tensor:
        kept = [term(p, q.detach()) for name, term in terms.items() if not name.endswith("_q")]
        return torch.stack(kept).sum()

    arrays = with_gradients("official_", two, lambda p, q: sum(t(p, q) for t in terms.values()))
    arrays |= with_gradients("official_fixed_peer_", two, fixed)
    save("baselines/pcl_loss", **two, **constants, **arrays)

    variants: dict[str, Callable[..., Tensor]] = {
        "bce_on_probabilities": lambda p, q: pcl_bce(p, True),
        "kl_within_row_sum": lambda p, q: pcl_kl(pcl_rows(p, p), pcl_rows(q, q), False),
        "kl_within_reversed": lambda p, q: pcl_kl(pcl_rows(q, q), pcl_rows(p, p), True),
        "kl_cross_row_sum": lambda p, q: pcl_kl(pcl_rows(p, q), pcl_rows(q, p), False),
    }
    arrays = {}
    for name, term in {**terms, **{f"variant_{k}": v for k, v in variants.items()}}.items():
        arrays |= with_gradients(f"{name}_", two, term)
    first, second = (z.double() for z in two.values())
    for name, rows in (
        ("rows_within_p_f64", pcl_rows(first, first)),
        ("rows_p_to_q_f64_as_f32", pcl_rows(first, second)),
    ):
        arrays[name] = torch.stack([torch.stack(row) for row in rows])
    arrays["rows_p_to_q_f64_as_f32"] = arrays["rows_p_to_q_f64_as_f32"].float()
    save("baselines/pcl_terms", **two, **constants, **arrays)


def softplus(x: Tensor) -> Tensor:
    return (1 + x.exp()).log()


def information(
    local: Tensor, sentence: Tensor, mask: Tensor, constant: float, by_sentence: bool = False
) -> tuple[Tensor, Tensor]:
    own, other = [], []
    for i, words in enumerate(local):
        real = [w for w, there in zip(words, mask[i], strict=True) if there]
        weight = 1 / (len(local) * len(real)) if by_sentence else 1 / int(mask.sum())
        for w in real:
            own.append(weight * (constant - softplus(-(w * sentence[i]).sum())))
            for j, s in enumerate(sentence):
                if j != i:
                    score = (w * s).sum()
                    other.append(weight * (softplus(-score) + score - constant) / (len(local) - 1))
    return torch.stack(own).sum(), torch.stack(other).sum()


def words_and_means(
    h: Tensor, mask: Tensor, weights: list[Tensor], *, pads: bool, relu: bool
) -> tuple[Tensor, Tensor]:
    n, length, dim = h.shape
    zero, words, means = h.new_zeros(dim), [], []
    for i in range(n):
        fed = [x if pads or there else zero for x, there in zip(h[i], mask[i], strict=True)]
        rows = []
        for t in range(length):
            parts = []
            for w, b in zip(weights[::2], weights[1::2], strict=True):
                around = range(t - w.shape[2] // 2, t + w.shape[2] // 2 + 1)
                taps = [w[:, :, k] @ fed[u] for k, u in enumerate(around) if 0 <= u < length]
                parts.append(torch.stack(taps).sum(0) + b)
            row = torch.cat(parts)
            rows.append((row.clamp(min=0) if relu else row) * mask[i, t])
        words.append(torch.stack(rows))
        means.append(words[-1].sum(0) / mask[i].sum())
    return torch.stack(words), torch.stack(means)


def make_is_bert() -> None:
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]])
    h = {"h": draw(340, 3, 5, 4) / 2}
    for size in (1, 3, 5):
        h[f"conv{size}_weight"] = draw(340 + size, 2, 4, size) / 3
        h[f"conv{size}_bias"] = draw(350 + size, 1, 2)[0] / 3
    arrays: dict[str, Tensor] = {}
    log2 = math.log(2)
    for key, constant, pads, relu in (
        ("official_", log2, True, False),
        ("official_pads_zeroed_", log2, False, False),
        ("paper_relu_", 0.0, False, True),
    ):
        parts: dict[str, Tensor] = {}

        def loss(h: Tensor, *weights: Tensor) -> Tensor:
            words, means = words_and_means(h, mask, list(weights), pads=pads, relu=relu)  # noqa: B023
            own, other = information(words, means, mask, constant)  # noqa: B023
            found = {"e_pos_f64": own, "e_neg_f64": other, "global_f64": means}
            parts.update(found | {"local_f64_as_f32": words.float()})  # noqa: B023
            return other - own

        arrays |= with_gradients(key, h, loss) | {f"{key}{k}": v for k, v in parts.items()}
    constants = {"kernel_sizes": [1, 3, 5], "channels": 2, "mask": mask}
    save("baselines/isbert_conv", **h, **constants, **arrays)

    two, arrays = {"local": draw(360, 3, 5, 4), "sentence": draw(361, 3, 4)}, {}
    for key, constant, by_sentence in (
        ("official_", log2, False),
        ("paper_", 0.0, False),
        ("variant_mean_per_sentence_", log2, True),
    ):
        parts = {}

        def estimate(local: Tensor, sentence: Tensor) -> Tensor:
            own, other = information(local, sentence, mask, constant, by_sentence)  # noqa: B023
            parts.update({"e_pos_f64": own, "e_neg_f64": other})  # noqa: B023
            return other - own

        arrays |= with_gradients(key, two, estimate) | {f"{key}{k}": v for k, v in parts.items()}
    save("baselines/isbert_jsd", **two, mask=mask, **arrays)


def make_sbert_softmax() -> None:
    u, labels = draw(370, 6, 5), torch.tensor([0, 2, 1, 1, 0, 2])
    pair = {"u": u, "v": near(u, 371)}
    bias = draw(372, 1, 3)[0]
    arrays: dict[str, Tensor] = {}
    for key, weight_name, product in (
        ("official_", "weight", False),
        ("official_with_product_", "weight_with_product", True),
        ("paper_no_bias_", "weight", False),
    ):
        weight = draw(373 + product, 3, 20 if product else 15) / 3
        logits: list[Tensor] = []

        def loss(u: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
            rows = []
            for x, y in zip(u, v, strict=True):
                parts = [x, y, (x - y).abs(), *([x * y] if product else [])]  # noqa: B023
                rows.append(w @ torch.cat(parts) + (0 if b is None else b))
            logits[:] = rows  # noqa: B023
            losses = [r.exp().sum().log() - r[k] for r, k in zip(rows, labels, strict=True)]
            return torch.stack(losses).mean()

        inputs = {**pair, "weight": weight} | ({} if "no_bias" in key else {"bias": bias})
        arrays |= with_gradients(key, inputs, loss) | {weight_name: weight}
        if key == "official_":
            arrays["logits_f64"] = torch.stack(logits)
    save("baselines/sbert_softmax", **pair, bias=bias, labels=labels, num_labels=3, **arrays)


def make_baselines() -> None:
    make_mixcse()
    make_gs_infonce()
    make_vicreg()
    make_vascl()
    make_arccse()
    make_dclr()
    make_esimcse()
    make_ct()
    make_consert()
    make_declutr()
    make_promptbert()
    make_pcl()
    make_is_bert()
    make_sbert_softmax()
