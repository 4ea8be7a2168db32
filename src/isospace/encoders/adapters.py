"""Low-rank adapters (peft) on frozen weights.

LoRA (Hu et al. 2022, https://openreview.net/forum?id=nZeVKeeFYf9): a matrix W becomes W + B A; only
B and A are trained. B starts at 0, so adapters leave the encoder unchanged before training.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from isospace.errors import UserError, first_line

IN, OUT = ".lora_A.", ".lora_B."
"""Parts of the parameter names of A, (rank, in), and B, (out, rank)."""


def insert(transformer: nn.Module, rank: int, seed: int, name: str) -> None:
    """Add an adapter to each linear layer of a transformer, which the caller has frozen.

    All layers come close to training all weights (QLoRA, Dettmers et al. 2023, section 4). The
    adapters have no dropout, and the scale of B A is 1. `seed` draws A; `name` stands in errors.
    """
    from peft import LoraConfig, inject_adapter_in_model

    settings = LoraConfig(r=rank, lora_alpha=rank, target_modules="all-linear")
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # GPT-2 stores its matrices transposed; peft handles that with a warning.
        warnings.filterwarnings("ignore", message="fan_in_fan_out")
        torch.default_generator.manual_seed(seed)
        try:
            inject_adapter_in_model(settings, transformer)
        except ValueError as error:
            raise UserError(
                f"`lora` {rank}: {name} has no linear layers for "
                f"adapters ({first_line(error)}). Leave `lora` out"
            ) from error


def has_adapters(module: nn.Module) -> bool:
    """Return true if any layer has an adapter."""
    return bool(_adapted(module))


def plain_state(module: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers with the adapters merged in.

    Before training, they equal the base model's bit for bit.
    """
    state: dict[str, Tensor] = module.state_dict()
    for name, layer in _adapted(module).items():
        own = [key for key in state if key.startswith(f"{name}.")]
        parts = {key.removeprefix(f"{name}."): state.pop(key) for key in own}
        with torch.no_grad():
            added = layer.get_delta_weight(layer.active_adapters[0])
            parts["base_layer.weight"] = parts["base_layer.weight"] + added
        base = {key: x for key, x in parts.items() if key.startswith("base_layer.")}
        state |= {f"{name}.{key.removeprefix('base_layer.')}": x for key, x in base.items()}
    return state


def trained_state(module: nn.Module) -> dict[str, Tensor]:
    """Return the content of a checkpoint: all parameters and buffers, or only the adapters."""
    state: dict[str, Tensor] = module.state_dict()
    if not has_adapters(module):
        return state
    return {name: x for name, x in state.items() if IN in name or OUT in name}


def load_plain(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Replace layers with adapters by their base layers, and load a state of `plain_state`."""
    for name, layer in _adapted(module).items():
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, layer.get_base_layer())
    for part in module.modules():
        vars(part).pop("peft_config", None)
    module.load_state_dict(state)


def _adapted(module: nn.Module) -> dict[str, Any]:
    """Return name -> layer for the layers with an adapter."""
    return {name: part for name, part in module.named_modules() if hasattr(part, "lora_A")}
