"""Encoders that cannot be trained: given vectors, followed by linear maps.

The vectors come from an endpoint (`endpoint_vectors.py`). A `FrozenEncoder` is an `Encoder` whose
first module is `GivenVectors`, so post-processing, evaluation and search work as for any encoder.
Saving writes the maps only: a matrix and a bias each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Module, Normalize, Router
from torch import nn

from isospace.encoders.encoder import Encoder
from isospace.encoders.endpoint_vectors import ABOUT, PROBE, EndpointVectors, OnBatch
from isospace.encoders.modules import modules_of
from isospace.encoders.settings import Prompts, Side
from isospace.errors import UserError
from isospace.system import typed_json
from isospace.system.endpoints import is_address
from isospace.system.progress import Progress
from isospace.system.unicode import without_surrogates
from isospace.views import View

MAP, QUERY_MAP = "map", "query_map"
"""File names of the linear maps: for all texts, and for queries if they have their own map."""


class GivenVectors(nn.Module):
    """The first module of a frozen encoder."""

    def __init__(self, source: EndpointVectors) -> None:
        super().__init__()
        self.source = source

    def get_embedding_dimension(self) -> int:
        """Return the width of the vectors."""
        return self.source.dim

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Return the features unchanged: they already contain the vectors."""
        return features


class _Texts:
    """The prompts of a frozen encoder, used in place of a tokenizer."""

    max_length = None

    def __init__(self, source: EndpointVectors, prompts: Prompts) -> None:
        self.source, self.prompts = source, prompts

    def fingerprint(
        self, max_length: int | None, whole: bool = False, side: Side | None = None
    ) -> str:
        """Return a hash of the source and the prompt."""
        about = json.dumps([self.source.name, self.prompts.for_side(side)])
        return sha256(about.encode()).hexdigest()

    def _unknown(self, *_: Any, **__: Any) -> Any:
        raise UserError(
            f"{self.source.name}: its tokens are not known here, and this command needs them. Give "
            "minilm, a model folder or a Hub name"
        )

    ids = cut = collate = prompt_length = _unknown
    tokenizer = vocabulary = around = property(_unknown)


class FrozenEncoder(Encoder):
    """An encoder that passes given vectors through linear maps."""

    is_frozen = True
    device = torch.device("cpu")
    pooling = "its own"
    """A placeholder: the pooling of given vectors is unknown."""

    def _tokenisation(self, prompts: Prompts) -> Any:
        return _Texts(self.given, prompts)

    @property
    def given(self) -> EndpointVectors:
        """The source of the vectors."""
        first: Any = self.model[0]
        return first.source

    @property
    def probes(self) -> Sequence[str]:
        """Texts that test whether a saved model gives the same vectors as this one."""
        return (PROBE,)

    def summary(self, arithmetic: str, plan: Sequence[View] = ()) -> str:
        """Return a line that describes the encoder."""
        return f"{self.source}: {self.dim} dimensions, given vectors that cannot be trained"

    def embed(
        self,
        texts: Sequence[str],
        *_: Any,
        on_batch: OnBatch = None,
        side: Side | None = None,
        **__: Any,
    ) -> NDArray[np.float32]:
        """Return the vectors of texts (n, dim); other options have no effect."""
        return self.mapped(self.given.vectors(list(self._prompted(texts, side)), on_batch), side)

    def _prompted(self, texts: Iterable[str], side: Side | None) -> Iterator[str]:
        prompt = self.prompts.for_side(side)
        return (without_surrogates(prompt + text) for text in texts)

    def mapped(self, vectors: NDArray[np.float32], side: Side | None) -> NDArray[np.float32]:
        """Pass given vectors (n, dim) through the maps of a side."""
        features = {"sentence_embedding": torch.from_numpy(vectors)}
        with torch.inference_mode():
            for module in modules_of(self.model, side)[1:]:
                features = module(features)
        return features["sentence_embedding"].numpy()

    def expect(
        self, asked: Iterable[tuple[Side | None, Iterable[str]]], progress: Progress
    ) -> None:
        """Announce the texts that a command will encode (`EndpointVectors.expect`)."""
        prompted = (self._prompted(texts, side) for side, texts in asked)
        self.given.expect(chain.from_iterable(prompted), progress)


