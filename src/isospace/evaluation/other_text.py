"""Small sets of other text, which show what a model loses outside its corpus.

isospace carries two sets (`data/`, made by benchmarks/other_text_sets.py). Docstrings pair a
summary with the next paragraph. Definitions pair a word with its text in a dictionary. The user can
name other corpora, of which the held-out pairs are used. Each of these sets has validation pairs,
which may select, and test pairs, which measure the gain. The two parts share no group. The STS sets
are measured too if there is data for them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

import numpy as np

from isospace.config import CorpusConfig
from isospace.corpus.corpus import Corpus, load_corpus
from isospace.corpus.docstrings import DOCSTRINGS, SUMMARY_NEXT, is_docstrings
from isospace.corpus.relations import Role
from isospace.corpus.sources import require_there
from isospace.errors import UserError
from isospace.evaluation.benchmark import BASE, Benchmark, BenchmarkResult, validation_text
from isospace.evaluation.pairs import Asked, Encode, ScoredPairs, TextPairs
from isospace.evaluation.retrieval import (
    DISPLACEMENT,
    Items,
    evaluate_retrieval,
    mrr_of_items,
    mrr_scores,
)
from isospace.evaluation.senteval import STSSet
from isospace.evaluation.sts import (
    UNSEEN,
    UnseenItems,
    evaluate_sts,
    paper_cosines,
    sts_test_pairs,
)
from isospace.statistics.gains import Gain, Scores, gain
from isospace.system.files import cache_folder

Part = Literal["validation", "test"]

STS = "STS"
CARRIED = {DOCSTRINGS: "modules", "definitions": "synsets"}
"""Set -> name of its groups, in the plural."""
DATA = Path(__file__).parent / "data"
PROTOCOL = (
    "MRR of test pairs of other text, where each first text is the query for its second text (STS: "
    "average of the seven sets; STS unseen: without test pairs whose labels selected a checkpoint)"
)
"""Description of the protocol of the scores."""

_GROUPS, _IDS = " groups", " ids"


@dataclass(frozen=True)
class OtherText:
    """Pairs of text from outside the corpus.

    Sets too small to split have no `validation_pairs`. `sts` has the test pairs of the seven STS
    sets, or none if one of the sets cannot be scored, `known` those that are scored. `left_out`
    says why a carried set is not measured.
    """

    test_pairs: Mapping[str, TextPairs]
    validation_pairs: Mapping[str, TextPairs]
    sts: Mapping[str, STSSet]
    known: UnseenItems
    left_out: str

    @classmethod
    def make(
        cls,
        corpus: Corpus,
        folders: Sequence[str] = (),
        tasks: Mapping[str, STSSet] | None = None,
        labels: ScoredPairs | None = None,
    ) -> OtherText:
        """Return the sets for a corpus; the carried docstrings are none if it has docstrings."""
        test: dict[str, TextPairs] = {}
        validation: dict[str, TextPairs] = {}
        for folder in dict.fromkeys(folders):
            name = Path(folder).absolute().name
            if folder == DOCSTRINGS:
                name = f"installed {DOCSTRINGS}"  # another set than the carried docstrings
            elif name in {*test, STS, STS + UNSEEN, *CARRIED}:
                name = str(Path(folder).resolve())
            test[name], held = _held_out(folder)
            if held is not None:
                validation[name] = held
        left_out = ""
        for name in CARRIED:
            if name == DOCSTRINGS and _has_docstrings(corpus):
                left_out = f"{name} are left out, because the corpus has some"
            else:
                validation[name], test[name] = carried(name, "validation"), carried(name, "test")
        sts = {name: task.test_only() for name, task in (tasks or {}).items()}
        labelled = np.array([], np.int64) if labels is None else labels.ids()
        known = UnseenItems.of_test_pairs(sts_test_pairs(sts, labelled))
        return cls(test, validation, sts if known.complete else {}, known, left_out)

    @property
    def described(self) -> str:
        """Description of the measured sets."""
        words = [f"{name} ({len(pairs):,} pairs)" for name, pairs in self.test_pairs.items()]
        parts = ["average of the test sets"] if self.sts else []
        seen = sum(int((~unseen).sum()) for unseen in self.known.unseen.values())
        if self.sts and seen:
            parts.append(f"without {seen:,} pairs that the labels hold")
        if parts:
            words.insert(0, f"{self._sts_name} ({', '.join(parts)})")
        return "; ".join([", ".join(words), *filter(None, [self.left_out])])

    def measure(
        self, encode: Encode, part: Part = "test", measured: BenchmarkResult | None = None
    ) -> dict[str, Scores]:
        """Score one encoder: the MRR of each set of pairs, and the average of the STS sets.

        `measured` is the result of a benchmark with the same STS sets, whose cosines are used.
        """
        found: dict[str, Scores] = {}
        if part == "test" and self.sts:
            result = None if measured is None else measured.sts
            result = result or evaluate_sts(encode, self.sts)
            scores = self.known.scores([paper_cosines(self.sts, result.cosines)])
            found[self._sts_name] = scores[self._sts_name.replace(STS, "Avg")]
        sets = self.validation_pairs if part == "validation" else self.test_pairs
        for name, pairs in sets.items():
            found[name] = mrr_scores(pairs, evaluate_retrieval(encode, pairs))
        return found

    @property
    def asked(self) -> tuple[Asked, ...]:
        """The texts that `measure` encodes, except the STS test sets."""
        sets = [*self.validation_pairs.values(), *self.test_pairs.values()]
        return tuple(one for pairs in sets for one in pairs.asked)

    def items(self, found: Mapping[str, Scores]) -> Items:
        """Return the values of each test pair for a file; `gains_over` reads them.

        Each set except STS has reciprocal ranks (pair,) under its name. The name with an ending
        holds the displacement (half, pair), the groups (pair,) and the ids (pair,).
        """
        items: Items = {}
        for name, pairs in self.test_pairs.items():
            scores = found[name]
            items |= {
                name: scores.values[0],
                f"{name}{DISPLACEMENT}": -len(pairs) * scores.shared[:, 0],
                f"{name}{_GROUPS}": scores.groups,
                f"{name}{_IDS}": pairs.ids(),
            }
        return items

    @property
    def _sts_name(self) -> str:
        """Name of the STS average, which differs if some pairs are left out."""
        return (self.known.shown("Avg") or "Avg").replace("Avg", STS)


def require_other_text(folders: Sequence[str], corpus: Sequence[str]) -> None:
    """Refuse other text that is missing, standard input, or overlaps with the corpus."""
    try:
        require_there(folders)
    except UserError as error:
        raise UserError(f"`other_text` {error}") from error
    for folder in folders:
        if folder == "-":
            raise UserError("`other_text` -: standard input ends after one run. Give a folder")
        for name in corpus:
            if _overlap(folder, name):
                raise UserError(f"`other_text` {folder}: the same text as `corpus` {name}")


def carried(name: str, part: Part) -> TextPairs:
    """Read one part of a carried set (`CARRIED`)."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["part"] == part]
    columns = ("first", "second", "group")
    first, second, groups = (tuple(row[column] for row in rows) for column in columns)
    return TextPairs(name, first, second, groups=groups, unit=CARRIED[name])


