"""Token ids on disk: computed once for a corpus and a tokenizer, then memory-mapped."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from isospace.system.cache import built_once
from isospace.system.files import hash_of

_BATCH = 4096
T = TypeVar("T")


class Tokens:
    """The token ids of n sentences of different lengths, read from disk.

    Attributes:
        ids: concatenated ids of all sentences, int32.
        offsets: (n + 1,) position in `ids` where each sentence begins, int64.
    """

    def __init__(self, folder: Path) -> None:
        offsets: NDArray[np.int64] = np.load(folder / "offsets.npy", mmap_mode="r")
        self.offsets = np.asarray(offsets)  # still on disk; indexing a plain array is faster
        self.ids: NDArray[np.int32] = np.empty(0, np.int32)
        if offsets[-1]:  # an empty file cannot be mapped
            ids = np.memmap(folder / "ids.int32", np.int32, "r", shape=(int(offsets[-1]),))
            self.ids = np.asarray(ids)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each sentence, (n,)."""
        return np.diff(self.offsets)

    def batch(self, rows: NDArray[np.int64]) -> list[NDArray[np.int32]]:
        """Return the ids of the sentences at these positions, one array each."""
        starts, ends = self.offsets[rows], self.offsets[rows + 1]
        return [np.array(self.ids[a:b]) for a, b in zip(starts, ends, strict=True)]


def tokenise(
    sentences: Iterable[T],
    digest: str,
    encode: Callable[[list[T]], list[list[int]]],
    fingerprint: str,
    cache: Path,
    progress: Callable[[int], None] | None = None,
) -> Tokens:
    """Return the token ids of all sentences, from the cache if they were computed before.

    `digest` identifies the sentences. `fingerprint` identifies `encode`: tokenizer, settings,
    maximum length. Only a few thousand sentences are in memory at a time.
    """
    key = hash_of(f"{digest} {fingerprint}".encode())

    def build(folder: Path) -> None:
        remaining = iter(sentences)
        ends = array("q", [0])
        with (folder / "ids.int32").open("wb") as file:
            while batch := list(islice(remaining, _BATCH)):
                encoded = encode(batch)
                if len(encoded) != len(batch):
                    raise ValueError(f"encode gave {len(encoded)} results for {len(batch)} texts")
                for ids in encoded:
                    np.asarray(ids, dtype=np.int32).tofile(file)
                    ends.append(ends[-1] + len(ids))
                if progress is not None:
                    progress(len(batch))
        np.save(folder / "offsets.npy", np.array(ends, dtype=np.int64))

    return built_once(cache / "tokens" / key, build, Tokens)
