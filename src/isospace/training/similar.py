"""Groups of similar texts, for batches whose negatives are hard: cheap, approximate, by seed alone.

A batch of groups of like texts holds harder negatives than one that is drawn freely, without a
pass of the encoder beyond the base model's own vectors, which are made once (batches of near
questions: Hofstätter et al. 2021, TAS-Balanced, https://arxiv.org/abs/2104.06967).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isospace.encoders.encoder import Encoder
from isospace.encoders.prompts import Side
from isospace.evaluation.vector_cache import fingerprint
from isospace.operators.nearest import unit_rows
from isospace.system.arrays import row_writer
from isospace.system.cache import built_once

Rows = NDArray[np.int64]

_SCALE = 2000
"""Length of the vectors, in whole numbers: sums of their products stay below 2**24, so that float32
holds them exactly and no order of adding, of any number of threads or processes, changes a batch.
"""

AMONG = 8
"""Like examples are looked for among so many times those that the budget of a run reaches."""

_LEAF = 1024  # texts of which all pairs are compared
_PIVOTS = 256  # parts into which a larger number is divided at once
_BLOCK = 1 << 15  # vectors in memory at once


@dataclass(frozen=True)
class Similar:
    """Groups of similar texts, by vectors of the base model.

    Attributes:
        size: texts of a group.
        lines: (text,) of the examples' texts, ascending.
        vectors: (text, dim) int16, on disk.
    """

    size: int
    lines: Rows
    vectors: NDArray[np.int16]

    @classmethod
    def build(
        cls,
        size: int,
        lines: Rows,
        read: Callable[[int], str],
        texts: str,
        encoder: Encoder,
        side: Side | None,
        max_length: int | None,
        cache: Path,
        advance: Callable[[int], None],
    ) -> Similar:
        """Vectors of these lines by the encoder as it is, from the cache if they were made before.

        Args:
            size: texts of a group.
            lines: (n,) of the texts, ascending.
            read: the text of a line.
            texts: digest of all of them.
            encoder: the start of the run.
            side: whose prompt is before each text.
            max_length: in tokens, to which texts are cut.
            cache: vectors are kept in `cache / "vectors"`.
            advance: called with the number of texts done since the last call.
        """
        digest = blake2b(lines.tobytes(), digest_size=16).hexdigest()
        about = (*fingerprint(encoder, side), texts, digest, f"{max_length} {_SCALE}")
        name = blake2b("\0".join(about).encode(), digest_size=16).hexdigest()

        def build(folder: Path) -> None:
            shape = (len(lines), encoder.dim)
            with row_writer(folder / "vectors.npy", np.int16, shape) as write:
                for start in range(0, len(lines), _BLOCK):
                    part = [read(line) for line in lines[start : start + _BLOCK].tolist()]
                    vectors = encoder.embed(
                        part, max_length=max_length, on_batch=advance, one_thread=True, side=side
                    )
                    write(np.rint(_SCALE * unit_rows(vectors)))

        def stored(folder: Path) -> Similar:
            return cls(size, lines, np.load(folder / "vectors.npy", mmap_mode="r"))

        return built_once(cache / "vectors" / name, build, stored)

    def order(self, lines: Rows, origins: Rows | None, random: np.random.Generator) -> Rows:
        """Examples one after the other, each once, those of a group together; groups shuffled.

        Those whose text has no vector come at the end, as they are drawn.

        Some examples are drawn, and all go with the nearest of them, down to parts of about a
        thousand; in these each in turn takes those that are nearest to it. An example is compared
        with some 1,300 others, of however many; in memory are a few numbers of each, and the
        vectors of a part.

        Args:
            lines: (example,) the text by which each is near others.
            origins: (example, n) as `Examples` has them: a group has none of them twice.
            random: draws the parts, the groups and their order.
        """
        known = np.isin(lines, self.lines)
        examples, unknown = np.flatnonzero(known), np.flatnonzero(~known)
        places = np.searchsorted(self.lines, lines)
        groups: list[Rows] = []
        rest = [np.empty(0, np.int64)]
        for members in self._leaves(examples, places, random):
            for group in self._groups(members, places, origins):
                (groups if len(group) == self.size else rest).append(members[group])
        # In as many as a group too, so that groups do not lie across the ends of batches.
        others = np.concatenate(rest)
        *full, last = np.split(others, range(self.size, len(others) + 1, self.size))
        groups += full
        shuffled = (groups[i] for i in random.permutation(len(groups)))
        return np.concatenate([*shuffled, last, random.permutation(unknown)])

    def _leaves(self, examples: Rows, places: Rows, random: np.random.Generator) -> Iterator[Rows]:
        """Examples that lie in few parts of the space, each once, in a drawn order."""
        largest = max(_LEAF, 16 * self.size)
        waiting = [random.permutation(examples)]
        while waiting:
            members = waiting.pop()
            if len(members) <= largest:
                yield members
                continue
            leaf: list[Rows] = []
            for cell in self._cells(members, places, random):
                if len(cell) > largest:
                    # Like texts may be too many for any pivot to part; chance then does.
                    waiting += np.array_split(cell, 2 if 2 * len(cell) > len(members) else 1)
                    continue
                if sum(map(len, leaf)) + len(cell) > largest:
                    yield np.concatenate(leaf)
                    leaf = []
                leaf.append(cell)
            if leaf:
                yield np.concatenate(leaf)

    def _cells(self, members: Rows, places: Rows, random: np.random.Generator) -> list[Rows]:
        """The members, each with those that have the same nearest one among some that are drawn."""
        count = min(_PIVOTS, 2 * len(members) // _LEAF)
        pivots = self._read(places[random.choice(members, count, replace=False)])
        nearest = np.concatenate(
            [
                (self._read(places[members[start : start + _BLOCK]]) @ pivots.T).argmax(1)
                for start in range(0, len(members), _BLOCK)
            ]
        )
        ends = np.bincount(nearest, minlength=count).cumsum()
        return np.split(members[np.argsort(nearest, kind="stable")], ends[:-1])

    def _groups(self, members: Rows, places: Rows, origins: Rows | None) -> Iterator[Rows]:
        """Positions in `members` of those that make a group; fewer where others share an origin."""
        vectors = self._read(places[members])
        products = vectors @ vectors.T
        clash = np.eye(len(members), dtype=bool)
        if origins is not None:
            for one in origins[members].T:
                for other in origins[members].T:
                    clash |= one[:, None] == other
        left = np.ones(len(members), dtype=bool)
        for first in range(len(members)):
            if not left[first]:
                continue
            near = np.where(left, products[first], -np.inf)
            group: list[int] = []
            best = first
            while len(group) < self.size and near[best] > -np.inf:
                group.append(best)
                near[clash[best]] = -np.inf
                best = int(near.argmax())
            left[group] = False
            yield np.array(group)

    def _read(self, places: Rows) -> NDArray[np.float32]:
        return self.vectors[places].astype(np.float32)
