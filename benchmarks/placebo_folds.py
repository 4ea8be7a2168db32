"""docs/results/placebo.md, "Small folders": cross-validated verdicts where there is no gain.

    python benchmarks/placebo_folds.py [--samples 150] [--jobs 1]

No encoder is needed. A sample is a small folder, drawn as vectors: each document has a topic, and
its titles and passages are near the topic. The steps are those of `adapt` on a small folder: leave
out a part of the documents, fit the maps and select a candidate on the other documents, and test
the gain by document. The candidates are those of `adapt`, with whitening by related pairs in the
place of fine-tuning. The true gain is measured on other folders of the same kind.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from common import draw
from isospace.adaptation.candidates import (
    BASE_MODEL,
    FOLD_SHARES,
    PAIR_MAPS,
    Candidate,
    candidates,
)
from isospace.adaptation.cross_validation import FOLDS, STRICTER, Folds, divided
from isospace.evaluation.pairs import Candidates, TextPairs
from isospace.evaluation.retrieval import RetrievalScores, Targets, mrr_scores
from isospace.operators.fitted_whitening import PairMoments
from isospace.operators.nearest import unit_rows
from isospace.statistics.gains import Scores, gain
from isospace.statistics.selection import best_by_others, best_position
from isospace.statistics.verdict import VerdictKind, kind_of
from isospace.system.files import write_text
from placebo import PAGE, rows

Floats = NDArray[np.float64]
DIM, SIZES = 24, (30, 60, 120)
MOST_PAIRS = 8
OVERLAP = 0.75
"""Share of the noise that two fine-tunings on overlapping documents have in common."""
WORLDS = ("isotropic", "heavy tails", "noise", "a gain is there")
"""Kinds of folders; only in the last one a gain is possible."""
MORE = {"noise": 3}
"""Kind of folder -> how many times as many samples; candidates have exactly no gain there."""
HIDDEN = 60
"""Size of the folders that the page does not show."""
_GAINS = ("true gain", "reported gain")
CANDIDATES = candidates([0.0, *FOLD_SHARES], (None, *PAIR_MAPS.tried))


@dataclass(frozen=True)
class Folder:
    """A small folder: vectors of titles and passages, (pair, dim), and each pair's document."""

    titles: Floats
    passages: Floats
    documents: NDArray[np.int64]

    @classmethod
    def drawn(cls, random: np.random.Generator, world: str, documents: int) -> Folder:
        """Draw a folder: titles and passages are near the topics of their documents."""
        sizes = random.integers(1, MOST_PAIRS + 1, documents)
        owners = np.repeat(np.arange(documents), sizes)
        hard = 1.3
        if world == "heavy tails":  # a few documents are far from all others, others are alike
            hard = np.exp(random.normal(0.2, 0.6, documents))[owners, None]
        topics = random.normal(size=(documents, DIM))[owners]
        noise = random.normal(size=(2, len(owners), DIM)) * hard
        noise[0] = noise[0][np.searchsorted(owners, owners)]  # a document has one title
        if world == "a gain is there":
            noise[..., : DIM // 4] *= 2.5
        return cls(topics + noise[0], topics + noise[1], owners)

    def take(self, places: NDArray[np.bool_]) -> Folder:
        """Return these pairs alone."""
        return Folder(self.titles[places], self.passages[places], self.documents[places])

    @property
    def same(self) -> NDArray[np.bool_]:
        """(pair, passage) which passages are of the title's document."""
        found: NDArray[np.bool_] = self.documents[:, None] == self.documents
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The document of each pair."""
        return tuple(map(str, self.documents.tolist()))

    @property
    def targets(self) -> Targets:
        """Who looks for what: a title for each passage of its document."""
        passages = tuple(f"passage {i}" for i in range(len(self.names)))
        right = {
            f"title {name}": np.flatnonzero(own)
            for name, own in zip(self.names, self.same, strict=True)
        }
        among = Candidates(passages, self.names, right, "all passages of the part")
        titles = tuple(f"title {name}" for name in self.names)
        return Targets.of_pairs(
            TextPairs("pairs", titles, passages, groups=self.names, among=among)
        )


class Made:
    """Candidates made of some documents of a folder."""

    def __init__(self, folder: Folder, train: NDArray[np.bool_]) -> None:
        apart = folder.titles[train] - folder.passages[train]
        values, vectors = np.linalg.eigh(np.cov(apart.T) + 0.1 * np.eye(DIM))
        whole = (vectors / np.sqrt(values)) @ vectors.T
        self._weights = {
            share: (1 - share) * np.eye(DIM) + share * whole for share in (0.0, *FOLD_SHARES)
        }
        self._moments = {
            share: PairMoments.from_pairs(
                *(
                    torch.from_numpy(side[train] @ weights)
                    for side in (folder.titles, folder.passages)
                )
            )
            for share, weights in self._weights.items()
        }

    def sides(self, folder: Folder, candidate: Candidate) -> tuple[Floats, Floats]:
        """Return the vectors of a folder by a candidate."""
        weights = self._weights[candidate.share]
        sides = folder.titles @ weights, folder.passages @ weights
        if candidate.change is not None:
            fitted = candidate.change.fit(self._moments[candidate.share])
            first, second = (fitted(torch.from_numpy(side)).numpy() for side in sides)
            sides = first, second
        return sides


class Noise:
    """Candidates that are the base model but for noise: fine-tuning that teaches nothing.

    The base model has as much noise of its own, so that no candidate is better or worse.
    """

    def __init__(
        self, random: np.random.Generator, common: dict[Candidate, tuple[int, int]]
    ) -> None:
        self._random, self._common, self._own = random, common, int(random.integers(2**31))

    def sides(self, folder: Folder, candidate: Candidate) -> tuple[Floats, Floats]:
        """Return the vectors of a folder by a candidate."""
        texts = int(1e9 * abs(folder.titles[0, 0]))  # other documents have other noise
        common = np.random.default_rng((*self._common[candidate], texts))
        own = np.random.default_rng((self._own, CANDIDATES.index(candidate), texts))
        share = 1.0 if candidate == BASE_MODEL else OVERLAP
        sides = []
        for side in (folder.titles, folder.passages):
            noise = np.sqrt(share) * common.normal(size=side.shape)
            noise += np.sqrt(1 - share) * own.normal(size=side.shape)
            _, first = np.unique(side[:, 0], return_inverse=True)  # a title is one text
            sides.append(side + 0.5 * noise[first])
        return sides[0], sides[1]


def values_of(folder: Folder, sides: tuple[Floats, Floats]) -> Floats:
    """Return the reciprocal ranks of a folder's pairs, (pair,), as `Targets` has them."""
    cosines = unit_rows(sides[0]) @ unit_rows(sides[1]).T
    own = np.diagonal(cosines).copy()
    cosines[folder.same] = -np.inf
    return np.asarray(1 / (1 + (cosines > own[:, None]).sum(1)))


def judged(random: np.random.Generator, world: str, documents: int) -> tuple[bool, Any, float]:
    """Run the procedure on a folder; return if it adapts, its gain, and the true gain."""
    folder, other = (Folder.drawn(random, world, documents) for _ in range(2))
    parts, theirs = (divided(one.documents, FOLDS) for one in (folder, other))
    common = {
        candidate: (int(random.integers(2**31)), place)
        for place, candidate in enumerate(CANDIDATES)
    }
    made: list[Made | Noise] = [
        Noise(random, common) if world == "noise" else Made(folder, parts != part)
        for part in range(FOLDS)
    ]
    left_out = [folder.take(parts == part) for part in range(FOLDS)]
    values = np.empty((len(CANDIDATES), len(parts)))
    for part, (one, own) in enumerate(zip(made, left_out, strict=True)):
        for place, candidate in enumerate(CANDIDATES):
            values[place, parts == part] = values_of(own, one.sides(own, candidate))
    selected = [CANDIDATES[place] for place in best_by_others(values, parts)]
    scores = [
        joined(
            folder,
            parts,
            [
                own.targets.rank_vectors(*one.sides(own, candidate))
                for one, own, candidate in zip(made, left_out, selected_of_parts, strict=True)
            ],
        )
        for selected_of_parts in (selected, [BASE_MODEL] * FOLDS)
    ]
    reported = gain(*scores, STRICTER)
    chosen = CANDIDATES[best_position([float(own.mean()) for own in values])]
    truth = []
    for part, (one, candidate) in enumerate(zip(made, selected, strict=True)):
        new = other.take(theirs == part)
        after, before = (values_of(new, one.sides(new, own)) for own in (candidate, BASE_MODEL))
        truth.append(after.mean() - before.mean())
    adapted = chosen != BASE_MODEL and kind_of(reported) is VerdictKind.ADAPTED
    return adapted, reported, float(np.mean(truth))


def joined(folder: Folder, parts: NDArray[np.int64], found: list[RetrievalScores]) -> Scores:
    """Join what was found of the pairs of each part, as `Folds.joined` does."""
    pairs = TextPairs("pairs", folder.names, folder.names, groups=folder.names)
    folds = Folds(pairs, parts, (), (), "")
    return mrr_scores(pairs, folds.joined(found))


def cell(world: str, documents: int, samples: int) -> dict[str, Any]:
    """Judge some folders of a kind."""
    torch.set_num_threads(1)
    random = np.random.default_rng([documents, *world.encode()])
    drawn = [judged(random, world, documents) for _ in range(samples)]
    truth = float(np.mean([true for *_, true in drawn]))
    gains = [found for _, found, _ in drawn]
    found = {
        "folder": world,
        "documents": documents,
        "samples": samples,
        "true gain": truth,
        "reported gain": float(np.mean([one.mean for one in gains])),
        "adapted": sum(adapted for adapted, *_ in drawn),
        "covered": sum(one.low <= truth <= one.high for one in gains),
        "verdicts": Counter(kind_of(one).value for one in gains),
    }
    print(found, flush=True)
    return found


def main() -> None:
    """Draw the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=150)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    asked = [
        (world, size, options.samples * MORE.get(world, 1)) for world in WORLDS for size in SIZES
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = list(pool.map(cell, *zip(*asked, strict=True)))
    nothing = [one for one in cells if one["folder"] != WORLDS[-1]]
    total = {"folder": "nothing to gain, all", "documents": ""} | {
        key: sum(one[key] for one in nothing) for key in ("samples", "adapted", "covered")
    }
    lines = []
    for one in (*(one for one in cells if one["documents"] != HIDDEN), total):
        gains = [f"{100 * one[key]:+.2f}" if key in one else "" for key in _GAINS]
        shares = [f"{100 * one[key] / one['samples']:.2f}" for key in ("adapted", "covered")]
        lines.append([one["folder"], one["documents"], *gains, *shares])
    header = ["folder", "documents", "true gain", "reported", "adapted, %", "coverage, %"]
    draw(PAGE, {"folds": rows(header, lines)})
    write_text(PAGE.with_name("placebo-folds.json"), json.dumps(cells, indent=1) + "\n")


if __name__ == "__main__":
    main()
