"""Checkpoints: one file, written atomically, with everything needed to resume bit for bit."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from isospace.encoders.adapters import load_plain, plain_state
from isospace.errors import UserError, first_line
from isospace.system.files import atomic_path

FORMAT = 6
"""Version of the layout; other versions are refused."""


def random_state() -> dict[str, Any]:
    """Return the state of all global random generators of this process.

    Only the current CUDA device counts: a process uses no other, and the machine on which a run
    resumes may have another number of devices.
    """
    kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    return {
        "torch": torch.get_rng_state(),
        "cuda": [torch.cuda.get_rng_state()] if torch.cuda.is_available() else [],
        "mps": [torch.mps.get_rng_state()] if torch.backends.mps.is_available() else [],
        "python": list(random.getstate()[1]),
        "gauss": random.getstate()[2],
        "numpy": [str(kind), list(map(int, keys)), int(position), int(has_gauss), float(gauss)],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Restore what `random_state` returned."""
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available() and state["cuda"]:
        torch.cuda.set_rng_state(state["cuda"][0])
    if torch.backends.mps.is_available() and state["mps"]:
        torch.mps.set_rng_state(state["mps"][0])
    random.setstate((3, tuple(state["python"]), state["gauss"]))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.asarray(keys, dtype=np.uint32), *rest))


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
                f"{folder}: {name} has changed since this run began. Restore what it was, or start "
                "a new run"
            )
