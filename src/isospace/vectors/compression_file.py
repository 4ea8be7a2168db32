"""File of a fitted compression, next to its vectors, so that queries are compressed alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from isospace.corpus.examples import evenly
from isospace.encoders.encoder import Encoder
from isospace.encoders.prompts import Side
from isospace.errors import UserError
from isospace.evaluation.compression import FITTED_ON
from isospace.operators.compression import Compression
from isospace.operators.fitted_whitening import WhiteningMap
from isospace.operators.forms import FORMS, FormName, require_fit
from isospace.system.arrays import read_arrays, write_arrays
from isospace.system.files import expanded
from isospace.system.progress import Progress

FILE = "compression.npz"


def fit_compression(
    form: FormName,
    encoder: Encoder,
    texts: Sequence[str],
    progress: Progress,
    side: Side | None = "document",
) -> Compression:
    """Fit a form on at most `FITTED_ON` evenly spaced texts of a side."""
    some: list[str] = []
    if FORMS[form].fewest:
        some = [texts[place] for place in evenly(len(texts), FITTED_ON)]
    try:
        require_fit(form, encoder.dim, len(some))  # before texts are encoded
    except ValueError as error:
        raise UserError(f"`compress` {error}") from error
    vectors = np.empty((0, encoder.dim), np.float32)
    if some:
        with progress.bar("fit", len(some)) as advance:
            vectors = encoder.embed(some, on_batch=advance, side=side)
    return Compression.fit(form, vectors)


def write_compression(path: Path, compression: Compression) -> None:
    """Write a compression atomically."""
    arrays = {"form": np.array(compression.name), "width": np.array(compression.width)}
    if compression.components is not None:
        components = compression.components
        arrays |= {"mean": components.mean.numpy(), "components": components.kernel.numpy()}
    if compression.ranges is not None:
        arrays["ranges"] = compression.ranges
    write_arrays(path, **arrays)


def read_compression(path: Path) -> Compression:
    """Read a compression that `write_compression` wrote."""
    arrays = read_arrays(path)
    try:
        name, width = str(arrays["form"]), int(arrays["width"])
        [form] = [known for known in FORMS if known == name]
        components = None
        if FORMS[form].dim is not None:
            mean, kernel = (torch.from_numpy(arrays[key]) for key in ("mean", "components"))
            components = WhiteningMap(mean, kernel)
        return Compression(form, width, components, arrays.get("ranges"))
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path}: not a compression. The file is damaged") from error


def find_compression(path: Path | str) -> Path:
    """Return the compression file of vectors that `encode` wrote.

    `path` is the folder or file of the vectors, or the compression file.
    """
    place = expanded(path)
    for found in (place / FILE, beside(place), place):
        if found.is_file() and found.suffix == ".npz":
            return found
    raise UserError(
        f"`compress` {path}: neither a form ({', '.join(FORMS)}) nor compressed vectors that "
        "encode wrote"
    )


def beside(output: Path) -> Path:
    """Return the path of the compression of a single file of vectors."""
    return output.with_name(f"{output.name}.{FILE}")
