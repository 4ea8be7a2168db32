"""Quick dropout is dropout."""

import pytest
import torch

from isospace.encoders.fast import packed


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.15, 0.5])
def test_keep_mask_keeps_its_rate_and_its_mean(rate):
    torch.manual_seed(0)
    mask = packed.keep_mask(torch.empty(1001, 999), rate)
    dropped = (mask == 0).double()
    spread = 5 * (rate * (1 - rate) / mask.numel()) ** 0.5
    assert abs(dropped.mean() - rate) < spread + 2**-16
    assert mask.unique().numel() == 2
    assert abs(float(mask.double().mean()) - 1) < spread / (1 - rate)
    # Four elements share one draw: each quarter has the rate, and neighbours are independent.
    flat = dropped.flatten()
    for quarter in range(4):
        assert abs(flat[quarter::4].mean() - rate) < 2 * spread + 2**-16
    for distance in (1, 2, 3, 4):
        both = (flat[:-distance] * flat[distance:]).mean()
        assert abs(both - rate**2) < spread
