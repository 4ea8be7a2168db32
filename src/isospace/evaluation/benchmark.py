"""The fixed items that start and result are both scored on: the verdict's pairs, and STS sets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from isospace.config import TrainConfig
from isospace.corpus.sentences import Corpus
from isospace.errors import UserError
from isospace.evaluation.held_out import HeldOut
from isospace.evaluation.hub import load_sts_hub
from isospace.evaluation.pairs import (
    Encode,
    ScoredPairs,
    TextPairs,
    load_pairs,
    load_scored_pairs,
)
from isospace.evaluation.retrieval import RetrievalScores, evaluate_retrieval, halves
from isospace.evaluation.sts import (
    PAPER_COLUMNS,
    STSResult,
    STSTask,
    evaluate_pairs,
    evaluate_sts,
    load_sts,
)
from isospace.statistics.bootstrap import Verdict, judge, paired_bootstrap

SAMPLE = 1000
"""Held-out sentences of which a run keeps the vectors, at most."""

_DEV_SPLITS = {"stsb-dev": "STSBenchmark", "sickr-dev": "SICKRelatedness"}


def sts_data(data: str | None) -> str | None:
    """Where the STS sets are: as given, else ISOSPACE_DATA; `None` for nowhere."""
    return data or os.environ.get("ISOSPACE_DATA") or None


def load_sts_data(data: str) -> dict[str, STSTask]:
    """The seven STS sets from a folder in SentEval's layout, or from the Hub for "hub"."""
    return load_sts_hub() if data == "hub" else load_sts(Path(data))


def natural_pairs(pairs: Sequence[tuple[str, str]]) -> TextPairs:
    """Pairs that a corpus brings along."""
    first, second = zip(*pairs, strict=True)
    return TextPairs("natural pairs", first, second)


@dataclass(frozen=True)
class Scores:
    """What one encoder reached.

    Attributes:
        pairs: ranks of the verdict's pairs.
        sts: the STS sets, where there is data.
        vectors: (sentence, dim) of the benchmark's `sample`.
    """

    pairs: RetrievalScores
    sts: STSResult | None
    vectors: np.ndarray

    def to_json(self) -> dict[str, Any]:
        """Every number with its protocol."""
        return {"pairs": self.pairs.to_json(), "sts": self.sts.to_json() if self.sts else None}

    def cells(self) -> dict[str, str]:
        """Cells of the table that people see, x 100."""
        cells = {"MRR": f"{100 * self.pairs.mrr:.2f}"}
        cells |= {f"R@{k}": f"{100 * self.pairs.recall(k):.2f}" for k in (1, 10)}
        if self.sts is not None:
            row = self.sts.paper_row()
            cells |= {name: f"{value:.2f}" for name, value in row.items() if value is not None}
        return cells


