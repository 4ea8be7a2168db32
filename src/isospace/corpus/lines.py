"""Clean texts, one a line, on disk.

Cleaning is the removal of control characters, one spelling for characters that look the same
(`characters.normalise`), and white space folded to single blanks, or to none where a line of
Chinese or Japanese goes on in the next.
"""

from __future__ import annotations

import mmap
import re
from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.characters import normalise

# Unicode's Cc but for white space, lone surrogates (from JSON escapes), and the byte order mark.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff]")

# Kana, Han and their punctuation. Thai and its like have blanks between sentences.
_WIDE = r"\u2e80-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"
_WIDE_BREAK = re.compile(rf"(?<=[{_WIDE}])[ \t\r]*\n\s*(?=[{_WIDE}])")


class Lines:
    """A UTF-8 file with a text a line, read by position through a memory map.

    Args:
        file: the file; every line ends in a newline.
        offsets: (n + 1,) positions in bytes at which the lines begin, and the file's size.
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


def has_controls(text: str) -> bool:
    """Tell whether `clean` removes control characters."""
    return _CONTROL.search(text) is not None


def clean(text: str) -> str:
    r"""Return the text normalised, without control characters, and `folded`.

    >>> clean("  Two\twords,\0 one  cafe\u0301. \r\n")
    'Two words, one café.'
    """
    if not text.isprintable():
        text = _CONTROL.sub("", text)
    return folded(normalise(text))


def folded(text: str) -> str:
    r"""Fold white space to single blanks; to none where Chinese or Japanese goes on in a new line.

    >>> folded("two\n  lines"), folded("日本\n語")
    ('two lines', '日本語')
    """
    if "\n" in text:
        text = _WIDE_BREAK.sub("", text)
    return " ".join(text.split())


def stage(texts: Iterable[str], file: BinaryIO) -> tuple[Lines, NDArray[np.uint64]]:
    """Write texts to a file; gives them back as lines, with a 64-bit hash of each."""
    hashes = bytearray()
    offsets = array("q", [0])
    for text in texts:
        line = text.encode()
        hashes += blake2b(line, digest_size=8).digest()
        offsets.append(offsets[-1] + file.write(line + b"\n"))
    file.flush()
    return Lines(file, np.array(offsets)), np.frombuffer(hashes, dtype="<u8")


def write_lines(folder: Path, text: Lines, rows: NDArray[np.int64]) -> tuple[Lines, str]:
    """Write these rows of a text into the folder of a corpus; gives them, and a hash of them."""
    content = blake2b(digest_size=16)
    offsets = np.concatenate([[0], np.cumsum(np.diff(text.offsets)[rows])])
    np.save(folder / "offsets.npy", offsets)
    with (folder / "texts.txt").open("w+b") as file:
        for row in rows:
            line = text[row].encode() + b"\n"
            content.update(line)
            file.write(line)
        file.flush()
        return Lines(file, offsets), content.hexdigest()
