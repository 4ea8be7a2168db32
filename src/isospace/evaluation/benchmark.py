"""Test items of a run: test pairs and STS sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from isospace.corpus.corpus import Corpus
from isospace.corpus.dedup import without_words_of
from isospace.corpus.relations import SUMMARY_NEXT
from isospace.errors import TooLittle, UserError
from isospace.evaluation.held_out import HeldOut, candidate_passages, held_out_halves, natural_pairs
from isospace.evaluation.hybrid import NO_SHARED, BaselineRanks, rank_pairs, select_weight
from isospace.evaluation.pairs import Asked, Encode, ScoredPairs, TextPairs, hash_texts, remembering
from isospace.evaluation.retrieval import DISPLACEMENT, RetrievalScores, mrr_scores
from isospace.evaluation.scores import (
    HYBRID_ADAPTED,
    HYBRID_BASE,
    BenchmarkScores,
    BM25Scores,
    PairScores,
)
from isospace.evaluation.senteval import STSSet
from isospace.evaluation.sts import STSResult, evaluate_sts, paper_cosines, sts_test_pairs
from isospace.operators.fusion import WEIGHT
from isospace.statistics.gains import CONFIDENCE, Gain, gain
from isospace.statistics.influence import Scores
from isospace.statistics.selection import SelectedAmong, best_other, gain_of_selected, measured_gain
from isospace.statistics.verdict import (
    GAIN_ERROR_SHARE,
    Verdict,
    base_kept,
    detectable_gain,
    verdict_of,
)
from isospace.system.files import hash_of

SAMPLE = 1000
"""Largest number of held-out sentences whose vectors a run keeps."""

HALVES = "halves of held-out sentences (first to second)"
"""Description of the test pairs if neither the user nor the corpus has pairs."""


@dataclass(frozen=True)
class BenchmarkResult:
    """Scores of one encoder on every item of a benchmark, and the vectors of its `sample`."""

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
        pairs: test pairs with their groups; the verdict compares their mean reciprocal rank.
        labels: labelled pairs that select checkpoints.
        sample: held-out sentences whose vectors are kept.
        split: true if no validation pair is among `pairs`.
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

        The sample is the held-out text that `validation_text` leaves, or all of it. Without
        `pairs` the test pairs are natural pairs of the corpus, or else halves of the sample's
        sentences. With `distractors` all passages are candidates.
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
                "the corpus has too few sentences of 8 words or more to measure on, or too few "
                "groups (`group`). Give more text, or pairs of texts that belong together "
                "(`pairs` FILE)"
            )
        if distractors and pairs.among is None:
            raise UserError(
                f"`distractors`: {pairs.name} are ranked among each other and take no "
                "distractors. Leave `distractors` out, or give documents (`corpus`)"
            )
        tests = {name: task.test_only() for name, task in (tasks or {}).items()}
        return cls(
            pairs.grouped(),
            f"MRR, {described}",
            tests,
            labels,
            tuple(held_out[:SAMPLE]),
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
        """Select the weight of BM25 in hybrid search with an encoder, on the validation pairs.

        Returns the default weight if the validation pairs are halves of sentences, or if one of
        them is a test pair.
        """
        if not held_out.natural or np.isin(held_out.pairs.ids(), self.pairs.ids()).any():
            return WEIGHT
        return select_weight(encode, held_out.pairs)

    def items(self, measured: BenchmarkResult) -> dict[str, np.ndarray]:
        """Return the values of each test item, for tests over items and seeds (`compare`).

        "MRR", "BM25", "fused" and `NO_SHARED` have reciprocal ranks (pair,), and the displacement
        (half, pair) of `RetrievalScores`. Columns of the papers' row have cosines (pair,).
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

        "group" has the group's number for "MRR" (pair,), and numbers of the sentences (pair, 2) for
        columns of the papers' row. These also have "gold": gold scores (pair,), and "seen": true
        for pairs that are also among the labels (pair,).
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
        """Return a digest of the test items; runs with equal digests have comparable `items`."""
        sts = [(test.first, test.second, test.gold.tolist()) for test in self._sts_tests]
        content = ((self.pairs.first, self.pairs.second), sts)
        among = self.pairs.among
        return _digest(content if among is None else (*content, hash_texts(among.texts)))

    def pair_scores(self, ranks: RetrievalScores) -> Scores:
        """Return the MRR of the test pairs with the contribution of each pair."""
        return mrr_scores(self.pairs, ranks)

    def detectable_gain(self, before: BenchmarkResult, share: float = GAIN_ERROR_SHARE) -> str:
        """Return a sentence on the smallest gain that the test pairs can show.

        `share` is the ratio of a gain's standard error to that of the base model's score.
        """
        return detectable_gain(self.pair_scores(before.retrieval), self.pairs.unit, share=share)

    def bm25_gains(
        self, before: BenchmarkResult, after: BenchmarkResult, among: SelectedAmong | None = None
    ) -> dict[str, Gain]:
        """Return way of search with BM25 -> gain over the base model alone.

        Pass the candidates as `among` if the test pairs selected the adapted model: hybrid search
        with it gains by that selection too.
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
        """Compare both models on the test pairs.

        `kept` is the reason why selection kept the base model, or `None`.
        """
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
