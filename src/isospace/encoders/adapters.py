"""Low-rank adapters (peft) on frozen weights, and merging them into the weights.

LoRA (Hu et al. 2022, https://openreview.net/forum?id=nZeVKeeFYf9): a matrix W becomes W + B A; only
B and A are trained. B starts at 0, so adapters leave the encoder unchanged before training.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from isospace.errors import UserError

IN, OUT = ".lora_A.", ".lora_B."
"""Parts of the parameter names of A, (rank, in), and B, (out, rank)."""


def insert(model: nn.Module, rank: int, seed: int) -> None:
    """Freeze a Hugging Face model, and add an adapter to each of its linear layers.

    peft's default is two attention layers in each family that it knows. All layers need no list of
    families, and come close to training all weights (QLoRA, Dettmers et al. 2023, section 4). The
    adapters have no dropout, and the scale of B A is 1. `seed` draws A.

    Raises:
        ValueError: the model has no linear layers.
    """
    from peft import LoraConfig, inject_adapter_in_model

    settings = LoraConfig(r=rank, lora_alpha=rank, target_modules="all-linear")
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # GPT-2 stores its matrices transposed; peft handles that with a warning.
        warnings.filterwarnings("ignore", message="fan_in_fan_out")
        torch.default_generator.manual_seed(seed)
        inject_adapter_in_model(settings, model)


def remove(module: nn.Module) -> None:
    """Replace all layers with adapters by their plain base layers."""
    for name, layer in _adapted(module).items():
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, layer.get_base_layer())
    for part in module.modules():
        vars(part).pop("peft_config", None)


def has_adapters(module: nn.Module) -> bool:
    """Return true if any layer has an adapter."""
    return any(map(_is_adapted, module.modules()))


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


def load_trained(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load a state of `trained_state`; the frozen weights stay."""
    module.load_state_dict({**module.state_dict(), **state})


def load_plain(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Remove adapters, and load a state of `plain_state`."""
    remove(module)
    module.load_state_dict(state)


def merge_adapters(model: SentenceTransformer, folders: Sequence[Path]) -> None:
    """Merge adapters into the weights of a loaded model, so that all weights can be trained.

    An adapter that transformers has already loaded is merged first, then the peft adapters of the
    folders, in order.

    Raises:
        UserError: an adapter was trained on another model, or cannot be merged.
    """
    transformer: Any = getattr(model[0], "model", None)
    if getattr(transformer, "_hf_peft_config_loaded", False):
        transformer.float()  # half precision would round small updates away
        _merge(transformer)
        transformer.requires_grad_(True)  # peft has frozen all weights except the adapters
    for folder in folders:
        from peft import PeftModel

        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Found missing adapter keys")
            try:
                adapted: Any = PeftModel.from_pretrained(transformer.float(), str(folder))
            except (UserWarning, RuntimeError):  # other layer names or sizes
                raise UserError(
                    f"{folder}: the adapter was trained on other layers than its base model has, "
                    f"a {type(transformer).__name__}. Merge the two with peft, and give the "
                    "merged model"
                ) from None
        if adapted.active_peft_config.is_prompt_learning:
            raise UserError(
                f"{folder}: the adapter adds tokens of its own "
                f"({adapted.active_peft_config.peft_type.value}), which cannot be merged into "
                "weights. Give a model that was trained with LoRA, or in full"
            )
        adapted.merge_and_unload()
        transformer.requires_grad_(True)


def _merge(transformer: Any) -> None:
    """Merge adapters that transformers has loaded, like peft's `merge_and_unload`."""
    merged: tuple[str, ...] = ()
    for name, part in list(transformer.named_modules()):
        if name.startswith(merged):
            continue
        if hasattr(part, "unload_and_optionally_merge_module"):
            plain = part.unload_and_optionally_merge_module(True, False, None)
        elif hasattr(part, "base_layer"):
            part.merge()
            plain = part.get_base_layer()
        else:
            continue
        parent, _, own = name.rpartition(".")
        setattr(transformer.get_submodule(parent), own, plain)
        merged += (f"{name}.",)
    del transformer.peft_config
    transformer._hf_peft_config_loaded = False
    transformer._weight_conversions = None  # saving would otherwise use the adapter file's names


def _adapted(module: nn.Module) -> dict[str, Any]:
    """Return name -> layer for the layers with an adapter."""
    return {name: part for name, part in module.named_modules() if _is_adapted(part)}


def _is_adapted(part: nn.Module) -> bool:
    return hasattr(part, "lora_A")
