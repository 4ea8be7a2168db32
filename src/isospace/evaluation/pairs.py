"""Pairs of texts, with and without a score, and functions that encode each distinct text once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.groups import evenly, group_texts
from isospace.encoders.settings import Precision, Prompts, Side
from isospace.operators.nearest import unit_rows
from isospace.statistics.gains import FloatArray
from isospace.system.files import built_once, code_hashes
from isospace.system.progress import Progress, Silent

if TYPE_CHECKING:  # slow to import
    from isospace.encoders.encoder import Encoder

_SLICE = 1 << 14  # texts that are encoded at once

Encode: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]
"""Sentences -> array `(sentence, dim)`, one row a sentence, in order."""
Asked: TypeAlias = tuple[Side | None, Iterable[str]]
"""A side and the texts to encode on it."""


@dataclass(frozen=True)
class PromptedEncoders:
    """Encoders of queries, of documents, and of texts without a side (`plain`, or a call).

    Sides with the same prompt have the same function, so that a text is encoded once for both.
    """

    queries: Encode
    documents: Encode
    plain: Encode

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts without a side."""
        return self.plain(texts)

    def for_side(self, side: Side | None) -> Encode:
        """Return the function of a side."""
        return {None: self.plain, "query": self.queries, "document": self.documents}[side]

    def each(self, change: Callable[[Encode], Encode]) -> PromptedEncoders:
        """Return the encoders after `change`, called once for each distinct function."""
        changed = {encode: change(encode) for encode in (self.queries, self.documents, self.plain)}
        return PromptedEncoders(changed[self.queries], changed[self.documents], changed[self.plain])

    @classmethod
    def of_prompts(
        cls, prompts: Prompts, embed: Callable[..., NDArray[np.float32]]
    ) -> PromptedEncoders:
        """Make the functions of an encoder; `embed` is its method, or takes the same arguments."""
        made = {prompts.way(side): partial(embed, side=side) for side in prompts.sides}
        return cls(
            made[prompts.way("query")], made[prompts.way("document")], made[prompts.way(None)]
        )


def sided(encode: Encode) -> PromptedEncoders:
    """Return an encoder with sides; a plain function encodes all sides alike."""
    if isinstance(encode, PromptedEncoders):
        return encode
    return PromptedEncoders(encode, encode, encode)


@dataclass(frozen=True)
class Candidates:
    """Texts to rank for the first texts of pairs, in addition to the second texts.

    `groups` has the name of each text's group; `None` outside the sample. `right` has for a first
    text the positions of the texts that are right for it.
    """

    texts: tuple[str, ...]
    groups: tuple[str | None, ...]
    right: Mapping[str, NDArray[np.int64]]
    described: str

    def with_share(self, share: float) -> Candidates:
        """Return a share of the texts, 0 to 1; a hash of each text decides.

        >>> among = Candidates(("a", "b", "c"), ("1", "1", None), {"q": np.array([0, 2])}, "texts")
        >>> half = among.with_share(0.5)
        >>> half.texts, half.right["q"].tolist(), half.described
        (('a', 'b'), [0], '50 % of texts')
        """
        kept = [place for place, text in enumerate(self.texts) if _position(text) < share]
        place_of = {place: new for new, place in enumerate(kept)}
        return Candidates(
            tuple(self.texts[place] for place in kept),
            tuple(self.groups[place] for place in kept),
            {
                query: np.array([place_of[x] for x in own.tolist() if x in place_of], np.int64)
                for query, own in self.right.items()
            },
            f"{100 * share:.0f} % of {self.described}",
        )


