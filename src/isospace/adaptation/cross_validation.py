"""Cross-validation by documents: in a small folder, every document serves as test data once.

A tenth of 60 documents is too little for a test. So the documents are divided into `FOLDS` parts,
and each part is left out once:

- Maps are fitted and weights are fine-tuned on the other parts.
- Each candidate ranks the passages of the left-out part for the pairs of that part.
- The candidate with the highest MRR on the pairs of the other parts is selected for the part. So
  no pair tests a candidate that it selected.

The scores of all parts together give the gain, with an interval over the documents. The model that
is shipped is made by the same procedure from all documents.

Passages of the other parts are not ranked, because the candidate was made from them. A map that is
fitted on few texts separates all other texts from them. With these passages in the ranking, this
separation would count as a gain (docs/results/placebo.md).

Sources: Stone 1974, Journal of the Royal Statistical Society B 36; Varma & Simon 2006, BMC
Bioinformatics 7, on selection inside the folds.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isospace.adaptation.candidates import BASE_MODEL, Candidate, CandidateEncoders
from isospace.adaptation.fitting import drop_normalize
from isospace.config import TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.corpus.groups import Rows, evenly
from isospace.corpus.relations import Related
from isospace.errors import number_of
from isospace.evaluation.benchmark import CROSS_VALIDATED, Benchmark, BenchmarkResult, HeldOut
from isospace.evaluation.hybrid import BaselineRanks, rank_pairs
from isospace.evaluation.pairs import Candidates, PromptedEncoders, TextPairs
from isospace.evaluation.retrieval import (
    RetrievalScores,
    evaluate_retrieval,
    first_texts,
    mrr_scores,
)
from isospace.evaluation.sts import evaluate_sts
from isospace.statistics.gains import FEWEST_GROUPS, Scores
from isospace.statistics.selection import best_by_others
from isospace.system.progress import Progress, Silent
from isospace.system.signals import StopRequest
from isospace.training import checkpoint
from isospace.training.fit import Fit
from isospace.training.prepare import Data, base_encoder
from isospace.training.run import Run, begun
from isospace.training.step import Diverged

FOLDS = 5
PAIRS, PAIRS_EACH = 600, 8
"""Largest number of test pairs, and of test pairs from one document. More pairs from a long
document would add little, because they depend on each other."""
POOL = 240
"""Largest number of passages that are ranked in a part, besides the passages of its pairs."""
STRICTER = 0.975
"""Nominal level of the interval, so that it covers the true gain in 95 % of cases. The parts select
by each other's pairs, so gains vary more between them than the spread over documents shows
(docs/results/placebo.md)."""


@dataclass(frozen=True)
class Folds:
    """The documents of a small folder, divided into parts that test one after the other.

    Attributes:
        parts: (pair,) the part of each pair, from 0.
        of_part: the pairs of each part, with the passages that are ranked for them.
        corpora: for each part, the corpus without its documents.
    """

    pairs: TextPairs
    parts: NDArray[np.int64]
    of_part: tuple[TextPairs, ...]
    corpora: tuple[Corpus, ...]
    relation: str

    @classmethod
    def divide(cls, corpus: Corpus, benchmark: Benchmark, wanted: str | None) -> Folds | None:
        """Divide the documents if too few are held out to select and to test; else return `None`.

        The result is also `None` if all documents have too few pairs or groups. `wanted` is the
        relation of the pairs; default: the first relation with enough pairs.
        """
        held_out = len(set(benchmark.pairs.groups or ()))
        if corpus.related is None or (benchmark.split and held_out >= FEWEST_GROUPS):
            return None
        everything = replace(corpus.related, held=np.ones_like(corpus.related.held))
        relation = everything.evaluation_relation(wanted)
        if relation is None:
            return None
        lines, groups = _pairs(corpus, everything, relation)
        if len(np.unique(groups)) < FEWEST_GROUPS:
            return None
        parts = divided(groups, FOLDS)
        names = tuple(map(str, groups.tolist()))
        first, second = (tuple(corpus[line] for line in side) for side in lines.T.tolist())
        pairs = TextPairs(
            "pairs of all documents", first, second, groups=names, unit="groups of documents"
        )
        of_part, corpora = [], []
        for part in range(FOLDS):
            own = np.flatnonzero(parts == part)
            passages = np.isin(corpus.groups, groups[own])
            among = _pool(corpus, everything, relation, passages, lines[own, 1])
            of_part.append(replace(pairs.take(own.tolist()), among=among))
            corpora.append(corpus.holding_out(passages, relation))
        return cls(pairs, parts, tuple(of_part), tuple(corpora), relation)

    @property
    def described(self) -> str:
        """A description of the test pairs for people."""
        documents = number_of(len(set(self.pairs.groups or ())), "documents")
        return (
            f"{self.relation}: {len(self.pairs):,} pairs of {documents}. These are too few to hold "
            f"some out. The documents are split into {FOLDS} parts, and each part tests models "
            "made from the others (cross-validation)"
        )

    def benchmark(self, own: Benchmark) -> Benchmark:
        """Return the benchmark `own` with the pairs of all documents as its pairs."""
        protocol = f"MRR, {CROSS_VALIDATED} ({self.relation})"
        return replace(own, pairs=self.pairs, protocol=protocol, split=True, confidence=STRICTER)

    @property
    def note(self) -> str:
        """A note for the user: the verdict tests the procedure, and not the shipped model."""
        return (
            f"The verdict is about the procedure: it was tested on {FOLDS} models, each made "
            "without a part of the documents. The model in the folder is made of all documents, so "
            "evaluations during its training are on text that it was trained on."
        )

    def data(self, own: Data, part: int) -> Data:
        """Return the data of a training without the documents of a part, which are held out."""
        corpus, pairs = self.corpora[part], self.of_part[part]
        return replace(own, corpus=corpus, held_out=HeldOut(corpus.held_out(), pairs))

    def joined(self, found: Sequence[RetrievalScores]) -> RetrievalScores:
        """Join the retrieval scores of all parts, in the order of `pairs`."""
        places = np.argsort(np.argsort(self.parts, kind="stable"))
        return RetrievalScores(
            np.concatenate([one.ranks for one in found])[places],
            max(one.candidates for one in found),
            found[0].protocol,
            np.concatenate([one.displacement for one in found], axis=1)[:, places],
        )


def divided(groups: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """Return the part of each item, (item,): parts of about equal size, made of whole groups.

    >>> divided(np.array([7, 7, 7, 5, 5, 9]), 2).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    _, numbers, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    part_of, filled = np.zeros(len(sizes), np.int64), np.zeros(parts)
    for group in np.argsort(-sizes, kind="stable"):
        part_of[group] = np.argmin(filled)
        filled[part_of[group]] += sizes[group]
    return part_of[numbers]


