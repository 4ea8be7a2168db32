"""The passages among which those of a corpus' held-out pairs are looked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isospace.corpus.corpus import Corpus
from isospace.evaluation.pairs import Candidates


def candidate_passages(
    corpus: Corpus,
    places: NDArray[np.int64] | None,
    distractors: NDArray[np.int64] | None = None,
) -> Candidates | None:
    """The passages among which those of a corpus' held-out pairs are looked for.

    All that are right for a query are known, also those of pairs that are not measured.

    Args:
        corpus: of documents; else, and where documents have no pairs, `None` is given.
        places: positions in `corpus.held_out()`; default: all.
        distractors: lines of further passages that are candidates; those among the others count
            once.
    """
    related, relation = corpus.related, corpus.pairs.relation
    if related is None or not relation:
        return None
    held = corpus.held_rows(places)
    names = corpus.held_groups if places is None else [corpus.held_groups[i] for i in places]
    groups: list[str | None] = list(names)
    described = "all passages of the held-out documents"
    if places is not None and len(places) < len(corpus.held_groups):
        described += " that choose"
    if distractors is not None:
        others = np.setdiff1d(distractors, held)
        held = np.concatenate([held, others])
        groups += [None] * len(others)
        described += f" and {len(others):,} others"
    lines = related.sought(relation, held).tolist()
    place_of = {line: place for place, line in enumerate(lines)}
    right = {
        query: np.array([place_of[line] for line in found if line in place_of], dtype=np.int64)
        for query, found in related.answers(relation, corpus).items()
    }
    return Candidates(tuple(corpus[line] for line in lines), tuple(groups), right, described)
