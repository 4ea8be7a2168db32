"""What results.json of a run holds: the one place that knows its fields and its older formats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isospace.evaluation.elsewhere import ElsewhereScores
from isospace.evaluation.scores import FUSED_RESULT, BenchmarkScores, BesideWords
from isospace.statistics.gains import Gain
from isospace.statistics.verdict import SMALLEST_GAIN, Verdict, VerdictKind
from isospace.system import typed_json
from isospace.training.origin import Origin
from isospace.training.selection import Choice

FORMAT = 7
"""Of results.json. 1 had no number, called evaluations looks and the benchmark exam; 2 had the
intervals of a bootstrap of single items, and three kinds of verdict; 3 had no memory; 4 had MRR and
R@1, R@5 and R@10 of the encoder alone; 5 had nothing of elsewhere; 6 had BM25 beside the result
alone, shipped or not."""


@dataclass(frozen=True)
class CorpusFacts:
    """What was trained on: sentences left after cleaning, their digest, and what cleaning did.

    Attributes:
        longest: tokens to which they were cut; `None` of older runs, whose settings say it.
    """

    sentences: int
    digest: str
    counts: dict[str, int]
    longest: int | None = None


@dataclass(frozen=True)
class RunResults:
    """Everything that a finished run says, every number with its protocol.

    Attributes:
        isospace: the version that wrote it.
        config: the settings, as in config.json.
        origin: of the encoder that training began with.
        corpus: what was trained on.
        pooling: tokens to sentence.
        steps: updates of the whole run.
        benchmark: digest of the test items; equal for runs that can be compared item by item.
        start: scores of the encoder that training began with.
        result: scores of the checkpoint that was chosen.
        labels: which labelled pairs took part in choosing, `None` where none did.
        choice: which checkpoint was chosen, and why.
        model_step: the step of the weights in model/; 0 where the verdict keeps the start.
        verdict: whether the result gains over the start.
        beside: what the result is beside plain BM25; `None` of older runs.
        elsewhere: set of other text -> what start and result came to there; empty of older runs.
        split: whether the pairs that choose are others than those of the verdict.
        evaluations: measurements during training, the start (step 0) first.
        seconds: wall clock, sessions before a resumption included.
        memory_mb: at its peak, of the GPU where there is one, else of the process, of several the
            first; `None` of older runs.
        environment: versions and machine.
        pairs: digest of the verdict's pairs alone, by which the ledger knows them.
        made: what was done to the weights of the choice to make the result, such as a map behind
            them, in words; empty where nothing was, or the start is kept.
        format: of the file.
    """

    isospace: str
    config: dict[str, Any]
    origin: Origin
    corpus: CorpusFacts
    pooling: str
    steps: int
    benchmark: str
    start: BenchmarkScores
    result: BenchmarkScores
    labels: str | None
    choice: Choice
    model_step: int
    verdict: Verdict
    beside: BesideWords | None
    elsewhere: dict[str, ElsewhereScores]
    split: bool
    evaluations: tuple[dict[str, float], ...]
    seconds: float
    memory_mb: float | None
    environment: dict[str, str | int]
    pairs: str = ""
    made: str = ""
    format: int = FORMAT

    @property
    def ships_start(self) -> bool:
        """Whether model/ holds the start."""
        return self.model_step == 0 and not self.made

    @property
    def not_shipped(self) -> str:
        """Words to follow "result" where model/ holds the base model in its place."""
        other = self.result.pairs != self.start.pairs
        return " (not shipped)" if self.ships_start and other else ""

    def over_start(self, result: str = "result") -> dict[str, Gain]:
        """Gains in MRR over the start, of the verdict's pairs; empty of older runs.

        `result` is what a table calls the result, which has a row like "BM25", "start + BM25" and
        itself fused; none where it is the start.
        """
        if self.beside is None:
            return {}
        found = {way.replace("result", result): own for way, own in self.beside.over_start.items()}
        if FUSED_RESULT in self.beside.over_start and self.verdict.gain is not None:
            found[result] = self.verdict.gain
        return found

    @property
    def selected_by(self) -> str:
        """How the checkpoint was chosen, in words; label use is said."""
        return f"dev-selected on {self.labels}" if self.labels else self.choice.rule

    @property
    def kept(self) -> str:
        """Which checkpoint model/ holds, and why."""
        if self.made:
            return f"{self.made}; of the (first) training: {self.choice.reason}"
        if self.model_step == self.choice.step:
            return self.choice.reason
        return (
            "the start, because of the verdict; by the rule it would be another: "
            f"{self.choice.reason}"
        )

    @property
    def cost(self) -> str:
        """Time and memory, in words."""
        if self.memory_mb is None:
            return f"{self.seconds:.0f} s"
        return f"{self.seconds:.0f} s, {self.memory_mb / 1e3:.1f} GB"

    def evaluation(self, step: int) -> dict[str, float]:
        """The measurements at a step; 0 is the start."""
        return next(measured for measured in self.evaluations if measured["step"] == step)


def write_results(path: Path, results: RunResults) -> None:
    """Write results.json."""
    typed_json.write(path, results)


def read_results(path: Path) -> RunResults:
    """Read results.json, also of an older format.

    Raises:
        UserError: the file is damaged, or a newer version's.
    """
    return typed_json.read(path, RunResults, "results of a run", FORMAT, _upgrade)


def _upgrade(content: dict[str, Any]) -> dict[str, Any]:
    older = (_from_first, _from_second, _from_third, _from_fourth, _from_fifth, _from_sixth)
    for upgrade in older[content.get("format", 1) - 1 :]:
        content = upgrade(content)
    return content


def _from_sixth(content: dict[str, Any]) -> dict[str, Any]:
    beside = content["beside"]
    return {**content, "beside": beside and {**beside, "over_start": {}}, "format": 7}


def _from_fifth(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "elsewhere": {}, "format": 6}


def _from_fourth(content: dict[str, Any]) -> dict[str, Any]:
    states = {state: without_bm25(content[state]) for state in ("start", "result")}
    return {**content, **states, "beside": None, "format": 5}


def without_bm25(scores: dict[str, Any]) -> dict[str, Any]:
    """Scores of a benchmark of before there were BM25 and nDCG, as they are written now."""
    unknown = dict.fromkeys(("ndcg_10", "mrr_10", "no_shared"))
    return {**scores, "pairs": scores["pairs"] | unknown, "beside": None}


def _from_third(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "memory_mb": None, "format": 4}


def _from_second(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "verdict": upgraded_verdict(content["verdict"]), "split": True, "format": 3}


def upgraded_verdict(verdict: dict[str, Any]) -> dict[str, Any]:
    """A verdict with the interval of a bootstrap of single items, as it is written now."""
    upgraded = dict(verdict)
    interval = upgraded.pop("interval")
    items = interval["n"]  # each was a group of its own, and nobody counted which changed
    counts = {"items": items, "groups": items, "changed": items, "changed_groups": items}
    upgraded["gain"] = {"mean": interval["gain"], "p": interval["p"], **counts}
    upgraded["gain"] |= {end: interval[end] for end in ("low", "high")}
    if verdict["kind"] == "no difference worth having":
        small = interval["high"] < SMALLEST_GAIN
        upgraded["kind"] = VerdictKind.TOO_SMALL if small else VerdictKind.CANNOT_TELL
    return upgraded


def _from_first(content: dict[str, Any]) -> dict[str, Any]:
    result, looks = content["result"], content["looks"]
    states = {state: _upgrade_scores(content[state]["scores"]) for state in ("start", "result")}
    verdict = {name: content["verdict"][name] for name in ("kind", "text", "protocol", "interval")}
    later = {**states, "labels": result["labels"], "evaluations": looks, "verdict": verdict}
    unchanged = {name: value for name, value in content.items() if name not in ("looks", "exam")}
    # Runs before comparisons knew no digest of their test items.
    return {**unchanged, **later, "benchmark": content.get("exam", ""), "format": 2}


def _upgrade_scores(scores: dict[str, Any]) -> dict[str, Any]:
    pairs = dict(scores["pairs"])
    recall = {int(key[len("recall@") :]): pairs.pop(key) for key in list(pairs) if "@" in key}
    return {**scores, "pairs": {**pairs, "recall": recall}}
