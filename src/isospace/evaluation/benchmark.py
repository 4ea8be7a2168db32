"""Test and validation items of a run, held-out text, and the scores of an encoder on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from isospace.corpus.corpus import Corpus
from isospace.corpus.docstrings import SUMMARY_NEXT
from isospace.corpus.groups import evenly, unit_of, without_words_of
from isospace.errors import TooLittle, UserError
from isospace.evaluation import geometry
from isospace.evaluation.hybrid import NO_SHARED, BaselineRanks, rank_pairs, select_weight
from isospace.evaluation.pairs import (
    Asked,
    Candidates,
    Encode,
    ScoredPairs,
    TextPairs,
    encode_columns,
    hash_texts,
    remembering,
    sided,
)
from isospace.evaluation.retrieval import DISPLACEMENT, RetrievalScores, Targets, halves, mrr_scores
from isospace.evaluation.senteval import STSSet
from isospace.evaluation.sts import (
    STSResult,
    STSScores,
    evaluate_sts,
    paper_cosines,
    sts_test_pairs,
)
from isospace.evaluation.task import cells, percent_cells
from isospace.losses import info_nce
from isospace.operators.fusion import WEIGHT
from isospace.statistics.gains import CONFIDENCE, Gain, Scores, gain
from isospace.statistics.selection import SelectedAmong, best_other, gain_of_selected, measured_gain
from isospace.statistics.verdict import (
    GAIN_ERROR_SHARE,
    Verdict,
    base_kept,
    detectable_gain,
    verdict_of,
)
from isospace.system.files import hash_of

_LOSS_TEMPERATURE = 0.05
HELD_OUT_PAIRS = 500
HELD_OUT_SENTENCES = 128
NOISY_SENTENCES = 64
"""Sentences measured under dropout. These sizes keep the cost of an evaluation below a tenth of the
training between two evaluations."""
DISTRACTORS = 1_000
"""Largest number of training passages that are candidates of the validation pairs."""


@dataclass(frozen=True)
class HeldOutScores:
    """One measurement of `HeldOut`: measures, ranks of the pairs, and vectors of the sentences."""

    values: dict[str, float]
    ranks: RetrievalScores
    vectors: np.ndarray


class HeldOut:
    """Held-out sentences and pairs that select checkpoints without labels.

    `natural` is false for halves of sentences.
    """

    def __init__(self, sentences: Sequence[str], pairs: TextPairs, natural: bool = True) -> None:
        self.natural = natural
        self.pairs = pairs.take(evenly(len(pairs), HELD_OUT_PAIRS))
        self._targets = Targets.of_pairs(self.pairs)
        self.sentences = tuple(sentences[i] for i in evenly(len(sentences), HELD_OUT_SENTENCES))

    def measure(
        self, encode: Encode, encode_noisy: Encode, base: np.ndarray | None = None
    ) -> HeldOutScores:
        """Measure one state of the encoder.

        `pairs_loss` is InfoNCE of first texts against all second texts, `alignment` that of two
        dropout views, `neighbour_overlap` that with the base model's vectors `base`; default: the
        encoder is the base model.
        """
        encode, encode_noisy = sided(encode), sided(encode_noisy)
        clean = encode.documents(self.sentences)
        # The texts of `select_weight` too: a cached base model encodes them once.
        texts, first = encode_columns(
            encode, self._targets.texts, self.pairs.first, sides=("document", "query")
        )
        second = texts[self._targets.own]
        loss = info_nce(torch.from_numpy(first), torch.from_numpy(second), _LOSS_TEMPERATURE)
        ranks = self._targets.rank_vectors(first, texts)
        noisy = [encode_noisy.documents(self.sentences[:NOISY_SENTENCES]) for _ in range(2)]
        values = {
            "pairs_loss": float(loss),
            "pairs_mrr": ranks.mrr,
            "alignment": geometry.alignment(*noisy),
            "uniformity": geometry.uniformity(clean),
            "effective_rank": geometry.effective_rank(clean),
            "mean_cosine": geometry.mean_cosine(clean),
            "neighbour_overlap": geometry.neighbour_overlap(clean if base is None else base, clean),
        }
        return HeldOutScores(values, ranks, clean)


def validation_text(corpus: Corpus) -> HeldOut:
    """Return the held-out text and validation pairs that select checkpoints.

    They share no text and no group with the test pairs, unless `Benchmark.split` is false.
    """
    own, sentences = corpus.pairs, corpus.held_out(corpus.validation)
    if not own.dev:
        return HeldOut(sentences, held_out_halves(corpus, corpus.validation), natural=False)
    # Candidates of their own documents alone, because every evaluation encodes them.
    among = candidate_passages(corpus, corpus.validation)
    return HeldOut(sentences, natural_pairs(own.dev, own.dev_groups, own.unit, among))


def held_out_halves(corpus: Corpus, places: NDArray[np.int64]) -> TextPairs:
    """Return the halves of some held-out sentences, with their groups."""
    groups = None if corpus.group is None else [corpus.held_groups[place] for place in places]
    return halves(corpus.held_out(places), groups, unit_of(corpus.group))


def hard_pairs(corpus: Corpus, held_out: HeldOut) -> TextPairs:
    """Return the validation pairs with `DISTRACTORS` training passages as additional candidates.

    With few candidates most encoders find most pairs, so that a better encoder hardly shows.
    """
    if not corpus.pairs.dev:
        return held_out.pairs
    lines = corpus.train_rows[evenly(len(corpus.train_rows), DISTRACTORS)]
    among = candidate_passages(corpus, corpus.validation, lines)
    return replace(held_out.pairs, among=among)


def natural_pairs(
    pairs: Sequence[tuple[str, str]],
    groups: Sequence[str],
    unit: str,
    among: Candidates | None = None,
) -> TextPairs:
    """Return the pairs of a corpus with the group of each."""
    first, second = zip(*pairs, strict=True)
    return TextPairs("natural pairs", first, second, groups=tuple(groups), unit=unit, among=among)


def candidate_passages(
    corpus: Corpus, places: NDArray[np.int64] | None, distractors: NDArray[np.int64] | None = None
) -> Candidates | None:
    """Return the candidate passages for the held-out pairs of a corpus; `None` without documents.

    They know all right passages of a query. `distractors` are lines of additional passages.
    """
    related, relation = corpus.related, corpus.pairs.relation
    if related is None or not relation:
        return None
    held = corpus.held_rows(places)
    names = corpus.held_groups if places is None else [corpus.held_groups[i] for i in places]
    groups: list[str | None] = list(names)
    validates = places is not None and len(places) < len(corpus.held_groups)
    described = f"all passages of the {'validation' if validates else 'held-out'} documents"
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


GAIN = "MRR over the base model"
"""Column of gains with their intervals."""
CROSS_VALIDATED = "cross-validated pairs of all documents"
"""Description of the test pairs of a small folder, whose documents all train the final model."""
SAME_PAIRS = "gains are without what selection by the same pairs has added to the MRR"
"""Note if the test pairs are the validation pairs too."""
BASE, ADAPTED = "base model", "adapted"
"""Names of both models in tables."""
HYBRID_BASE, HYBRID_ADAPTED = f"{BASE} + BM25", f"{ADAPTED} + BM25"
"""Names of hybrid search with each model in tables."""
_WAYS = {
    HYBRID_ADAPTED: ("hybrid search with the {}", "hybrid search with the {}"),
    HYBRID_BASE: (f"hybrid search with the {BASE}", "hybrid without adapting"),
    ADAPTED: ("vectors of the {} alone", "vectors alone"),
    BASE: (f"vectors of the {BASE} alone", "vectors alone"),
    "BM25": ("BM25 alone", "BM25 alone"),
}
"""Way of search -> its words if it is advised, and if it is compared with the advised way."""


@dataclass(frozen=True)
class PairScores:
    """Retrieval scores of the test pairs, 0 to 1, and their protocol."""

    protocol: str
    queries: int
    candidates: int
    values: dict[str, float]

    @classmethod
    def of_ranks(
        cls, ranks: RetrievalScores, no_shared: RetrievalScores | None = None
    ) -> PairScores:
        """Return the scores of ranks, and of ranks without shared words."""
        values = ranks.row()
        if no_shared is not None:
            values[NO_SHARED] = no_shared.mrr
        return cls(ranks.protocol, len(ranks.ranks), ranks.candidates, values)

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank."""
        return self.values["MRR"]


