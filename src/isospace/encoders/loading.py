"""Load an encoder by name, and hash what it computes."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch
from pydantic import ValidationError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize
from sentence_transformers.util import is_sentence_transformer_model
from torch import nn

from isospace.encoders.adapters import merge_adapters, plain_state
from isospace.encoders.encoder import Encoder
from isospace.encoders.frozen import load_frozen
from isospace.encoders.modules import module_names, modules_of
from isospace.encoders.places import loading, require_undamaged, resolve
from isospace.encoders.pooling import PoolingName
from isospace.encoders.prompts import Side, prompt_text
from isospace.encoders.trained import attend_both_ways, is_causal
from isospace.encoders.vector_sources import ABOUT, is_frozen_name
from isospace.encoders.words import read_vectors, word_file, word_model
from isospace.errors import UserError
from isospace.system.devices import default_device
from isospace.system.quiet import warn_once
from isospace.system.settings import adapter
from isospace.system.typed_json import first_problem

logger = logging.getLogger(__name__)

Model: TypeAlias = str | Path | SentenceTransformer | Encoder
"""A model, or what names one."""

KEY = "isospace"
"""The key in config.json under which an export to a Hugging Face folder says how vectors are made.

Its prompts stand under their own keys.
"""

_NO_ARCHITECTURE = {
    "_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache",
}  # fmt: skip
"""Settings of a transformer that change no vector, beside those of dropout and of outputs."""


def load_encoder(
    name: str = "minilm",
    pooling: PoolingName | None = None,
    device: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    bidirectional: bool = False,
    half: bool = False,
) -> Encoder:
    """Load an encoder.

    Args:
        name: "minilm", a sentence-transformers folder, a Hugging Face encoder folder, a run's
            folder, a peft adapter's folder, a Hub name (NAME@REVISION: as it was at that commit,
            tag or branch), or glove:FILE for word vectors (`words.word_file`). Adapters are merged
            into the weights. Also http://HOST/v1#NAME for an endpoint, and vectors:FILE for
            vectors in Parquet (`frozen.py`).
        pooling: one of `isospace.encoders.pooling.POOLINGS`; default: the model's own; for a
            Hugging Face folder, which has none, the last token of a decoder and else the mean,
            which a warning says. What isospace has exported says it itself.
        device: default: `devices.default_device()`.
        query_prompt: put before every query, or the name of one of the encoder's prompts; default:
            the encoder's own (`prompts.Prompts.of_model`).
        document_prompt: put before every document, in the same way.
        bidirectional: let every token of a decoder see those after it too.
        half: keep the weights in bfloat16, and compute so.

    Raises:
        UserError: not found, not reachable, not readable, or not a text encoder.
    """
    place = resolve(name)
    for folder in (Path(place.path), *place.adapters):
        require_undamaged(folder)
    if is_frozen_name(place.path) or (Path(place.path) / ABOUT).is_file():
        frozen = load_frozen(name, place.path)
        if pooling is not None:
            frozen.set_pooling(pooling)
        set_prompts(frozen, query_prompt, document_prompt)
        return frozen
    device, words = device or default_device(), word_file(name)
    # What a checkpoint lacks is drawn, such as a RoBERTa's pooler, which no vector depends on:
    # the same each time, or the encoder would have another hash in every process.
    with (
        loading(f"{name}: {place.path} cannot be loaded as an encoder"),
        torch.random.fork_rng(devices=[]),
    ):
        torch.default_generator.manual_seed(0)
        if words is None:
            model = SentenceTransformer(place.path, device=device, **place.options)
            merge_adapters(model, place.adapters)
        else:
            file, tokens = words
            model = word_model(*read_vectors(file), tokens).to(device)
    if not all(weights.isfinite().all() for weights in model.parameters()):
        raise UserError(
            f"{name}: some weights are not finite numbers (NaN). The file is damaged, or the "
            "training diverged. Give another model"
        )
    unread = words is None and not is_sentence_transformer_model(
        place.path, revision=place.revision, local_files_only=place.local
    )
    making = _take_making(model, name)
    if unread and making is not None:
        _follow(model, making)
    # Weights are float32, however they were saved: small updates of others would be rounded away.
    encoder = Encoder(model.bfloat16() if half else model.float(), name)
    if unread:
        pooling = _assumed_pooling(encoder, making, pooling)
    if bidirectional:
        attend_both_ways(encoder)
    if pooling is not None:
        encoder.set_pooling(pooling)
    set_prompts(encoder, query_prompt, document_prompt)
    return encoder


def set_prompts(encoder: Encoder, query: str | None, document: str | None) -> None:
    """Give an encoder other prompts than its own, for one side or both; `None` leaves a side.

    Raises:
        UserError: a bare word that is no name of one of its prompts.
    """
    given: dict[Side, str | None] = {"query": query, "document": document}
    for side, value in given.items():
        if value is not None:
            text = prompt_text(f"{side}_prompt", value, encoder.model.prompts, encoder.source)
            encoder.prompts = encoder.prompts.with_text(side, text)


def as_encoder(
    model: Model,
    pooling: PoolingName | None = None,
    device: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
) -> Encoder:
    """Return the encoder that a Python user names or gives; given weights are not copied.

    Args:
        model: as `load_encoder` takes it, as text or a path; or a loaded model.
        pooling: default: the model's own.
        device: default: as `load_encoder`; a loaded model stays where it is.
        query_prompt: as for `load_encoder`.
        document_prompt: as for `load_encoder`.

    Raises:
        UserError: nothing there can be loaded, or something else is given.
    """
    if isinstance(model, str | Path):
        return load_encoder(str(model), pooling, device, query_prompt, document_prompt)
    if isinstance(model, SentenceTransformer):
        encoder = Encoder(model, "the given model")
    elif isinstance(model, Encoder):
        encoder = type(model)(model.model, model.source, model.prompts)
    else:
        raise UserError(
            f"{type(model).__name__}: not a model. Give minilm, a model folder, a run's folder or "
            "a Hub name, as text or a path; or a SentenceTransformer"
        )
    if pooling is not None:
        encoder.set_pooling(pooling)
    set_prompts(encoder, query_prompt, document_prompt)
    return encoder if device is None else encoder.to(device)


@dataclass(frozen=True)
class _Making:
    """Settings by which a model makes vectors.

    Attributes:
        pooling: name in `POOLINGS`.
        max_length: longest input in tokens; `None`: no limit is known.
        normalised: whether vectors have length 1.
        prompts: name -> text, as `SentenceTransformer.prompts`.
        default_prompt_name: of the prompt of texts without a side.
    """

    pooling: PoolingName
    max_length: int | None
    normalised: bool
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None


def _take_making(model: SentenceTransformer, source: str) -> _Making | None:
    """Take out of a model's configuration what an export wrote there; `None` where it did not.

    Raises:
        UserError: somebody has changed it to what has no meaning.
    """
    config = getattr(getattr(model[0], "model", None), "config", None)
    settings: dict[str, Any] = {} if config is None else vars(config)
    if KEY not in settings:
        return None
    content = {KEY: settings.pop(KEY)}
    for name in ("prompts", "default_prompt_name"):
        if name in settings:
            content[name] = settings.pop(name)
    try:
        anything: Any = _Making
        making: _Making = adapter(anything).validate_python({**content.pop(KEY), **content})
        return making
    except (ValidationError, TypeError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else error
        raise UserError(
            f"{source}: config.json, {KEY}: {problem}. Export the model again"
        ) from error


def _follow(model: SentenceTransformer, making: _Making) -> None:
    """Have a plain model make vectors as an export says, but for the pooling."""
    if making.max_length is not None:
        model.max_seq_length = making.max_length
    if making.normalised:
        model.append(Normalize())
    model.prompts = dict(making.prompts)
    model.default_prompt_name = making.default_prompt_name


def _assumed_pooling(
    encoder: Encoder, making: _Making | None, given: PoolingName | None
) -> PoolingName | None:
    """Choose the pooling of a plain model, and log what is assumed where nothing says it.

    Args:
        encoder: the model, with sentence-transformers' own pooling.
        making: what the model says of itself.
        given: the pooling that the user gave.

    Returns:
        The pooling; `None` for the one that the encoder has.
    """
    if making is not None:
        return given or making.pooling
    chosen = given
    if given is None and encoder.pooling == "mean" and is_causal(encoder):
        chosen = "lasttoken"  # no earlier state has seen the whole text
    parts = [] if given is not None else [f"pooling {chosen or encoder.pooling}"]
    if encoder.max_length is not None:
        parts.append(f"texts cut to {encoder.max_length} tokens")
    parts += ["no prompts of its own", "no normalisation"]
    warn_once(
        logger,
        f"{encoder.source}: a plain Hugging Face model does not say how it makes vectors. Assumed: "
        f"{', '.join(parts)}. If it was trained otherwise, give `pooling`, `query_prompt` or "
        "`document_prompt`; export with `to` st writes a folder that says them",
    )
    return chosen


def weights_hash(encoder: Encoder, *sides: Side | None) -> str:
    """Return a hash, 40 hexadecimal digits, of all that decides an encoder's vectors.

    They are a SHA-256 over weights, architecture, tokenizer, prompt, length limit, modules and
    pooling: another seed, checkpoint, prompt or pooling has another hash. Default: of texts without
    a side. Sides that are encoded alike do not differ; modules that only other sides pass do not
    count.
    """
    asked = sides or (None,)
    of_texts = dict.fromkeys(
        encoder.of_side(side).tokens.fingerprint(None, side=side) for side in asked
    )
    passed = {tuple(modules_of(encoder.model, side)): side for side in asked}
    names = [module_names(encoder.model, side) for side in passed.values()]
    ways = dict.fromkeys(encoder.of_side(side) for side in passed.values())
    poolings = dict.fromkeys(way.pooling for way in ways)
    built: list[dict[str, Any]] = []
    for settings in map(architecture, ways):
        built += [settings] if settings not in built else []
    about = [*of_texts, *poolings, *names, *built]
    every = dict.fromkeys(module for modules in passed for module in modules)
    return state_hash(nn.Sequential(*every), json.dumps(about, sort_keys=True, default=str))


def architecture(encoder: Encoder) -> dict[str, Any]:
    """Return the settings of the transformer that decide, beside the weights, what it computes.

    Word vectors have none.
    """
    if not encoder.is_transformer:
        return {}
    settings: dict[str, Any] = encoder.transformer.config.to_dict()
    return {
        name: settings[name]
        for name in sorted(settings)
        if name not in _NO_ARCHITECTURE and not name.startswith("output_")
        if "dropout" not in name
    }


def state_hash(module: nn.Module, about: str = "") -> str:
    """Return a hash, 40 hexadecimal digits, of a module's parameters and buffers, and a text.

    What adapters add to a layer is part of it.
    """
    content = hashlib.sha256(about.encode())
    for name, tensor in sorted(plain_state(module).items()):
        content.update(name.encode())
        content.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
    return content.hexdigest()[:40]
