"""The toy, and the toy with a map behind its queries alone."""

from __future__ import annotations

from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Router

from isospace.encoders.encoder import Encoder
from isospace.encoders.saving import save_model


def write_routed(toy: Path, folder: Path, *, normalised: bool = True) -> tuple[Path, Path]:
    """Write the toy, and what maps its queries; with a closing normalisation or without."""
    torch.manual_seed(1)
    modules = [*SentenceTransformer(str(toy), device="cpu")]
    closing = [Normalize()] if normalised else []
    dense = Dense(32, 32, bias=False, activation_function=torch.nn.Identity())
    router = Router({"query": [dense, Normalize()], "document": closing}, "document")
    for name, last in (("base", closing), ("routed", [router])):
        model = SentenceTransformer(modules=[*modules, *last], device="cpu")
        save_model(Encoder(model, name), folder / name)
    return folder / "base", folder / "routed"
