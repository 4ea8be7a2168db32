"""The reference files of the baselines of the papers' tables; run make_golden.py."""

from __future__ import annotations

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


def make_baselines() -> None:
    make_mixcse()
    make_gs_infonce()
    make_vicreg()