def _position(text: str) -> float:
    """Return a number from 0 to 1 that is a hash of a text."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest()
    return int.from_bytes(digest, "little") / 2**32


@dataclass(frozen=True)
class TextPairs:
    """Texts that belong together: `first[i]` and `second[i]`.

    Statistics treat the pairs of one of the `groups`, such as documents, as one observation.
    `unit` is the name of the groups, in the plural.
    """

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    groups: tuple[str, ...] | None = field(default=None, kw_only=True)
    unit: str = field(default="groups", kw_only=True)
    among: Candidates | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.first)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.first, self.second, strict=True)

    @property
    def asked(self) -> tuple[Asked, ...]:
        """The texts that ranking these pairs encodes."""
        among = () if self.among is None else self.among.texts
        return ("query", self.first), ("document", (*self.second, *among))

    def group_numbers(self) -> NDArray[np.int64]:
        """Return the number of each pair's group, (pair,)."""
        if self.groups is None:
            return np.arange(len(self))
        return np.unique(np.array(self.groups), return_inverse=True)[1].astype(np.int64)

    def take(self, places: Sequence[int]) -> TextPairs:
        """Return the pairs at these positions."""
        first, second = (tuple(side[i] for i in places) for side in (self.first, self.second))
        groups = None if self.groups is None else tuple(self.groups[i] for i in places)
        return replace(self, first=first, second=second, groups=groups)

    def with_share(self, share: float) -> TextPairs:
        """Return an evenly spaced share of the pairs and a share of the candidates."""
        kept = self.take(evenly(len(self), math.ceil(share * len(self))))
        among = None if self.among is None else self.among.with_share(share)
        return replace(kept, among=among)

    def grouped(self) -> TextPairs:
        """Return the pairs with groups; default groups are pairs that (nearly) share a text."""
        if self.groups is not None:
            return self
        return replace(self, groups=tuple(map(str, group_texts(list(self)).tolist())))

    def ids(self) -> NDArray[np.int64]:
        """Return a number for each pair, (pair,); it does not depend on the order of the texts."""
        keys = ["\0".join(sorted(pair)).encode("utf-8", "surrogatepass") for pair in self]
        digests = b"".join(blake2b(key, digest_size=8).digest() for key in keys)
        return np.frombuffer(digests, dtype="<i8").astype(np.int64)


@dataclass(frozen=True)
class ScoredPairs(TextPairs):
    """Pairs with human similarity scores: `gold[i]` belongs to `first[i]` and `second[i]`."""

    gold: FloatArray
    source: str
    """Source of the scores, for protocols."""

    def take(self, places: Sequence[int]) -> ScoredPairs:
        """Return the pairs at these positions."""
        pairs, gold = super().take(places), self.gold[list(places)]
        return replace(self, first=pairs.first, second=pairs.second, groups=pairs.groups, gold=gold)


def hash_texts(texts: Iterable[str], about: bytes = b"") -> str:
    """Return a hash of texts in their order and of `about`."""
    digest = blake2b(about, digest_size=16)
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(f"{len(content)} ".encode() + content)
    return digest.hexdigest()


def encode_distinct(
    encode: Encode, texts: Iterable[str]
) -> tuple[dict[str, int], NDArray[np.float32]]:
    """Encode each distinct text once; return text -> row, and the embeddings (text, dim)."""
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    embeddings = np.asarray(encode(list(rows)))
    if embeddings.ndim != 2 or len(embeddings) != len(rows):
        raise ValueError(
            f"encode gave an array of shape {embeddings.shape} for {len(rows)} texts; "
            f"expected ({len(rows)}, dim)"
        )
    return rows, embeddings


def encode_columns(
    encode: Encode, *columns: Sequence[str], sides: Sequence[Side | None] = ()
) -> Iterator[NDArray[np.float32]]:
    """Yield the embeddings `(text, dim)` of each column; a text is encoded once for a prompt."""
    functions = [sided(encode).for_side(side) for side in sides or [None] * len(columns)]
    encoded = {}
    for function in dict.fromkeys(functions):
        own = [column for column, its in zip(columns, functions, strict=True) if its == function]
        encoded[function] = encode_distinct(function, (text for column in own for text in column))
    for column, function in zip(columns, functions, strict=True):
        rows, embeddings = encoded[function]
        places = np.array([rows[text] for text in column], dtype=np.int64)
        # Large columns are not copied without need.
        first = (places == np.arange(len(places))).all()
        yield embeddings[: len(places)] if first else embeddings[places]


