"""Clean texts on disk, one on each line, and their token ids."""

from __future__ import annotations

import mmap
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from isospace.system.files import built_once, hash_of
from isospace.system.unicode import normalise

_BATCH = 4096  # texts to tokenise at a time
T = TypeVar("T")

# Unicode's Cc without white space; lone surrogates (from JSON escapes); the byte order mark.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff]")

# Kana, Han and their punctuation. Thai and similar scripts have blanks between sentences.
_WIDE = r"\u2e80-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"
_WIDE_BREAK = re.compile(rf"(?<=[{_WIDE}])[ \t\r]*\n\s*(?=[{_WIDE}])")


class Lines:
    """A UTF-8 file with a text on each line, read by position through a memory map.

    `offsets` (n + 1,) are the byte positions where lines begin, and the size of the file.
    """

    def __init__(self, file: BinaryIO, offsets: NDArray[np.int64]) -> None:
        self.offsets = offsets
        # An empty file cannot be mapped.
        size = int(offsets[-1])
        self._bytes = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> str:
        row = range(len(self))[row]  # negative positions, and IndexError beyond the ends
        return self._bytes[self.offsets[row] : self.offsets[row + 1] - 1].decode()

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))


def clean(text: str) -> str:
    r"""Return the text normalised, without control characters, and `folded`.

    >>> clean("  Two\twords,\0 one  cafe\u0301. \r\n")
    'Two words, one café.'
    """
    if not text.isprintable():
        text = _CONTROL.sub("", text)
    return folded(normalise(text))


def folded(text: str) -> str:
    r"""Fold white space to single blanks, and remove line breaks inside Chinese and Japanese.

    >>> folded("two\n  lines"), folded("日本\n語")
    ('two lines', '日本語')
    """
    if "\n" in text:
        text = _WIDE_BREAK.sub("", text)
    return " ".join(text.split())


def write_lines(texts: Iterable[str], file: BinaryIO) -> tuple[Lines, NDArray[np.uint64], str]:
    """Write texts to a file; return them as lines, a 64-bit hash of each, and a hash of all."""
    hashes, content = bytearray(), blake2b(digest_size=16)
    offsets = array("q", [0])
    for text in texts:
        line = text.encode()
        hashes += blake2b(line, digest_size=8).digest()
        content.update(line + b"\n")
        offsets.append(offsets[-1] + file.write(line + b"\n"))
    file.flush()
    return Lines(file, np.array(offsets)), np.frombuffer(hashes, "<u8"), content.hexdigest()


class Tokens:
    """The token ids of n sentences, read from disk.

    All `ids` are one array; `offsets` (n + 1,) are the positions in it where sentences begin.
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

    `digest` identifies the sentences, `fingerprint` the tokenizer and settings of `encode`.
    """
    key = hash_of(f"{digest} {fingerprint}".encode())

    def build(folder: Path) -> None:
        remaining = iter(sentences)
        ends = array("q", [0])
        with (folder / "ids.int32").open("wb") as file:
            while batch := list(islice(remaining, _BATCH)):
                for ids in encode(batch):
                    np.asarray(ids, dtype=np.int32).tofile(file)
                    ends.append(ends[-1] + len(ids))
                if progress is not None:
                    progress(len(batch))
        np.save(folder / "offsets.npy", np.array(ends, dtype=np.int64))

    return built_once(cache / "tokens" / key, build, Tokens)
