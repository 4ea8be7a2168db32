"""Which way to search finds most of the test pairs."""

from __future__ import annotations

from collections.abc import Mapping

from isospace.evaluation.scores import ADAPTED, BASE

HYBRID_BASE, HYBRID_ADAPTED = f"{BASE} + BM25", f"{ADAPTED} + BM25"
_OTHER = {
    HYBRID_ADAPTED: "hybrid search with the {}",
    HYBRID_BASE: "hybrid without adapting",
    ADAPTED: "vectors alone",
    BASE: "vectors alone",
    "BM25": "BM25 alone",
}
_FIRST = _OTHER | {
    HYBRID_BASE: f"hybrid search with the {BASE}",
    ADAPTED: "vectors of the {} alone",
    BASE: f"vectors of the {BASE} alone",
}


def recommendation(mrr: Mapping[str, float], adapted: str = "adapted model") -> str:
    """Say which way to search has the highest MRR, and what the others have.

    Args:
        mrr: of BASE, "BM25" and `HYBRID_BASE`, and of ADAPTED and `HYBRID_ADAPTED` where that model
            can be used; 0 to 1, on the test pairs.
        adapted: what to call that model.

    >>> bm25 = {"BM25": 0.4, "base model": 0.45, "base model + BM25": 0.516}
    >>> recommendation(bm25 | {"adapted": 0.55, "adapted + BM25": 0.561})[:82]
    'Use hybrid search with the adapted model: 56.1. Hybrid without adapting: 51.6; vec'
    """
    # The base model alone is no way to go where an adapted one can be used.
    shown = {way: x for way, x in mrr.items() if way != BASE or ADAPTED not in mrr}
    best = max(shown, key=lambda way: shown[way])
    others = [
        f"{_OTHER[way]}: {100 * shown[way]:.1f}" for way in _OTHER if way in shown.keys() - {best}
    ]
    told = [f"Use {_FIRST[best]}: {100 * shown[best]:.1f}"]
    if others:
        rest = "; ".join(others)
        told.append(rest[:1].upper() + rest[1:])
    return f"{'. '.join(told).replace('{}', adapted)} (MRR x 100 on the test pairs)."