@dataclass(frozen=True)
class BM25Scores:
    """Retrieval scores of the test pairs by BM25, and by hybrid search."""

    bm25: PairScores
    hybrid: PairScores
    weight: float


@dataclass(frozen=True)
class BenchmarkScores:
    """Scores of one encoder on a benchmark, as results.json holds them."""

    pairs: PairScores
    sts: STSScores | None
    with_bm25: BM25Scores

    def cells(self) -> dict[str, str]:
        """Return the cells of a table for people, x 100."""
        sts = {} if self.sts is None else self.sts.paper_row
        return percent_cells(self.pairs.values) | cells(sts)


def table_rows(
    column: str, states: Mapping[str, BenchmarkScores], gains: Mapping[str, Gain] | None = None
) -> list[dict[str, str]]:
    """Return rows for each state of an encoder, alone and in hybrid search, and BM25."""
    rows = []
    for name, scores in states.items():
        rows.append({column: name} | scores.cells())
        rows.append({column: f"{name} + BM25"} | percent_cells(scores.with_bm25.hybrid.values))
    # The first row decides the columns of the table, so BM25 comes second.
    bm25 = next(iter(states.values())).with_bm25.bm25
    rows.insert(1, {column: "BM25"} | percent_cells(bm25.values))
    if gains:
        rows = [row | {GAIN: points_of(gains, row[column])} for row in rows]
    return rows