def unit_vectors(
    encode: Encode, queries: Sequence[str], documents: Sequence[str]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return vectors of length 1, (query, dim) and (document, dim).

    Texts are encoded in slices, so that only the vectors need much memory.
    """
    encode = sided(encode).each(lambda one: partial(_units, one))
    # Documents come first, so that their vectors need no copy.
    second, first = encode_columns(encode, documents, queries, sides=("document", "query"))
    return first, second


def _units(encode: Encode, texts: Sequence[str]) -> NDArray[np.float32]:
    unit = np.empty((0, 0), np.float32)
    for start in range(0, len(texts), _SLICE):
        part = unit_rows(np.asarray(encode(texts[start : start + _SLICE])))
        if not start:
            unit = np.empty((len(texts), part.shape[1]), np.float32)
        unit[start : start + len(part)] = part
    return unit


def remembering(encode: Encode) -> PromptedEncoders:
    """Return an encoder that keeps all its vectors and encodes no text twice."""
    return sided(encode).each(_remembering)


def _remembering(encode: Encode) -> Encode:
    vectors: dict[str, NDArray[np.float32]] = {}

    def encode_new(texts: Sequence[str]) -> NDArray[np.float32]:
        if not texts:
            return encode(texts)
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        if new:
            vectors.update(zip(new, encode(new), strict=True))
        return np.stack([vectors[text] for text in texts])

    return encode_new


_CODE = ("encoders", "objectives", "losses", "views", "operators", "statistics", "system")
"""Packages of the code that encodes; the import contract checks that encoders import no other."""
_FILE = "vectors.npz"
"""Name of a cache file; npz has a checksum, npy has none."""


def cached(
    encoder: Encoder,
    cache: Path,
    precision: Precision = "float32",
    max_length: int | None = None,
    progress: Progress | None = None,
) -> PromptedEncoders:
    """Return an encoder that keeps its vectors on disk, by weights and prompt.

    Do not change the weights while it is in use.
    """
    settings = [precision] if max_length is None else [precision, str(max_length)]
    about = {side: (*fingerprint(encoder, side), *settings) for side in encoder.prompts.sides}

    def embed(texts: Sequence[str], side: Side | None) -> np.ndarray:
        name = hash_texts(texts, "\0".join(about[side]).encode())

        def build(folder: Path) -> None:
            shown, how = progress or Silent(), {"max_length": max_length, "precision": precision}
            vectors = embed_with_bar(encoder, shown, texts, side=side, **how)
            np.savez(folder / _FILE, vectors=vectors)

        return built_once(cache / "vectors" / name, build, _read)

    return PromptedEncoders.of_prompts(encoder.prompts, embed)


def embed_with_bar(
    encoder: Encoder, progress: Progress, texts: Sequence[str], **settings: Any
) -> np.ndarray:
    """Return `encoder.embed(texts, **settings)`, and show a progress bar."""
    with progress.bar("encode", len(texts)) as advance:
        return encoder.embed(texts, on_batch=advance, **settings)


def _read(folder: Path) -> np.ndarray:
    with (folder / _FILE).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        vectors: np.ndarray = arrays["vectors"]
        return vectors


def fingerprint(encoder: Encoder, side: Side | None) -> tuple[str, ...]:
    """Return what decides the vectors of a side: hashes of code and weights, versions, device."""
    from isospace.encoders.loading import weights_hash

    libraries = map(version, ("torch", "transformers", "sentence-transformers"))
    # Both paths agree up to rounding only, and untrained adapters change the path.
    place = encoder.device.type, str(encoder.of_side(side).is_fast)
    return (*code_hashes(*_CODE), *libraries, *place, weights_hash(encoder, side))
