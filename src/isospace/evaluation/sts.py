"""The seven STS sets of the papers, scored the way SentEval does.

Source of the protocol: SentEval (Conneau & Kiela 2018) with the raw-cosine, "all" setting of
SimCSE's evaluation (Gao et al. 2021, appendix B); the "mean" and "wmean" settings of older papers
stand next to it. Sub-sets have SentEval's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isospace.errors import UserError
from isospace.evaluation.pairs import Encode, ScoredPairs, TextPairs, encode_distinct
from isospace.evaluation.rows import read_lines, sentevals_root
from isospace.evaluation.user_files import parse_score
from isospace.statistics.correlation import FloatArray, cosine, pearson, spearman

YEARS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),  # SMT is not freely distributed; SentEval lacks it
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}


@dataclass(frozen=True)
class _Split:
    """Where the three splits of a set lie, and which of `width` columns are s1, s2 and score."""

    folder: str
    files: dict[str, str]
    columns: tuple[int, int, int]
    width: int
    header_lines: int


_SPLITS = {
    "STSBenchmark": _Split(
        "STS/STSBenchmark",
        {"train": "sts-train.csv", "dev": "sts-dev.csv", "test": "sts-test.csv"},
        (5, 6, 4), 7, header_lines=0,
    ),
    "SICKRelatedness": _Split(
        "SICK",
        {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"},
        (1, 2, 3), 5, header_lines=1,
    ),
}  # fmt: skip
PAPER_COLUMNS = {name: name for name in YEARS} | {
    "STSBenchmark": "STS-B",
    "SICKRelatedness": "SICK-R",
}
"""Task -> column of the papers' tables, in their order."""
AVERAGE = "plain mean of the seven columns, each rounded to two decimals"
PAPER_PROTOCOL = (
    "Spearman over the concatenated sub-sets ('all') of STS12-16, and on the test splits of STS-B "
    f"and SICK-R; Avg is the {AVERAGE}"
)
"""How the papers' row is made, in words."""

_LAYOUT = (
    "SentEval's layout (downstream/STS/STS12-en-test/STS.input.MSRpar.txt, ..., "
    "downstream/SICK/SICK_train.txt, ...); `data` hub takes the copies on the Hugging Face Hub"
)


@dataclass(frozen=True)
class STSTask:
    """One set, as named sub-sets (STS12-16) or splits (STSBenchmark, SICKRelatedness)."""

    name: str
    subsets: dict[str, ScoredPairs]

    @property
    def in_papers(self) -> bool:
        """Whether it holds the papers' test pairs: a Hub copy of SICK-R may hide them."""
        return self.name in YEARS or "test" in self.subsets

    def test_only(self) -> STSTask:
        """What the papers' tables report: all of STS12-16, the test split of the other two."""
        if self.name in YEARS or "test" not in self.subsets:
            return self
        return STSTask(self.name, {"test": self.subsets["test"]})


@dataclass(frozen=True)
class STSScore:
    """A correlation (-1 to 1) of cosine and gold score, with its protocol.

    `aggregation` is "subset" (the one sub-set that `split` names), "all" (over the concatenated
    pairs of the sub-sets that `split` joins with "+"), "mean" (plain mean of the sub-sets'
    correlations) or "wmean" (their mean weighted by number of pairs).
    """

    task: str
    split: str
    aggregation: str
    metric: str
    n: int
    value: float
    source: str


