"""Small reference files of the flow and of averaged word vectors, for make_golden.py."""

from __future__ import annotations

import math
import string

import numpy as np
import torch
from golden_reference import draw, save
from torch import Tensor

DIM, LEVELS, DEPTH, WIDTH = 8, 2, 2, 3
Parameters = dict[str, Tensor]


def scaled(p: Parameters, name: str, rows: Tensor, initialise: bool) -> Tensor:
    """(x + b) exp(3 logs), a column at a time; b and logs first made of the column if asked for."""
    columns, offsets, logs = [], [], []
    for j, column in enumerate(rows.unbind(1)):
        if initialise:
            offsets.append(-sum(column) / len(column))
            square = sum((value + offsets[-1]) ** 2 for value in column) / len(column)
            logs.append(torch.log(1 / (square.sqrt() + 1e-6)) / 3)
        else:
            offsets.append(p[f"{name}_b"][j])
            logs.append(p[f"{name}_logs"][j])
        columns.append((column + offsets[-1]) * torch.exp(3 * logs[-1]))
    p[f"{name}_b"], p[f"{name}_logs"] = torch.stack(offsets), torch.stack(logs)
    return torch.stack(columns, 1)


def flow(p: Parameters, x: Tensor, initialise: bool = False) -> tuple[Tensor, Tensor]:
    """z (n, dim), and the log-determinant."""
    parts, determinant = [], x.new_zeros(())
    for level in range(LEVELS):
        for step in range(DEPTH):
            key = f"L{level}S{step}"
            x = scaled(p, f"{key}_actnorm", x, initialise)
            determinant = determinant + 3 * p[f"{key}_actnorm_logs"].sum()
            half = x.shape[1] // 2
            x = torch.stack([x[:, j] for j in reversed(range(2 * half))], 1)
            a = x[:, :half]
            for layer in ("nn1", "nn2"):
                a = scaled(p, f"{key}_{layer}", a @ p[f"{key}_{layer}_W"], initialise).clamp(min=0)
            shift = scaled(p, f"{key}_out", a @ p[f"{key}_out_W"], False)
            x = torch.cat([x[:, :half], x[:, half:] + shift], 1)
        if level < LEVELS - 1:
            parts.append(x[:, half:])
            x = x[:, :half]
    return torch.cat([*parts, x], 1), determinant


def bits(z: Tensor, determinant: Tensor) -> Tensor:
    rows = [sum(-v * v / 2 - math.log(2 * math.pi) / 2 for v in row) for row in z]
    return torch.stack([-(row + determinant) / (DIM * math.log(2)) for row in rows])


