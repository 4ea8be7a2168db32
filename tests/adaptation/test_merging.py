"""Weights between a base model and a fine-tuned one."""

import pytest
import torch

from isospace.adaptation.candidates import merge


def state(seed: int) -> dict[str, torch.Tensor]:
    draws = torch.Generator().manual_seed(seed)
    return {
        "weight": torch.randn(50, 40, generator=draws),
        "half": torch.randn(7, generator=draws).half(),
        "zeros": torch.tensor([0.0, -0.0, 1e-38, -1e38]),
        "positions": torch.arange(5) + seed,
    }


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.numpy().tobytes()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_ends_are_start_and_result_bit_for_bit(share):
    start, result = state(0), state(1)
    result["zeros"] = torch.tensor([-0.0, 0.0, 1e38, 1e-38])
    merged = merge(start, result, share)
    end = (start, result)[int(share)]
    for name in ("weight", "half", "zeros"):
        assert bits(merged[name]) == bits(end[name])
        assert merged[name].dtype == start[name].dtype
    assert merged["positions"].tolist() == start["positions"].tolist()


def test_between_them_is_the_weighted_mean():
    start, result = state(0), state(1)
    by_hand = 0.25 * start["weight"] + 0.75 * result["weight"]
    torch.testing.assert_close(merge(start, result, 0.75)["weight"], by_hand)