@dataclass(frozen=True)
class About:
    """Content of frozen.json: an address, the width of its vectors, and isospace's own prompts."""

    model: str
    dim: int
    prompts: Prompts
    format: int = 1


def load_frozen(name: str, place: str) -> FrozenEncoder:
    """Load a frozen encoder by the user's `name`: an address, or a folder of `write_maps`."""
    if is_address(place):
        return FrozenEncoder(_model(EndpointVectors(place), []), name)
    folder = Path(place)
    about = typed_json.read(folder / ABOUT, About, "settings of a frozen model")
    maps = {key: _read_map(folder / f"{key}.safetensors") for key in (MAP, QUERY_MAP)}
    documents: list[Module] = []
    if (of_all := maps[MAP]) is not None:
        documents = [_dense(*of_all), Normalize()]
    modules = documents
    if (of_queries := maps[QUERY_MAP]) is not None:
        queries: list[Module] = [_dense(*of_queries), Normalize()]
        modules = [Router({"query": queries, "document": documents}, default_route="document")]
    source = EndpointVectors(about.model, name)
    return FrozenEncoder(_model(source, modules), name, about.prompts)


def _model(source: EndpointVectors, modules: Sequence[nn.Module]) -> SentenceTransformer:
    return SentenceTransformer(modules=[GivenVectors(source), *modules], device="cpu")


Map = tuple[NDArray[np.float32], NDArray[np.float32]]
"""A matrix (out, in) and a bias (out,)."""


def _dense(weight: NDArray[np.float32], bias: NDArray[np.float32]) -> Dense:
    out, dim = weight.shape
    return Dense(
        dim,
        out,
        activation_function=nn.Identity(),
        init_weight=torch.tensor(weight),
        init_bias=torch.tensor(bias),
    )


def _read_map(file: Path) -> Map | None:
    if not file.is_file():
        return None
    try:
        tensors = load_file(file)
        return tensors["weight"], tensors["bias"]
    except (SafetensorError, KeyError, OSError) as error:
        raise UserError(f"{file}: damaged; make or copy the model again") from error


def maps_of(encoder: FrozenEncoder) -> dict[str, Map]:
    """Return the linear maps of an encoder: file name -> map; empty without maps."""
    found = {MAP: _map_of(encoder, "document")}
    if encoder.prompts.routed:
        found[QUERY_MAP] = _map_of(encoder, "query")
    return {name: own for name, own in found.items() if own is not None}


def _map_of(encoder: FrozenEncoder, side: Side) -> Map | None:
    """Return the product of the linear maps for one side; `None` without maps."""
    weight: NDArray[np.float64] | None = None
    bias = np.zeros(encoder.given.dim)
    for module in modules_of(encoder.model, side)[1:]:
        if isinstance(module, Normalize):
            continue
        if not isinstance(module, Dense) or not isinstance(module.activation_function, nn.Identity):
            raise UserError(
                f"{encoder.source}: given vectors can only be mapped by a matrix, and "
                f"{type(module).__name__} is no matrix. Choose another `kind` of whitening"
            )
        own = module.linear.weight.detach().double().numpy()
        weight = own if weight is None else own @ weight
        bias = bias @ own.T
        if module.linear.bias is not None:
            bias = bias + module.linear.bias.detach().double().numpy()
    return None if weight is None else (weight.astype(np.float32), bias.astype(np.float32))


def write_maps(encoder: FrozenEncoder, folder: Path) -> None:
    """Write the maps of an encoder as safetensors, and where its vectors come from."""
    for name, (weight, bias) in maps_of(encoder).items():
        save_file({"weight": weight, "bias": bias}, folder / f"{name}.safetensors")
    typed_json.write(folder / ABOUT, About(encoder.given.name, encoder.given.dim, encoder.prompts))