def _pairs(corpus: Corpus, everything: Related, relation: str) -> tuple[Rows, NDArray[np.int64]]:
    """Return the line numbers (pair, 2) and the groups (pair,) of the test pairs."""
    documents = everything.structure.documents
    group_of = np.full(int(documents.max()) + 1, -1)
    group_of[documents[corpus.passages]] = corpus.groups
    lines = everything.held_out(relation)
    groups = group_of[documents[lines[:, 0]]]
    sizes = np.bincount(groups)
    most = max(
        (each for each in range(1, PAIRS_EACH + 1) if np.minimum(sizes, each).sum() <= PAIRS),
        default=1,
    )
    owners = np.flatnonzero(sizes)
    kept = np.sort(
        np.concatenate(
            [
                np.flatnonzero(groups == owner)[evenly(int(sizes[owner]), most)]
                for owner in owners[evenly(len(owners), PAIRS)]
            ]
        )
    )
    return lines[kept], groups[kept]


def _pool(
    corpus: Corpus,
    everything: Related,
    relation: str,
    passages: NDArray[np.bool_],
    sought: Rows,
) -> Candidates:
    """Return the passages that are ranked for the pairs of a part.

    `everything` has all documents held out. `passages` (passage,) is true for those of the part;
    `sought` (pair,) are the line numbers of the second texts.
    """
    places = np.flatnonzero(passages)
    lines = everything.sought(relation, corpus.passages[places])
    kept = np.isin(lines, sought)
    others = np.flatnonzero(~kept)
    kept[others[evenly(len(others), POOL)]] = True
    place_of = {line: place for place, line in enumerate(lines[kept].tolist())}
    right = {
        query: np.array([place_of[line] for line in found.tolist() if line in place_of], np.int64)
        for query, found in everything.answers(relation, corpus).items()
    }
    return Candidates(
        tuple(corpus[line] for line in lines[kept].tolist()),
        tuple(map(str, corpus.groups[places[kept]].tolist())),
        right,
        "passages of the documents that are left out together",
    )


