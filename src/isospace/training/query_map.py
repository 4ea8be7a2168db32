"""The matrix for queries of `adapt --queries-only`: its file, and how to deploy it."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save_file
from sentence_transformers.sentence_transformer.modules import Dense

from isospace.encoders.encoder import Encoder
from isospace.encoders.modules import modules_of
from isospace.system.files import atomic_path
from isospace.training.card import Usage, classic_usage

FILE = "query_map.safetensors"
"""File in the run's folder: the matrix (dim, dim), float32, under the key `weight`."""

_DEPLOY = f"""## How to deploy

Documents keep the vectors of the base model, bit for bit. Keep the index, and encode queries with
this model (`encode_query`). Encode new documents with this model (`encode_document`) or with the
base model.

If an embedding API makes the vectors, map those of queries by `{FILE}`, which is in the
folder of the run:

```python
import json
import numpy as np

with open("path/to/{FILE}", "rb") as file:
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    data = file.read()
start, end = header["weight"]["data_offsets"]
weight = np.frombuffer(data[start:end], np.float32).reshape(header["weight"]["shape"])

def map_query(vector):  # the API's vector of a query, or (n, dim) of several
    mapped = np.asarray(vector) @ weight.T
    return mapped / np.linalg.norm(mapped, axis=-1, keepdims=True)
```"""


def write_query_map(folder: Path, encoder: Encoder) -> None:
    """Write the matrix that maps an encoder's queries into the run's folder."""
    modules = modules_of(encoder.model, "query")
    [*_, dense] = [module for module in modules if isinstance(module, Dense)]
    with atomic_path(folder / FILE) as temporary:
        save_file({"weight": dense.linear.weight.detach().cpu().contiguous()}, temporary)


def usage_in_run(encoder: Encoder) -> Usage:
    """Return how the model of a run is loaded, and how one that maps queries alone is deployed."""
    usage = classic_usage(encoder.prompts)
    if not encoder.prompts.routed:
        return usage
    return Usage(usage.library, f"{usage.text}\n\n{_DEPLOY}")