@dataclass(frozen=True)
class STSResult:
    """Every score of one encoder, and the cosines that they were computed from."""

    scores: tuple[STSScore, ...]
    cosines: dict[str, dict[str, FloatArray]]
    """Task -> sub-set -> cosine of each pair, in the order of the sub-set."""

    def score(self, task: str, aggregation: str, metric: str = "spearman") -> STSScore | None:
        """The score of a sub-set (its name) or of an aggregation ("all", "mean", "wmean")."""
        for score in self.scores:
            column = score.split if score.aggregation == "subset" else score.aggregation
            if (score.task, column, score.metric) == (task, aggregation, metric):
                return score
        return None

    def headlines(self) -> dict[str, STSScore]:
        """The papers' columns: Spearman, "all" for STS12-16, test for STS-B and SICK-R."""
        found = {
            column: self.score(task, "all" if task in YEARS else "test")
            for task, column in PAPER_COLUMNS.items()
        }
        return {column: score for column, score in found.items() if score is not None}

    def paper_row(self) -> dict[str, float | None]:
        """The papers' table row, x 100, two decimals: STS12 13 14 15 16 STS-B SICK-R Avg.

        `Avg` is the plain mean of the seven rounded numbers, as SimCSE's script prints it. A set
        that was not scored is None, and so is then the average.
        """
        known = {column: round(100 * score.value, 2) for column, score in self.headlines().items()}
        complete = len(known) == len(PAPER_COLUMNS)
        average = round(sum(known.values()) / len(known), 2) if complete else None
        return {column: known.get(column) for column in PAPER_COLUMNS.values()} | {"Avg": average}

    def to_json(self) -> dict[str, Any]:
        """Every score with its protocol, and the papers' row with the protocol of each column."""
        protocols = {column: asdict(score) for column, score in self.headlines().items()}
        return {
            "scores": [asdict(score) for score in self.scores],
            "paper_row": self.paper_row(),
            "paper_protocol": protocols | {"Avg": AVERAGE},
        }


def load_sts(folder: Path, names: Iterable[str] = tuple(PAPER_COLUMNS)) -> dict[str, STSTask]:
    """Read STS sets from a folder in SentEval's layout.

    Args:
        folder: holds `downstream/STS/...` and `downstream/SICK/...`, or `STS/...` and `SICK/...`.
        names: which sets; all seven by default.

    Raises:
        UserError: for a missing folder or file, a line with a wrong number of fields, a gold score
            that is no number, texts and scores of different length, or an unknown name.
    """
    root = _find_root(folder)
    return {name: _load_task(root, name) for name in names}


def evaluate_sts(encode: Encode, tasks: Mapping[str, STSTask]) -> STSResult:
    """Score every sub-set of the tasks; each distinct sentence is encoded once, in one call.

    Args:
        encode: sentences -> `(sentence, dim)`.
        tasks: as `load_sts` or `hub.load_sts_hub` gives them.
    """
    every = [pairs for task in tasks.values() for pairs in task.subsets.values()]
    cosines = pair_cosines(encode, every)
    by_task = {task.name: {name: next(cosines) for name in task.subsets} for task in tasks.values()}
    scores = [
        score
        for task in tasks.values()
        for metric in _METRICS
        for score in _score_task(task, by_task[task.name], metric)
    ]
    return STSResult(tuple(scores), by_task)


def evaluate_pairs(encode: Encode, pairs: ScoredPairs) -> STSScore:
    """Spearman of one set of scored pairs: STS-B dev, SICK-R dev or a user's own file."""
    cosines = next(pair_cosines(encode, [pairs]))
    value = spearman(cosines, pairs.gold)
    return STSScore(pairs.name, "all", "subset", "spearman", len(pairs), value, pairs.source)


def pair_cosines(encode: Encode, sets: Iterable[TextPairs]) -> Iterator[FloatArray]:
    """The cosine of every pair, set by set, after encoding each distinct text once in one call."""
    sets = list(sets)
    rows, embeddings = encode_distinct(
        encode, (text for pairs in sets for text in (*pairs.first, *pairs.second))
    )
    for pairs in sets:
        yield cosine(
            embeddings[[rows[text] for text in pairs.first]],
            embeddings[[rows[text] for text in pairs.second]],
        )


_METRICS = {"pearson": pearson, "spearman": spearman}