@dataclass(frozen=True)
class OtherTextScores:
    """Scores of the base and the adapted model on one set, 0 to 1 (STS: -1 to 1)."""

    base: float
    adapted: float
    gain: Gain


def other_text_scores(
    before: Mapping[str, Scores], after: Mapping[str, Scores]
) -> dict[str, OtherTextScores]:
    """Return set -> scores and gain, given `OtherText.measure` of both models."""
    return {
        name: OtherTextScores(base.mean, after[name].mean, gain(after[name], base))
        for name, base in before.items()
    }


def other_text_rows(
    found: Mapping[str, OtherTextScores], base: str = BASE, adapted: str = "adapted"
) -> list[dict[str, str]]:
    """Return a row for each set, x 100; `base` and `adapted` are the names of the models."""
    return [
        {
            "other text": name,
            base: f"{100 * scores.base:.2f}",
            adapted: f"{100 * scores.adapted:.2f}",
            "gain": scores.gain.points,
        }
        for name, scores in found.items()
    ]


def other_text_words(gains: Mapping[str, Gain]) -> str:
    """Return a list of the gains in points with 95 % intervals; empty without gains."""
    return ", ".join(f"{name} {found.points}" for name, found in gains.items())


def other_text_sentence(gains: Mapping[str, Gain]) -> str:
    """Return the list of `other_text_words` as a sentence."""
    words = other_text_words(gains)
    return f"On other text: {words}." if words else ""


def gains_over(after: Sequence[Items], before: Items) -> dict[str, Gain]:
    """Return set -> gain of the seeds of one row over a base model, given `OtherText.items`.

    A set is left out if the base model or a seed was scored on other pairs.
    """
    gains = {}
    for key in (key for key in before if key.endswith(_IDS)):
        if all(key in items and np.array_equal(before[key], items[key]) for items in after):
            name = key.removesuffix(_IDS)
            groups = before[f"{name}{_GROUPS}"]
            base = mrr_of_items([before], name, groups)
            gains[name] = gain(mrr_of_items(after, name, groups), base)
    return gains


def _held_out(folder: str) -> tuple[TextPairs, TextPairs | None]:
    """Return the test pairs of another corpus, and its validation pairs or `None`."""
    try:
        corpus = load_corpus(CorpusConfig(corpus=(folder,)), cache_folder())
    except UserError as error:
        raise UserError(f"`other_text` {error}") from error
    try:
        benchmark = Benchmark.make(corpus)
    except UserError as error:
        raise UserError(f"`other_text` {folder}: too little text to measure on") from error
    validation = validation_text(corpus).pairs
    enough = benchmark.split and len(validation) > 1
    return benchmark.pairs, validation.grouped() if enough else None


def _has_docstrings(corpus: Corpus) -> bool:
    trained = corpus.related is not None and Role.SUMMARY in corpus.related.structure.roles
    return trained or corpus.pairs.relation == SUMMARY_NEXT


def _overlap(one: str, other: str) -> bool:
    a, b = map(_place, (one, other))
    return a.is_relative_to(b) or b.is_relative_to(a)


def _place(name: str) -> PurePath:
    """Return the place of a text; its name for standard input and installed docstrings."""
    if name in ("-", DOCSTRINGS):
        return PurePath(name)
    return Path(name.partition(":")[2] if is_docstrings(name) else name).resolve()