def points_of(gains: Mapping[str, Gain], row: str) -> str:
    """Return the gain of a row as a cell; empty without a gain."""
    return gains[row].points if row in gains else ""


def recommendation(mrr: Mapping[str, float], adapted: str = "adapted model") -> str:
    """Return a sentence that names the way of search with the highest MRR, and the others' MRR.

    >>> bm25 = {"BM25": 0.4, "base model": 0.45, "base model + BM25": 0.516}
    >>> recommendation(bm25 | {"adapted": 0.55, "adapted + BM25": 0.561})[:82]
    'Use hybrid search with the adapted model: 56.1. Hybrid without adapting: 51.6; vec'
    """
    # Nobody would use the base model alone if there is an adapted model.
    shown = {way: x for way, x in mrr.items() if way != BASE or ADAPTED not in mrr}
    best = max(shown, key=lambda way: shown[way])
    others = [
        f"{_WAYS[way][1]}: {100 * shown[way]:.1f}" for way in _WAYS if way in shown.keys() - {best}
    ]
    said = [f"Use {_WAYS[best][0]}: {100 * shown[best]:.1f}"]
    if others:
        rest = "; ".join(others)
        said.append(rest[:1].upper() + rest[1:])
    return f"{'. '.join(said).replace('{}', adapted)} (MRR x 100 on the test pairs)."


_OWN_SENTENCES = 1000
"""Largest number of held-out sentences whose vectors a run keeps."""

HALVES = "halves of held-out sentences (first to second)"
"""Description of the test pairs if neither the user nor the corpus has pairs."""


@dataclass(frozen=True)
class BenchmarkResult:
    """Scores of one encoder on every item of a benchmark, and vectors of its `sample`."""

    retrieval: RetrievalScores
    sts: STSResult | None
    vectors: np.ndarray
    with_bm25: BaselineRanks

    @property
    def scores(self) -> BenchmarkScores:
        """All scores with their protocols."""
        ranks = self.with_bm25
        bm25, hybrid = PairScores.of_ranks(ranks.bm25), PairScores.of_ranks(ranks.hybrid)
        return BenchmarkScores(
            PairScores.of_ranks(self.retrieval, ranks.no_shared),
            None if self.sts is None else self.sts.summary(),
            BM25Scores(bm25, hybrid, ranks.weight),
        )


