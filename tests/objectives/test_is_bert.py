"""IS-BERT's estimator and convolutions: golden files, padding, a case by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from golden_files import (
    BASELINE,
    DTYPES,
    File,
    check,
    check_gradient,
    files,
    leaf,
    precisions,
    read,
    scalar,
)
from objective_views import random
from torch import Tensor

from isospace.objectives.heads import WordConvolutions, seeded
from isospace.objectives.is_bert import mutual_information

FORMS = {
    "official_pads_zeroed_": {"relu": False},
    "official_": {"relu": False, "zero_padding": False},
    "paper_relu_": {},
}


def convolutions(file: File, precision: str, **options: bool) -> WordConvolutions:
    sizes = file["kernel_sizes"].tolist()
    head = WordConvolutions(
        file["h"].shape[2], int(file["channels"]), seeded(0), kernel_sizes=sizes, **options
    )
    weights = {
        f"convolutions.{i}.{part}": file[f"conv{size}_{part}"]
        for i, size in enumerate(sizes)
        for part in ("weight", "bias")
    }
    head.load_state_dict(weights)
    return head.to(DTYPES[precision])


@precisions
@files("baselines/isbert_conv")
def test_convolutions(path: Path, precision: str) -> None:
    file = read(path)
    rel, limit = (1e-10, 1e-10) if precision == "f64" else (BASELINE, 1e-5)
    for key, options in FORMS.items():
        head = convolutions(file, precision, **options)
        h, mask = leaf(file["h"], precision), file["mask"]
        words, sentence = head(h, mask)
        stored = file[f"{key}local_f64_as_f32"].double()
        torch.testing.assert_close(words.double(), stored, rtol=1e-5, atol=max(limit, 1e-6))
        torch.testing.assert_close(sentence.double(), file[f"{key}global_f64"], rtol=0, atol=limit)
        own, other = mutual_information(words, sentence, mask, constants="paper" not in key)
        for found, name in ((own, "e_pos"), (other, "e_neg"), (other - own, "loss")):
            scalar(found, file[f"{key}{name}_f64"], rel)
        (other - own).backward()
        check_gradient(file, f"{key}grad_h", precision, h)
        for size, convolution in zip(file["kernel_sizes"].tolist(), head.convolutions, strict=True):
            for part, parameter in convolution.named_parameters():
                check_gradient(file, f"{key}grad_conv{size}_{part}", precision, parameter)


@precisions
@files("baselines/isbert_jsd")
def test_estimator(path: Path, precision: str) -> None:
    file = read(path)
    mask = file["mask"]
    inputs = {name: file[name] for name in ("local", "sentence")}
    for key, options in (
        ("official_", {}),
        ("paper_", {"constants": False}),
        ("variant_mean_per_sentence_", {"mean_over": "sentences"}),
    ):

        def loss(local: Tensor, sentence: Tensor, options: dict[str, object] = options) -> Tensor:
            own, other = mutual_information(local, sentence, mask, **options)  # type: ignore[arg-type]
            return other - own

        check(file, key, precision, inputs, loss, rel=BASELINE)
        doubles = (x.double() for x in inputs.values())
        both = mutual_information(*doubles, mask, **options)  # type: ignore[arg-type]
        for found, name in zip(both, ("e_pos", "e_neg"), strict=True):
            scalar(found, file[f"{key}{name}_f64"], 1e-10)


def test_nothing_is_known_of_what_says_nothing() -> None:
    """All scores 0: both estimates are 0 with the constants, and their difference 2 log 2 without."""
    local, sentence, mask = torch.zeros(3, 4, 5), torch.ones(3, 5), torch.ones(3, 4)
    own, other = mutual_information(local, sentence, mask)
    assert (own.item(), other.item()) == pytest.approx((0, 0), abs=1e-7)
    own, other = mutual_information(local, sentence, mask, constants=False)
    assert (other - own).item() == pytest.approx(2 * math.log(2))


def test_features_depend_on_the_sentence_and_not_on_its_padding() -> None:
    h, mask = random(2, 5, 4), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    longer = torch.cat([h, random(2, 3, 4, seed=1)], dim=1)
    longer[0, 3:] += 7
    more = torch.cat([mask, torch.zeros(2, 3, dtype=torch.long)], dim=1)
    released = WordConvolutions(4, 3, seeded(0), zero_padding=False).double()
    ours = WordConvolutions(4, 3, seeded(0)).double()
    torch.testing.assert_close(ours(h, mask)[1], ours(longer, more)[1])
    assert not torch.allclose(released(h, mask)[1], released(longer, more)[1])
    words, sentence = ours(longer, more)
    assert not words[0, 3:].any()
    torch.testing.assert_close(sentence[0], words[0, :3].mean(0))


def test_weights_come_from_the_generator_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again, other = (WordConvolutions(4, 3, seeded(s)) for s in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    for a, b, c in zip(first.parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
