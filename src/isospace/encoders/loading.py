"""Loading of encoders by name, and hashes that identify an encoder's vectors."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import is_sentence_transformer_model
from torch import nn

from isospace.encoders.adapters import plain_state
from isospace.encoders.encoder import Encoder
from isospace.encoders.endpoint_vectors import ABOUT
from isospace.encoders.frozen import load_frozen
from isospace.encoders.modules import module_names, modules_of, with_pooling
from isospace.encoders.places import loading, resolve
from isospace.encoders.settings import EncoderSettings, PoolingName, Side
from isospace.encoders.tokenisation import Batch
from isospace.encoders.words import read_vectors, word_file, word_model
from isospace.errors import UserError
from isospace.system.devices import default_device
from isospace.system.endpoints import is_address
from isospace.system.progress import warn_once

logger = logging.getLogger(__name__)

Model: TypeAlias = str | Path | SentenceTransformer | Encoder
"""A model, or its name or path."""

_NO_ARCHITECTURE = {
    "_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache",
}  # fmt: skip
"""Transformer settings that change no vector; dropout and output settings are skipped as well."""


def load_encoder(
    name: str = "minilm",
    settings: EncoderSettings = EncoderSettings(),  # noqa: B008 - frozen
    device: str | None = None,
) -> Encoder:
    """Load an encoder.

    `name` is "minilm"; a sentence-transformers folder, Hugging Face encoder folder or run folder; a
    Hub name, or NAME@REVISION with a commit, tag or branch; glove:FILE for word vectors
    (`words.word_file`); http://HOST/v1#NAME for an endpoint.

    A plain Hugging Face folder names no pooling: by default a decoder gets the last token, other
    models the mean, and a warning says so.

    Raises:
        UserError: the model is missing, unreachable, unreadable, or not a text encoder.
    """
    place = resolve(name)
    if is_address(place.path) or (Path(place.path) / ABOUT).is_file():
        return _configure(load_frozen(name, place.path), settings)
    device, words = device or default_device(), word_file(name)
    # Weights missing in a checkpoint are drawn at random, such as RoBERTa's unused pooler. A fixed
    # seed makes them equal in every process, and with them the encoder's hash.
    with (
        loading(f"{name}: {place.path} cannot be loaded as an encoder"),
        torch.random.fork_rng(devices=[]),
    ):
        torch.default_generator.manual_seed(0)
        if words is None:
            model = SentenceTransformer(place.path, device=device, **place.options)
        else:
            model = word_model(*read_vectors(words)).to(device)
    if not all(weights.isfinite().all() for weights in model.parameters()):
        raise UserError(
            f"{name}: some weights are not finite numbers (NaN). The file is damaged, or the "
            "training diverged. Give another model"
        )
    unread = words is None and not is_sentence_transformer_model(
        place.path, revision=place.revision, local_files_only=place.local
    )
    # float32 for every checkpoint: in half precision, small updates would be rounded away.
    encoder = Encoder(model.float(), name)
    assumed = _assumed_pooling(encoder, settings.pooling) if unread else None
    return _configure(encoder, settings, assumed)


def _configure(
    encoder: Encoder, settings: EncoderSettings, assumed: PoolingName | None = None
) -> Encoder:
    """Return an encoder with the pooling and prompts of the settings, and the same weights."""
    if (pooling := settings.pooling or assumed) is not None:
        if encoder.is_frozen:
            raise UserError(
                f"`pooling` {pooling}: {encoder.source} gives finished vectors. Leave `pooling` out"
            )
        model = with_pooling(encoder.model, pooling, encoder.source)
        encoder = Encoder(model, encoder.source, encoder.prompts)
    given = {"query": settings.query_prompt, "document": settings.document_prompt}
    texts: dict[str, Any] = {side: text for side, text in given.items() if text is not None}
    return encoder.with_prompts(replace(encoder.prompts, **texts))


def as_encoder(
    model: Model,
    settings: EncoderSettings = EncoderSettings(),  # noqa: B008 - frozen
    device: str | None = None,
) -> Encoder:
    """Return an encoder for a name, a path or a loaded model, whose weights are not copied.

    By default, a loaded model stays on its device.
    """
    if isinstance(model, str | Path):
        return load_encoder(str(model), settings, device)
    if isinstance(model, SentenceTransformer):
        encoder = Encoder(model, "the given model")
    elif isinstance(model, Encoder):
        encoder = model
    else:
        raise UserError(
            f"{type(model).__name__}: not a model. Give a name or path, or a SentenceTransformer"
        )
    encoder = _configure(encoder, settings)
    return encoder if device is None else encoder.to(device)


def _assumed_pooling(encoder: Encoder, given: PoolingName | None) -> PoolingName | None:
    """Return the pooling of a plain model (`None`: as it is), and warn about assumed settings."""
    assumed: PoolingName | None = None
    if given is None and encoder.pooling == "mean" and is_causal(encoder):
        assumed = "lasttoken"  # only the last token sees the whole text
    parts = [] if given is not None else [f"pooling {assumed or encoder.pooling}"]
    if encoder.max_length is not None:
        parts.append(f"texts cut to {encoder.max_length} tokens")
    parts += ["no prompts of its own", "no normalisation"]
    warn_once(
        logger,
        f"{encoder.source}: a plain Hugging Face model does not say how it makes vectors. Assumed: "
        f"{', '.join(parts)}. If it was trained otherwise, give `pooling`, `query_prompt` or "
        "`document_prompt`; export with `to` st writes a folder that says them",
    )
    return assumed


def is_causal(encoder: Encoder) -> bool:
    """Return true if no token's state depends on later tokens; each family has its own setting."""
    if not encoder.is_transformer:
        return False
    first_states = []
    for last in (1, 2):
        ids = torch.tensor([[0, 0, last]], device=encoder.device)
        batch = Batch(ids, torch.ones_like(ids))
        with torch.no_grad(), encoder.noise.at(0.0):
            states = encoder.model[0](encoder.features(batch))["token_embeddings"]
        first_states.append(states[:, :2])
    return torch.equal(*first_states)


def weights_hash(encoder: Encoder, *sides: Side | None) -> str:
    """Return a hash, 40 hexadecimal digits, of everything that determines an encoder's vectors.

    That is weights, architecture, tokenizer, prompt, length limit, modules and pooling of the given
    sides; default: texts without a side. Sides with the same prompt and modules have the same hash.
    """
    modules: dict[nn.Module, None] = {}
    about: dict[str, None] = {}
    for side in sides or (None,):
        own = encoder.of_side(side)
        modules |= dict.fromkeys(modules_of(encoder.model, side))
        settings = (
            own.tokens.fingerprint(None, side=side),
            own.pooling,
            module_names(encoder.model, side),
            _architecture(own),
        )
        about[json.dumps(settings, sort_keys=True, default=str)] = None
    return state_hash(nn.Sequential(*modules), json.dumps([*about]))


def _architecture(encoder: Encoder) -> dict[str, Any]:
    """Return the transformer settings that, with the weights, determine its output."""
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
    """Return a hash of a module's parameters and buffers, adapters merged, and a text."""
    content = hashlib.sha256(about.encode())
    for name, tensor in sorted(plain_state(module).items()):
        content.update(name.encode())
        content.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
    return content.hexdigest()[:40]
