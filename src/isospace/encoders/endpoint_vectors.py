"""Vectors of an endpoint, with a cache on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isospace.errors import UserError, first_line
from isospace.system.consent import announce, current_consent, estimated_tokens
from isospace.system.endpoints import Address, Endpoint
from isospace.system.files import cache_folder, hash_of, make_in_cache
from isospace.system.imports import require_extra
from isospace.system.progress import Progress

ABOUT = "frozen.json"
"""File in a frozen model's folder that names the endpoint and the prompts."""
PROBE = "A short sentence."
"""Text that is sent to learn the width of the vectors."""
BATCH = 32
"""Texts per request: a number that every known server accepts."""
AT_ONCE = 4
"""Number of parallel requests."""
_UNMENTIONED = 10_000  # tokens too cheap to announce, such as a few queries
_SLACK = 1.25  # a command may exceed its announced tokens by this factor without a new announcement
_ASKED = 500  # keys per SQLite query

OnBatch = Callable[[int], None] | None


class EndpointVectors:
    """Vectors of an endpoint, with a cache.

    Each text is sent only once from this machine; a killed run keeps the vectors that it received.
    `source` is the model folder that names the address, if the user did not.
    """

    def __init__(self, name: str, source: str = "") -> None:
        require_extra(f"{name}:", "endpoints", "openai")
        self.address, self._source = Address.parse(name), source
        self.name = str(self.address)
        file = f"{hash_of(self.name.encode())}.sqlite"
        self._store = VectorStore(cache_folder() / "endpoints" / file)
        self._consent = current_consent()
        self._sent = self._agreed = 0

    @cached_property
    def _endpoint(self) -> Endpoint:
        self._consent.require_named(self.name, self._source)
        return Endpoint(self.address, self._consent)

    @cached_property
    def dim(self) -> int:
        """Width of the vectors, known after the first text."""
        [known] = self._store.read([PROBE]).values() or [None]
        if known is None:
            known = self._endpoint.embed([PROBE])[0]
            self._store.write([PROBE], known[None])
        return len(known)

    def vectors(self, texts: Sequence[str], on_batch: OnBatch = None) -> NDArray[np.float32]:
        """Return vectors (text, dim) from the cache, or from the endpoint if they are missing.

        `on_batch` is called with the number of texts of each batch.

        Raises:
            UserError: a request failed, an answer has no vector of the known width for each text,
                or the user refuses to send so many tokens.
        """
        known = self._store.read(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        self._agree(missing)
        if on_batch is not None:
            on_batch(len(texts) - len(missing))
        for batch, vectors in self._requested(missing):
            if vectors.shape[1] != self.dim:
                raise UserError(
                    f"{self.name}: a vector has {vectors.shape[1]} dimensions, and others of this "
                    f"model have {self.dim}. Is it still the same model? If not, remove "
                    f"{self._store.file}"
                )
            self._store.write(batch, vectors)
            known.update(zip(batch, vectors, strict=True))
            if on_batch is not None:
                on_batch(len(batch))
        if not len(texts):
            return np.empty((0, self.dim), np.float32)
        return np.stack([known[text] for text in texts])

    def expect(self, texts: Iterable[str], progress: Progress) -> None:
        """Announce how much a command will send, and ask the user if it is a lot."""
        remaining, seen, tokens = iter(texts), set[bytes](), 0
        while some := list(islice(remaining, _ASKED)):
            known = self._store.read(some)
            new = {_key(text): text for text in some if text not in known}
            tokens += estimated_tokens(text for key, text in new.items() if key not in seen)
            seen |= new.keys()
        if seen:
            announce(self.address, f"{len(seen):,} texts", tokens, progress, self._consent)
        self._agreed = max(self._agreed, int(_SLACK * (self._sent + tokens)))

    def _agree(self, missing: Sequence[str]) -> None:
        """Count the tokens to send, and announce them if they exceed the announced number."""
        tokens = estimated_tokens(missing)
        if self._sent + tokens > max(self._agreed, _UNMENTIONED):
            what = f"{len(missing):,} texts" + " more" * bool(self._sent)
            announce(self.address, what, self._sent + tokens, consent=self._consent)
            self._agreed = 2 * (self._sent + tokens)
        self._sent += tokens

    def _requested(
        self, texts: Sequence[str]
    ) -> Iterator[tuple[Sequence[str], NDArray[np.float32]]]:
        """Yield batches of texts with their vectors, in order."""
        batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        if not batches:
            return
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            yield from zip(batches, pool.map(self._endpoint.embed, batches), strict=True)
        finally:
            pool.shutdown(cancel_futures=True)


class VectorStore:
    """A store of vectors by text: an SQLite file that several processes may share.

    The file holds hashes of the texts, not the texts.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self, texts: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """Return text -> vector for the texts in the store."""
        by_key = {_key(text): text for text in texts}
        keys, found = iter(by_key), {}
        with self._opened() as database:
            while some := list(islice(keys, _ASKED)):
                places = ",".join("?" * len(some))
                query = f"SELECT key, vector FROM vectors WHERE key IN ({places})"
                for key, vector in database.execute(query, some):
                    found[by_key[key]] = np.frombuffer(vector, np.float32)
        return found

    def write(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Store the vectors (text, dim) permanently."""
        rows = zip(map(_key, texts), (row.tobytes() for row in vectors), strict=True)
        with self._opened() as database, database:
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        make_in_cache(self.file.parent)
        try:
            with closing(sqlite3.connect(self.file, timeout=60)) as database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) "
                    "WITHOUT ROWID"
                )
                yield database
        except sqlite3.Error as error:
            raise UserError(
                f"{self.file}: the cache of an endpoint's vectors cannot be used "
                f"({first_line(error)}). Free disk space; if the file is damaged, remove it, and "
                "its texts are sent again"
            ) from error


def _key(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()