class Benchmark:
    """The data of the benchmark, loaded first so that bad files are refused early.

    Args:
        config: `pairs`, `data`, `select` and `labels` decide what is read; the environment does
            not, as a resumed run may find another.
    """

    def __init__(self, config: TrainConfig) -> None:
        self._pairs = load_pairs(config.pairs) if config.pairs else None
        self._tasks = load_sts_data(config.data) if config.data else None
        self.labels: ScoredPairs | None = None
        if config.select == "labels":
            self.labels = self._load_labels(config.labels)
        self.pairs = self._pairs
        self.sample: tuple[str, ...] = ()
        self.protocol = ""

    def _load_labels(self, labels: str) -> ScoredPairs:
        task = _DEV_SPLITS.get(labels)
        if task is None:
            return load_scored_pairs(Path(labels))
        if self._tasks is None or "dev" not in self._tasks[task].subsets:
            raise UserError(
                f"`select` labels with `labels` {labels} reads the STS sets: give their folder "
                "(`data` FOLDER or ISOSPACE_DATA), or a file of sentence1, sentence2, score "
                "(`labels` FILE)"
            )
        return self._tasks[task].subsets["dev"]

    def texts(self) -> list[str]:
        """Every text of the verdict's pairs, none of which may be trained on."""
        return [] if self._pairs is None else [*self._pairs.first, *self._pairs.second]

    def use_corpus(self, corpus: Corpus) -> HeldOut:
        """Take a sample, and the verdict's pairs where the user gave none, from held-out text.

        Without natural pairs in the corpus, a pair is the two halves of one sentence.

        Returns:
            The other half of the held-out text, with pairs of its own, for choosing: a score on
            what chose would flatter it.

        Raises:
            UserError: no pairs anywhere.
        """
        choosing, held_out = corpus.held_out()[::2], corpus.held_out()[1::2]
        self.sample = tuple(held_out[:SAMPLE])
        if self._pairs is not None:
            self.pairs, kind = self._pairs, f"pairs of {self._pairs.name}"
        elif corpus.pairs.test:
            self.pairs = natural_pairs(corpus.pairs.test)
            docstrings = "docstring pairs (summary to next paragraph)"
            kind = f"held-out {docstrings if corpus.packages else 'pairs (anchor to positive)'}"
        else:
            self.pairs = halves(held_out)
            kind = "halves of held-out sentences (first to second)"
        self.protocol = f"MRR, {kind}"
        if len(self.pairs) < 2:
            raise UserError(
                "the corpus has too few sentences of 8 words or more to measure anything on; "
                "give pairs of texts that belong together (`pairs` FILE)"
            )
        natural = natural_pairs(corpus.pairs.dev) if corpus.pairs.dev else None
        return HeldOut(choosing, natural)

    def score(self, encode: Encode) -> Scores:
        """Score one encoder."""
        if self.pairs is None:
            raise ValueError("use_corpus() comes first")
        pairs = evaluate_retrieval(encode, self.pairs)
        sts = evaluate_sts(encode, self._test_tasks()) if self._tasks else None
        return Scores(pairs, sts, encode(self.sample))

    def items(self, scores: Scores) -> dict[str, np.ndarray]:
        """What each test item came to, for tests over items and seeds (`compare`).

        Returns:
            "MRR": (pair,) reciprocal ranks; with STS data each column of the papers' row: (pair,)
            cosines.
        """
        found: dict[str, np.ndarray] = {"MRR": scores.pairs.reciprocal_ranks}
        cosines = scores.sts.cosines if scores.sts else {}
        for column, task in self._columns().items():
            found[column] = np.concatenate(list(cosines[task.name].values()))
        return found

    def test_pairs(self) -> dict[str, dict[str, np.ndarray]]:
        """What is known of the STS test pairs, in the order of `items`.

        Returns:
            Part -> column of the papers' row -> (pair,). "gold": the scores that people gave;
            "pair": `TextPairs.ids`, by which one pair in several sets is known (STS-B was drawn
            from the other sets); "seen": whether the labels that choose checkpoints have it too.
        """
        tests = {column: list(task.subsets.values()) for column, task in self._columns().items()}
        ids = {
            column: np.concatenate([pairs.ids() for pairs in sets])
            for column, sets in tests.items()
        }
        labelled = np.array([]) if self.labels is None else self.labels.ids()
        return {
            "gold": {
                column: np.concatenate([pairs.gold for pairs in sets])
                for column, sets in tests.items()
            },
            "pair": ids,
            "seen": {column: np.isin(found, labelled) for column, found in ids.items()},
        }

    def _test_tasks(self) -> dict[str, STSTask]:
        return {name: task.test_only() for name, task in (self._tasks or {}).items()}

    def _columns(self) -> dict[str, STSTask]:
        """The papers' columns that can be scored."""
        tasks = self._test_tasks().items()
        return {PAPER_COLUMNS[name]: task for name, task in tasks if task.in_papers}

    def digest(self) -> str:
        """Identifies the test items: equal for runs whose `items` can be compared one by one."""
        tests = [test for task in self._test_tasks().values() for test in task.subsets.values()]
        pairs = (self.pairs.first, self.pairs.second) if self.pairs else ()
        sts = [(test.first, test.second, test.gold.tolist()) for test in tests]
        return blake2b(repr((pairs, sts)).encode(), digest_size=16).hexdigest()

    def label_score(self, encode: Encode) -> float:
        """Spearman on the labelled pairs by which the checkpoint is chosen."""
        if self.labels is None:
            raise ValueError("no labels were loaded")
        return evaluate_pairs(encode, self.labels).value

    def verdict(self, before: Scores, after: Scores, start_kept: str | None) -> Verdict:
        """Compare start and result on the verdict's pairs.

        Args:
            before: of the start.
            after: of the result.
            start_kept: why selection kept the start, where it did.
        """
        interval = paired_bootstrap(before.pairs.reciprocal_ranks, after.pairs.reciprocal_ranks)
        return judge(interval, self.protocol, start_kept)