def parameters(general: bool) -> Parameters:
    """All, or those that the initialisation does not set."""
    generator = torch.Generator().manual_seed(70)
    made: Parameters = {}

    def normal(name: str, std: float, *shape: int) -> None:
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        made[name] = (std * values).float()

    for level in range(LEVELS):
        dim = DIM >> level
        for step in range(DEPTH):
            key = f"L{level}S{step}"
            normal(f"{key}_nn1_W", 0.4 if general else 0.05, dim // 2, WIDTH)
            normal(f"{key}_nn2_W", 0.4 if general else 0.05, WIDTH, WIDTH)
            normal(f"{key}_out_W", 0.3, WIDTH, dim // 2)
            sizes = {"out": dim // 2}
            if general:
                sizes |= {"actnorm": dim, "nn1": WIDTH, "nn2": WIDTH}
            for layer, size in sizes.items():
                normal(f"{key}_{layer}_b", 0.1, size)
                normal(f"{key}_{layer}_logs", 0.05, size)
    return made


def constants(x: Tensor) -> dict[str, object]:
    return {"x": x, "levels": LEVELS, "depth": DEPTH, "width": WIDTH, "dim": DIM}


def make_flow() -> None:
    recorded, x = parameters(general=True), draw(71, 5, DIM)
    leaves = {name: value.double().requires_grad_() for name, value in recorded.items()}
    leaf = x.double().requires_grad_()
    z, determinant = flow(dict(leaves), leaf)
    rows = bits(z, determinant)
    rows.mean().backward()
    some = ("L0S0_nn1_W", "L0S1_actnorm_b", "L1S0_out_W", "L1S1_actnorm_logs")
    save(
        "bert_flow",
        **constants(x),
        **recorded,
        z_f64=z,
        bpd_f64=rows,
        loss_f64=rows.mean(),
        logdet_f64=determinant,
        grad_x_f64=leaf.grad,
        **{f"grad_{name}_f64": leaves[name].grad for name in some},
    )


def make_flow_initialisation() -> None:
    recorded, x, first = parameters(general=False), draw(72, 4, DIM), draw(73, 9, DIM)
    arrays: dict[str, object] = {}
    for case in ("init", "ddi"):
        p = {name: value.double() for name, value in recorded.items()}
        if case == "init":
            p = {name: 0 * v if "_out_" in name else v for name, v in p.items()}
        flow(p, first.double(), initialise=True)
        for name, value in p.items():
            wanted = "_actnorm_" in name or (case == "ddi" and name not in recorded)
            if wanted:
                arrays[f"{case}_{name}_f64"] = value
        for batch, rows in (("x_init", first), ("x", x)):
            z, determinant = flow(p, rows.double())
            arrays[f"{case}_z_{batch}_f64"] = z
            arrays[f"{case}_bpd_{batch}_f64"] = bits(z, determinant)
        arrays[f"{case}_logdet_f64"] = determinant
    save("bert_flow_init", **constants(x), x_init=first, **recorded, **arrays)


def lower_split(text: str) -> list[str]:
    """Runs of letters, digits and _, and all else that is no white space by itself."""
    words, run = [], ""
    for character in text.lower() + " ":
        if character.isalnum() or character == "_":
            run += character
            continue
        words += [run] if run else []
        words += [] if character.isspace() else [character]
        run = ""
    return words


def whitespace(text: str, vocab: list[str], stop: list[str]) -> list[str]:
    found = []
    for word in text.split():
        bare = word.strip(string.punctuation)
        for candidate in (word, bare, bare.lower()):
            if candidate in stop:
                break
            if candidate in vocab:
                found.append(candidate)
                break
    return found


def make_glove() -> None:
    sentences = ["The cat sat.", "a CAT , sat !", "it's odd", "", "Cat cat", "mat-cat 42_x 42"]
    vocab = ["the", "cat", "Cat", "sat", ".", ",", "'", "s", "it", "a", "42_x", "mat", "-", "42"]
    stop, vectors = ["the", "it", "42"], draw(74, len(vocab), 6)
    arrays: dict[str, object] = {}
    cuts = {
        "lower_split": [lower_split(s) for s in sentences],
        "official_exact": [s.split() or ["."] for s in sentences],
        "official_whitespace": [whitespace(s, vocab, []) for s in sentences],
        "official_whitespace_stop": [whitespace(s, vocab, stop) for s in sentences],
    }
    for name, cut in cuts.items():
        ids = [[vocab.index(w) for w in words if w in vocab] for words in cut]
        rows = [vectors[row].double().mean(0) if row else torch.zeros(6).double() for row in ids]
        lengths = [row.norm().clamp(min=1e-12) for row in rows]
        cosine = [
            [a @ b / (x * y) for b, y in zip(rows, lengths, strict=True)]
            for a, x in zip(rows, lengths, strict=True)
        ]
        longest = max(map(len, ids))
        arrays[f"{name}_ids"] = np.array([row + [-1] * (longest - len(row)) for row in ids])
        arrays[f"{name}_mean_f64"] = torch.stack(rows)
        arrays[f"{name}_cosine_f64"] = torch.tensor(cosine)
    save(
        "glove_average",
        sentences=np.array(sentences),
        vocab=np.array(vocab),
        stop_words=np.array(stop),
        vectors=vectors,
        dim=6,
        **arrays,
    )
