"""The modules of a sentence-transformers model: those of each side, and their pooling."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Module,
    Pooling,
    Router,
    StaticEmbedding,
    Transformer,
    WeightedLayerPooling,
    WordWeights,
)
from torch import nn

from isospace.encoders.settings import NAMES, POOLINGS, PoolingName, Prompts, Side
from isospace.errors import UserError


def default_route(model: SentenceTransformer, source: str) -> Side | None:
    """Return the side whose modules encode a text without a side; `None` without a `Router`.

    A router without a default encodes such texts as documents.

    Raises:
        UserError: a router has other routes, or two routers have different defaults.
    """
    routers = [module for module in model.modules() if isinstance(module, Router)]
    if not routers:
        return None
    defaults = {router.default_route or "document" for router in routers}
    if len(defaults) == 1 and all(
        router.sub_modules.keys() == NAMES.keys() and not router.route_mappings
        for router in routers
    ):
        return cast(Side, defaults.pop())
    raise UserError(
        f"{source}: isospace reads a Router only with the routes query and document, no "
        "route_mappings, and the same default as any other Router of the model. Give another model"
    )


def require_one_way(prompts: Prompts, source: str, what: str) -> None:
    """Refuse an encoder with different modules for queries and documents for a task `what`."""
    if prompts.routed:
        raise UserError(
            f"{source}: queries pass other modules than documents (Router), and {what} needs the "
            "same for all texts. Give a model without a Router, such as the base model of this one"
        )


def modules_of(modules: Iterable[nn.Module], side: Side | None) -> list[nn.Module]:
    """Return the modules of a model that encode a text of a side, in order."""
    passed: list[nn.Module] = []
    for module in modules:
        if isinstance(module, Router):
            route = side or module.default_route or "document"
            passed += modules_of(cast(nn.Sequential, module.sub_modules[route]), side)
        else:
            passed.append(module)
    return passed


def module_names(model: SentenceTransformer, side: Side | None) -> list[str]:
    """Return the type of each module of a side, with the settings that determine its output."""
    names = []
    for module in modules_of(model, side):
        name = type(module).__name__
        if not getattr(module, "include_prompt", True):
            name += " less prompt"
        if isinstance(module, Dense):
            name += f" {module.get_config_dict()}"
        names.append(name)
    return names


def includes_prompt(model: SentenceTransformer) -> bool:
    """Return true if the pooling includes the tokens of a prompt."""
    return all(module.include_prompt for module in model if isinstance(module, Pooling))


def pooling_of(model: SentenceTransformer) -> str:
    """Return the pooling's name in `POOLINGS`, or a description if it has none."""
    if isinstance(model[0], StaticEmbedding):
        return "mean"
    layer_pooling = next((m for m in model if isinstance(m, WeightedLayerPooling)), None)
    token_pooling = next((m for m in model if isinstance(m, Pooling)), None)
    if token_pooling is None:
        return "none"
    between = _before_pooling(model)
    if any(
        isinstance(m, WordWeights) and len(m.word_weights) == 1 and m.unknown_word_weight == 0
        for m in between
    ):  # as `at_mask` makes it
        return "mask"
    if between:
        names = (type(module).__name__ for module in between)
        return ", ".join([*names, str(token_pooling.pooling_mode)])
    if layer_pooling is None:
        return str(token_pooling.pooling_mode)
    weights = [0.0] * layer_pooling.layer_start + layer_pooling.layer_weights.tolist()
    used = tuple(i for i, w in enumerate(weights) if w)
    shares = [weights[i] for i in used]
    for name, (layers, tokens) in POOLINGS.items():
        averaged = tuple(sorted(i % len(weights) for i in layers))
        same = (used, token_pooling.pooling_mode) == (averaged, tokens)
        if same and len(set(shares)) == 1:
            return name
    return f"layers {used} by {shares}, {token_pooling.pooling_mode}"


def with_pooling(model: SentenceTransformer, name: PoolingName, source: str) -> SentenceTransformer:
    """Return a model with another pooling and the same weights.

    Raises:
        UserError: the pooling of word vectors, of the routes of a `Router`, and behind modules that
            change token states cannot be changed.
    """
    first: Any = model[0]
    if not isinstance(first, Transformer) or _before_pooling(model):
        if name == pooling_of(model):
            return model
        modules = ", ".join(type(module).__name__ for module in model)
        raise UserError(
            f"`pooling` {name}: {source} has a fixed pooling ({modules}). Leave `pooling` out"
        )
    # Copy all but the weights: the caller may still use the model with its own pooling.
    tensors = *first.parameters(), *first.buffers()
    shared = {id(part): part for part in (*tensors, first.processor)}
    first = copy.deepcopy(first, shared)
    config, dim = first.model.config, int(first.get_embedding_dimension())
    pooling = pooling_modules(name, dim, config.num_hidden_layers, includes_prompt(model))
    config.output_hidden_states = len(pooling) > 1
    after = [m for m in list(model)[1:] if not isinstance(m, Pooling | WeightedLayerPooling)]
    return rebuilt(model, [first, *pooling, *after])


def pooling_modules(
    name: PoolingName, dim: int, layers: int, include_prompt: bool = True
) -> list[nn.Module]:
    """Return the modules of a pooling for a transformer with `layers` layers of width `dim`."""
    averaged, tokens = POOLINGS[name]
    pooling = Pooling(dim, tokens, include_prompt=include_prompt)
    if len(averaged) == 1:
        return [pooling]
    weights = torch.zeros(layers + 1)
    weights[list(averaged)] = 1.0
    frozen = nn.Parameter(weights, requires_grad=False)
    return [WeightedLayerPooling(dim, layers, layer_start=0, layer_weights=frozen), pooling]


def rebuilt(model: SentenceTransformer, modules: Sequence[nn.Module]) -> SentenceTransformer:
    """Return a model of these modules with the device, prompts and similarity of `model`."""
    return SentenceTransformer(
        modules=list(modules),
        device=str(next(model.parameters()).device),
        prompts={name: text for name, text in model.prompts.items() if text},
        default_prompt_name=model.default_prompt_name,
        similarity_fn_name=model.similarity_fn_name,
    )


def routed(queries: Iterable[nn.Module], documents: SentenceTransformer) -> SentenceTransformer:
    """Return a model with modules of its own for queries; other texts pass those of `documents`."""
    routes = {"query": cast(list[Module], [*queries]), "document": cast(list[Module], [*documents])}
    model = rebuilt(documents, [Router(routes, default_route="document")])
    model.similarity_fn_name = "cosine"
    return model


def _before_pooling(model: SentenceTransformer) -> list[nn.Module]:
    """Return the modules that change the token states before pooling."""
    modules = list(model)
    end = next((i for i, m in enumerate(modules) if isinstance(m, Pooling)), 1)
    return [m for m in modules[1:end] if not isinstance(m, WeightedLayerPooling)]
