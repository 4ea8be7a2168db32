"""The matrix for queries of `adapt --queries-only`: its file, and how to deploy it."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save_file
from sentence_transformers.sentence_transformer.modules import Dense, Router

from isospace.encoders.encoder import Encoder
from isospace.encoders.frozen import MAP, FrozenEncoder, maps_of
from isospace.encoders.modules import modules_of
from isospace.encoders.vector_sources import ABOUT
from isospace.system.files import atomic_path
from isospace.training.card import Usage, classic_usage, prompts_text


def how_to_load(folder: Path) -> str:
    """Return the Python call that loads the model of a folder."""
    loader = "isospace.load" if (folder / ABOUT).is_file() else "SentenceTransformer"
    return f'{loader}("{folder}")'


FILE = "query_map.safetensors"
"""File in the run's folder: the matrix (dim, dim), float32, under the key `weight`."""

_DEPLOY = """## How to deploy

Documents keep the vectors of the base model, bit for bit. Keep the index, and encode queries with
this model (`encode_query`). Encode new documents with this model (`encode_document`) or with the
base model."""
_TWO = """The model holds two encoders: a fine-tuned one for queries, and the base model for
documents."""
_DEPLOY_MAP = f"""If an embedding API makes the vectors, map those of queries by `{FILE}`, which
is in the folder of the run:
"""


def write_query_map(folder: Path, encoder: Encoder) -> None:
    """Write the matrix that maps an encoder's queries into the run's folder."""
    [*_, dense] = [one for one in modules_of(encoder.model, "query") if isinstance(one, Dense)]
    with atomic_path(folder / FILE) as temporary:
        save_file({"weight": dense.linear.weight.detach().cpu().contiguous()}, temporary)


def has_query_map(encoder: Encoder) -> bool:
    """Return true if queries differ from documents by a matrix alone, and not by their encoder."""
    two_encoders = not encoder.is_frozen and isinstance(encoder.model[0], Router)
    return encoder.prompts.routed and not two_encoders


def _in_numpy(path: str, what: str) -> str:
    """Return the code that maps vectors of `what` by a safetensors file."""
    code = """```python
import numpy as np
from safetensors.numpy import load_file

own = load_file("PATH")

def map_vectors(vectors):  # one vector of WHAT, or (n, dim) of several
    mapped = np.asarray(vectors) @ own["weight"].T + own.get("bias", 0)
    return mapped / np.linalg.norm(mapped, axis=-1, keepdims=True)
```"""
    return code.replace("PATH", path).replace("WHAT", what)


def usage_of(encoder: Encoder) -> Usage:
    """Return the usage of a model, with the code that maps queries or vectors of a server."""
    if isinstance(encoder, FrozenEncoder):
        return _usage_of_maps(encoder)
    usage = classic_usage(encoder.prompts)
    if not encoder.prompts.routed:
        return usage
    own = _TWO
    if has_query_map(encoder):
        own = _DEPLOY_MAP + "\n" + _in_numpy(f"path/to/{FILE}", "a query")
    return Usage(usage.library, "\n\n".join([usage.text, _DEPLOY, own]))


def _usage_of_maps(encoder: FrozenEncoder) -> Usage:
    """Return the usage of a folder of maps, with isospace and without it."""
    name, prompts = encoder.given.name, encoder.prompts
    text = f"""The vectors come from `{name}`, and this folder maps them. With isospace:

```python
import isospace

model = isospace.load("path/to/this/folder", endpoint="{name}")
queries = model.encode_query(["what is looked for"])
documents = model.encode_document(["one text", "another text"])
```"""
    maps = maps_of(encoder)
    if not maps:
        text = text.replace("this folder maps them", "this folder leaves them as they are")
    if prompts.summary:
        text += f"\n\n{prompts_text(prompts)}"
    for file in maps:
        of_all = "a text" if not prompts.routed else "a document"
        what = of_all if file == MAP else "a query"
        text += (
            f"\n\nWithout isospace, map the vectors of {what} by `{file}.safetensors`.\n\n"
            + _in_numpy(f"path/to/this/folder/{file}.safetensors", what)
        )
    if prompts.routed and len(maps) == 1:
        text += "\n\nDocuments keep the vectors that they have, and so does an index of them."
    return Usage("isospace", text)