@dataclass(frozen=True)
class CrossValidated:
    """Scores of every candidate on all pairs, from models made without the pair's document.

    `encoders` has the candidates of each part, made without its documents.
    """

    folds: Folds
    encoders: tuple[CandidateEncoders, ...]
    _ranks: dict[Candidate, list[RetrievalScores]] = field(default_factory=dict)

    def trained(
        self,
        settings: TrainConfig,
        data: Data,
        updates: int,
        stop: StopRequest,
        how_to_resume: str,
        progress: Progress,
    ) -> CrossValidated:
        """Fine-tune for each part without its documents; return the scores with these weights."""
        found = []
        with progress.bar("cross-validate", FOLDS) as advance:
            for part, encoders in enumerate(self.encoders):
                file = encoders.folder / f"fold-{part}.safetensors"
                if not file.is_file():
                    own = self.folds.data(data, part)
                    _train(settings, encoders, own, updates, stop, file, how_to_resume)
                found.append(replace(encoders, trained=encoders.read_trained(file)))
                advance(1)
        return replace(self, encoders=tuple(found))

    def ranks(self, candidate: Candidate) -> list[RetrievalScores]:
        """Rank the pairs of every part by a candidate, once."""
        if candidate not in self._ranks:
            both = zip(self.encoders, self.folds.of_part, strict=True)
            self._ranks[candidate] = [
                evaluate_retrieval(encoders.encode(candidate), pairs) for encoders, pairs in both
            ]
        return self._ranks[candidate]

    def scores(self, candidate: Candidate) -> Scores:
        """Return the scores of all pairs, each by the candidate made without its document."""
        return mrr_scores(self.folds.pairs, self.folds.joined(self.ranks(candidate)))

    def selected(self, candidate: Candidate, allowed: Sequence[Candidate]) -> list[Candidate]:
        """Return for each part the `allowed` candidate that the pairs of the other parts select.

        For the base model it is the base model.
        """
        if candidate == BASE_MODEL:
            return [BASE_MODEL] * FOLDS
        values = np.concatenate([self.scores(one).values for one in allowed])
        return [allowed[place] for place in best_by_others(values, self.folds.parts)]

    def selected_scores(self, selected: Sequence[Candidate]) -> Scores:
        """Return the scores of all pairs, each by the candidate that was selected for its part."""
        found = [self.ranks(candidate)[part] for part, candidate in enumerate(selected)]
        return mrr_scores(self.folds.pairs, self.folds.joined(found))

    def measured(
        self,
        selected: Sequence[Candidate],
        benchmark: Benchmark,
        encode: PromptedEncoders,
        weight: float,
    ) -> BenchmarkResult:
        """Return the results of the benchmark: pairs by the parts' models, other items by `encode`.

        `encode` is made from all documents.
        """
        ranked = zip(self._selected_encoders(selected), self.folds.of_part, strict=True)
        ranks = (rank_pairs(own, pairs, weight) for own, pairs in ranked)
        alone, others = zip(*ranks, strict=True)
        no_shared = [one.no_shared for one in others if one.no_shared is not None]
        joined = self.folds.joined
        with_bm25 = BaselineRanks(
            joined([one.bm25 for one in others]),
            joined([one.hybrid for one in others]),
            joined(no_shared) if len(no_shared) == FOLDS else None,
            weight,
        )
        sts = evaluate_sts(encode, benchmark.tasks) if benchmark.tasks else None
        return BenchmarkResult(joined(alone), sts, encode.documents(benchmark.sample), with_bm25)

    def first_texts(
        self, selected: Sequence[Candidate], places: Sequence[int]
    ) -> list[tuple[str, ...]]:
        """Return the top texts for some queries, each by the candidate selected for its part."""
        found: dict[int, tuple[str, ...]] = {}
        for part, encode in enumerate(self._selected_encoders(selected)):
            own = np.flatnonzero(self.folds.parts == part).tolist()
            asked = [place for place in places if place in own]
            if asked:
                pairs = self.folds.of_part[part]
                texts = first_texts(encode, pairs, [own.index(place) for place in asked])
                found |= zip(asked, texts, strict=True)
        return [found[place] for place in places]

    def _selected_encoders(self, selected: Sequence[Candidate]) -> list[PromptedEncoders]:
        both = zip(self.encoders, selected, strict=True)
        return [encoders.encode(candidate) for encoders, candidate in both]


def _train(
    settings: TrainConfig,
    encoders: CandidateEncoders,
    data: Data,
    updates: int,
    stop: StopRequest,
    file: Path,
    how_to_resume: str,
) -> None:
    """Fine-tune, and write the last weights into a file, or the base model's after divergence."""
    folder = file.with_suffix("")
    run = Run(folder) if begun(folder) else Run.create(replace(settings, output=folder))
    fit = Fit(
        settings,
        Silent(),
        stop,
        data,
        run,
        how_to_resume,
        base_competes=False,
        due=lambda total, _: [total],
        vectors=file.parent,
    )
    encoders.put_behind(fit.encoder)
    with fit.opened():
        # Only updates diverge: a base model that is not finite is a UserError.
        with suppress(Diverged):
            fit.train(updates)
        if fit.choice.step:
            run.kept_weights.replace(file)
        else:
            base = base_encoder(settings)
            drop_normalize(base)
            checkpoint.save_weights(file, base.model)
    shutil.rmtree(folder)
