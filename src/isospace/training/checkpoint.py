"""Checkpoints: one file, written atomically, with everything needed to resume bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from isospace.encoders.adapters import load_plain, plain_state
from isospace.errors import UserError, first_line
from isospace.system.files import atomic_path

FORMAT = 6
"""Version of the layout; other versions are refused."""


def save_weights(path: Path, model: nn.Module) -> None:
    """Write a model's weights, with adapters merged into them."""
    # Copies, because tied weights share memory and the format knows no sharing.
    weights = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in plain_state(model).items()
    }
    with atomic_path(path) as temporary:
        save_file(weights, temporary)


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read what `save_weights` wrote."""
    try:
        return load_file(path)
    except Exception as error:  # safetensors' own, and whatever torch says of a length or a type
        raise UserError(
            f"{path}: the weights cannot be read ({first_line(error)}). The file is damaged"
        ) from error


def put_weights(path: Path, model: nn.Module) -> None:
    """Load the file of `save_weights` into a model; its adapters are removed."""
    load_plain(model, load_weights(path))


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint of tensors, numbers, strings, lists and dicts."""
    with atomic_path(path) as temporary:
        try:
            torch.save({"format": FORMAT, **state}, temporary)
        except RuntimeError as error:  # what torch's own writer makes of a failed write
            raise OSError(f"{path}: cannot be written. Check whether the disk is full") from error


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU, without running any code in it."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(
            f"{path}: the checkpoint cannot be read ({type(error).__name__}). The file is damaged"
        ) from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise UserError(
            f"{path}: another version of isospace wrote this checkpoint; this version reads "
            f"format {FORMAT}. Use that version, or start a new run"
        )
    return state


def require_unchanged(folder: Path, then: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse to resume a run whose settings, text, files or models have changed."""
    for setting, digest in now.items():
        if then.get(setting) != digest:
            name = f"`{setting}`" if setting.isidentifier() else setting
            raise UserError(
                f"{folder}: {name} has changed since this run began. Restore it, or start a new run"
            )