@dataclass(frozen=True)
class Benchmark:
    """Test items that every compared encoder is scored on.

    Attributes:
        labels: labelled pairs that select checkpoints.
        sample: held-out sentences whose vectors are kept.
        split: true if no validation pair is among the test `pairs`.
        confidence: nominal confidence of the verdict's interval. After cross-validation it must be
            higher for the interval to hold in `CONFIDENCE` of cases.
    """

    pairs: TextPairs
    protocol: str
    tasks: Mapping[str, STSSet]
    labels: ScoredPairs | None
    sample: tuple[str, ...]
    split: bool = True
    confidence: float = CONFIDENCE

    @classmethod
    def make(
        cls,
        corpus: Corpus,
        pairs: TextPairs | None = None,
        tasks: Mapping[str, STSSet] | None = None,
        labels: ScoredPairs | None = None,
        distractors: bool = False,
    ) -> Benchmark:
        """Make a benchmark of held-out text and of the user's own data.

        Without `pairs` the test pairs are natural pairs of the corpus, or else halves of sentences.
        With `distractors` all passages are candidates.
        """
        held_out = corpus.held_out(corpus.test)
        split = True
        if pairs is not None:
            described = f"pairs of {pairs.name}"
        elif (own := corpus.pairs).test:
            among = candidate_passages(corpus, None, corpus.passages if distractors else None)
            pairs = natural_pairs(own.test, own.test_groups, own.unit, among)
            split = own.split
            described = f"held-out pairs ({own.relation or 'anchor to positive'})"
            if own.relation == SUMMARY_NEXT:
                described = "held-out docstring pairs (summary to next paragraph)"
        else:
            pairs = held_out_halves(corpus, corpus.test)
            split = len(corpus.validation) < len(corpus.held_groups)
            described = HALVES
        if len(pairs) < 2:
            raise TooLittle(
                "the corpus has too few sentences of 8 words or more, or too few groups (`group`), "
                "to measure on. Give more text, or `pairs` FILE"
            )
        if distractors and pairs.among is None:
            raise UserError(
                f"`distractors`: {pairs.name} are ranked among each other. Leave `distractors` out"
            )
        tests = {name: task.test_only() for name, task in (tasks or {}).items()}
        return cls(
            pairs.grouped(),
            f"MRR, {described}",
            tests,
            labels,
            tuple(held_out[:_OWN_SENTENCES]),
            split or labels is not None,
        )

    def measure(self, encode: Encode, bm25_weight: float = WEIGHT) -> BenchmarkResult:
        """Score one encoder; a text that is in several sets is encoded once."""
        encode = remembering(encode)
        retrieval, with_bm25 = rank_pairs(encode, self.pairs, bm25_weight)
        sts = evaluate_sts(encode, self.tasks) if self.tasks else None
        return BenchmarkResult(retrieval, sts, encode.documents(self.sample), with_bm25)

    @property
    def asked(self) -> tuple[Asked, ...]:
        """The texts that `measure` encodes."""
        bare = [without_words_of(*pair) for pair in self.pairs]
        plain = [text for test in self._sts_tests for text in (*test.first, *test.second)]
        return (*self.pairs.asked, ("document", (*bare, *self.sample)), (None, plain))

    @property
    def _sts_tests(self) -> list[ScoredPairs]:
        return [test for task in self.tasks.values() for test in task.subsets.values()]

    def select_weight(self, encode: Encode, held_out: HeldOut) -> float:
        """Select the weight of BM25 in hybrid search on the validation pairs.

        Halves of sentences, and pairs that are test pairs too, leave the default weight.
        """
        if not held_out.natural or np.isin(held_out.pairs.ids(), self.pairs.ids()).any():
            return WEIGHT
        return select_weight(encode, held_out.pairs)

    def items(self, measured: BenchmarkResult) -> dict[str, np.ndarray]:
        """Return the values of each test item, for tests over items and seeds (`compare`).

        "MRR", "BM25", "fused" and `NO_SHARED` have reciprocal ranks (pair,) and displacements
        (half, pair), columns of the papers' row cosines (pair,).
        """
        with_bm25 = measured.with_bm25
        ranked = {"MRR": measured.retrieval, "BM25": with_bm25.bm25, "fused": with_bm25.hybrid}
        if with_bm25.no_shared is not None:
            ranked[NO_SHARED] = with_bm25.no_shared
        items: dict[str, np.ndarray] = {}
        for name, ranks in ranked.items():
            items |= {name: ranks.reciprocal_ranks, f"{name}{DISPLACEMENT}": ranks.displacement}
        return items | (paper_cosines(self.tasks, measured.sts.cosines) if measured.sts else {})

    def test_pairs(self) -> dict[str, dict[str, np.ndarray]]:
        """Return part -> column -> array of the test pairs, in the order of `items`.

        "group" has numbers of the groups (pair,) for "MRR", and of the sentences (pair, 2) for
        columns of the papers' row. These also have "gold" scores (pair,), and "seen": true for
        pairs that are among the labels (pair,).
        """
        labelled = np.array([], np.int64) if self.labels is None else self.labels.ids()
        parts = sts_test_pairs(self.tasks, labelled)
        parts["group"] = {"MRR": self.pairs.group_numbers()} | parts["group"]
        return parts

    def pairs_digest(self) -> str:
        """Return a digest of the test pairs alone."""
        return _digest((self.pairs.first, self.pairs.second))

    def labels_digest(self) -> str:
        """Return a digest of the labelled validation pairs; empty if there are none."""
        found = self.labels
        return "" if found is None else _digest((found.first, found.second, found.gold.tolist()))

    def digest(self) -> str:
        """Return a digest of the test items; equal digests have comparable `items`."""
        sts = [(test.first, test.second, test.gold.tolist()) for test in self._sts_tests]
        content = ((self.pairs.first, self.pairs.second), sts)
        among = self.pairs.among
        return _digest(content if among is None else (*content, hash_texts(among.texts)))

    def pair_scores(self, ranks: RetrievalScores) -> Scores:
        """Return the MRR of the test pairs with the contribution of each pair."""
        return mrr_scores(self.pairs, ranks)

    def detectable_gain(self, before: BenchmarkResult, share: float = GAIN_ERROR_SHARE) -> str:
        """Return a sentence on the smallest gain that the test pairs can show."""
        return detectable_gain(self.pair_scores(before.retrieval), self.pairs.unit, share=share)

    def bm25_gains(
        self, before: BenchmarkResult, after: BenchmarkResult, among: SelectedAmong | None = None
    ) -> dict[str, Gain]:
        """Return way of search with BM25 -> gain over the base model alone.

        `among` are the candidates that the test pairs selected from, if they did.
        """
        base = self.pair_scores(before.retrieval)
        ways = {"BM25": before.with_bm25.bm25, HYBRID_BASE: before.with_bm25.hybrid}
        gains = {way: gain(self.pair_scores(ranks), base) for way, ranks in ways.items()}
        if after is not before:
            hybrid = self.pair_scores(after.with_bm25.hybrid)
            gains[HYBRID_ADAPTED] = measured_gain(hybrid, base, among)
        return gains

    def verdict(
        self,
        before: BenchmarkResult,
        after: BenchmarkResult,
        kept: str | None,
        among: SelectedAmong | None = None,
    ) -> Verdict:
        """Compare both models on the test pairs; `kept` says why selection kept the base model."""
        if kept is not None:
            best = None
            # A single one is the base model: all checkpoints have collapsed.
            if among is not None and len(among.scores) > 1:
                best = gain_of_selected(replace(among, place=best_other(among.scores)))
            return base_kept(kept, self.protocol, best)
        adapted, base = (self.pair_scores(state.retrieval) for state in (after, before))
        found = measured_gain(adapted, base, among, self.confidence)
        return verdict_of(found, self.protocol, self.pairs.unit)


def _digest(content: object) -> str:
    return hash_of(repr(content).encode())