def _score_task(task: STSTask, cosines: Mapping[str, FloatArray], metric: str) -> list[STSScore]:
    correlate = _METRICS[metric]
    sets = list(task.subsets.values())
    source = sets[0].source

    def score(split: str, aggregation: str, n: int, value: float) -> STSScore:
        return STSScore(task.name, split, aggregation, metric, n, value, source)

    counts = [len(pairs) for pairs in sets]
    values = [correlate(cosines[name], pairs.gold) for name, pairs in task.subsets.items()]
    together = correlate(
        np.concatenate([cosines[name] for name in task.subsets]),
        np.concatenate([pairs.gold for pairs in sets]),
    )
    joined, n = "+".join(task.subsets), sum(counts)
    scores = [
        score(name, "subset", count, value)
        for name, count, value in zip(task.subsets, counts, values, strict=True)
    ]
    scores.append(score(joined, "all", n, together))
    if len(sets) > 1:  # of one undivided set, a "mean" would pose as the mean over sub-sets
        scores.append(score(joined, "mean", n, float(np.mean(values))))
        scores.append(score(joined, "wmean", n, float(np.average(values, weights=counts))))
    return scores


def _find_root(folder: Path) -> Path:
    """The folder that holds `STS/` and `SICK/`."""
    if (root := sentevals_root(folder, ("STS", "SICK"))) is not None:
        return root
    looked = f"STS/ and SICK/ in {folder / 'downstream'}, {folder} and {folder.parent}"
    raise UserError(f"no STS sets under {folder} (looked for {looked}); expected {_LAYOUT}")


def _load_task(root: Path, name: str) -> STSTask:
    if name in YEARS:
        subsets = {subset: _read_year(root, name, subset) for subset in YEARS[name]}
    elif name in _SPLITS:
        subsets = {split: _read_split(root, name, split) for split in ("train", "dev", "test")}
    else:
        raise UserError(f"no STS set {name!r}; expected one of {', '.join(PAPER_COLUMNS)}")
    return STSTask(name, subsets)


def _read_year(root: Path, task: str, subset: str) -> ScoredPairs:
    """Two files, line by line; pairs whose gold line is empty were never scored and are dropped."""
    folder = root / "STS" / f"{task}-en-test"
    texts_path, gold_path = folder / f"STS.input.{subset}.txt", folder / f"STS.gs.{subset}.txt"
    texts, golds = read_lines(texts_path, _LAYOUT), read_lines(gold_path, _LAYOUT)
    if len(texts) != len(golds):
        raise UserError(
            f"{texts_path} has {len(texts)} lines and {gold_path} has {len(golds)}; "
            "expected a score, or an empty line, for each pair"
        )
    rows = []
    for number, (text, gold) in enumerate(zip(texts, golds, strict=True), start=1):
        first, second = _fields(texts_path, number, text, (0, 1), 2)
        if gold.strip():
            rows.append((first, second, parse_score(gold_path, number, gold)))
    return _scored(f"{task} {subset}", rows, gold_path)


def _read_split(root: Path, task: str, split: str) -> ScoredPairs:
    layout = _SPLITS[task]
    path = root / layout.folder / layout.files[split]
    rows = []
    for number, line in enumerate(read_lines(path, _LAYOUT), start=1):
        if number > layout.header_lines:
            first, second, gold = _fields(path, number, line, layout.columns, layout.width)
            rows.append((first, second, parse_score(path, number, gold)))
    return _scored(f"{task} {split}", rows, path)


def _fields(path: Path, number: int, line: str, columns: Sequence[int], width: int) -> list[str]:
    """The wanted tab-separated fields, with their white space folded as SentEval folds it."""
    fields = line.split("\t")
    if len(fields) < width:
        raise UserError(
            f"{path}:{number}: {len(fields)} tab-separated fields; expected {width} ({_LAYOUT})"
        )
    return [" ".join(fields[column].split()) for column in columns]


def _scored(name: str, rows: Sequence[tuple[str, str, float]], path: Path) -> ScoredPairs:
    if not rows:
        raise UserError(f"{path}: no scored pair; expected {_LAYOUT}")
    first, second, gold = zip(*rows, strict=True)
    return ScoredPairs(name, first, second, np.array(gold), "SentEval files")
