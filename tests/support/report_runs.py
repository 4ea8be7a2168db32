"""Runs written by hand, as `isospace train` leaves them, for the tests of the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from toy import sentences

from isospace.comparison.judgement import Comparison
from isospace.config import TrainConfig
from isospace.objectives import OBJECTIVES, SimCSE
from isospace.report.run_set import collect
from isospace.report.write import write_report
from isospace.statistics.decision import decide
from isospace.statistics.gains import Gain
from isospace.training.run import Run
from isospace.verbs.options import as_options

STS = dict(
    zip(
        ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg"),
        (70.0, 71.0, 72.0, 73.0, 74.0, 75.0, 76.0, 73.0),
        strict=True,
    )
)
EVIL = "<script>document.title = 'run'</script> & \"quoted\" sentences of the sample"


def write_run(folder: Path, mrr: float = 0.5, **settings: Any) -> Run:
    """An unfinished run that has logged four updates and three evaluations."""
    run = Run.create(TrainConfig(output=folder, **{"objective": SimCSE(), **settings}))
    for step in range(1, 5):
        terms = {"info_nce": 1 / step}
        run.log("step", {"step": step, "sentences": 64 * step, "terms": terms})
    for evaluation in evaluations(mrr):
        run.log("evaluation", evaluation)
    return run


def evaluations(mrr: float) -> list[dict[str, float]]:
    return [
        {
            "step": float(step),
            "pairs_mrr": mrr + step / 100,
            "alignment": 0.2 + step / 50,
            "uniformity": -2.0 - step / 10,
            "effective_rank": 10.0,
        }
        for step in (0, 2, 4)
    ]


def finish(run: Run, mrr: float = 0.5, gain: float = 0.05, sts: bool = False, **more: Any) -> Run:
    """Write the results of a run whose last evaluation was kept."""

    def scores(plus: float) -> dict[str, Any]:
        row = {name: round(value + 100 * plus, 2) for name, value in STS.items()}
        pairs = {"mrr": mrr + plus, "recall@1": 0.25, "protocol": "cosine, 20 queries"}
        paper = {"paper_row": row, "paper_protocol": {"Avg": "plain mean"}} if sts else None
        return {"pairs": pairs, "sts": paper}

    content = {
        "isospace": "0.1.0",
        "pooling": "cls",
        "corpus": {"digest": "of the text", "counts": {"read": 1234, "for training": 1000}},
        "steps": 4,
        "start": {"scores": scores(0.0)},
        "result": {"scores": scores(gain), "labels": None},
        "choice": {"step": 4, "rule": "label-free", "criterion": "pairs_mrr", "reason": "the best"},
        "model_step": 4,
        "verdict": {"kind": "adapted", "text": "Adapted: yes.", "protocol": "MRR, halves"},
        "evaluations": evaluations(mrr),
        "seconds": 12.3,
        "environment": {"python": "3.11.7", "processor": "a <b>processor</b>"},
    }
    run.write_results(content | more)
    return run


def write_sample(run: Run, count: int = 60) -> Run:
    """A sample in which the first sentence is evil, and every vector moves a little."""
    source = np.random.default_rng(0)
    before = source.normal(size=(count, 8))
    after = before + 0.3 * source.normal(size=(count, 8))
    run.write_sample([EVIL, *sentences(count - 1)], before, after)
    return run


def write_comparison(folder: Path, sts: bool = False) -> Comparison:
    """A comparison of two objectives by two seeds, as `isospace compare` leaves it."""
    gain = Gain(mean=0.02, sd=0.01, seeds=2, items=20, low=0.005, high=0.035, p=0.01)
    worse = replace(gain, mean=-0.03, low=-0.05, high=-0.01, p=0.02)
    columns = ["MRR", *STS] if sts else ["MRR"]
    gains = {"simcse:head=none": dict.fromkeys(columns, gain), "dcl": dict.fromkeys(columns, worse)}
    scores = {
        "start": {"MRR": [50.0], "R@1": [40.0]},
        "simcse:head=none": {"MRR": [51.0, 53.0], "R@1": [41.0, 43.0]},
        "dcl": {"MRR": [46.5, 47.5], "R@1": [36.5, 37.5]},
    }
    decision = decide(
        {k: v["MRR"] for k, v in gains.items()}, {"simcse:head=none": 1, "dcl": 0}, "MRR"
    )
    for name, objective in (
        ("simcse_head=none", SimCSE(head="none")),
        ("dcl", OBJECTIVES["dcl"]()),
    ):
        for seed in (1, 2):
            write_run(folder / name / f"seed-{seed}", objective=objective, seed=seed)
            finish(Run(folder / name / f"seed-{seed}"), sts=sts)
    protocol = {"MRR": "MRR, some pairs", "checkpoints": "last"}
    adjusted = {
        row: {column: 2 * g.p for column, g in found.items()} for row, found in gains.items()
    }
    versus = {"dcl": dict.fromkeys(columns, 0.004)}
    model = str(folder / "simcse_head=none" / "seed-1" / "model")
    runs = {
        name: [f"{place}/seed-{seed}" for seed in (1, 2)]
        for name, place in (("simcse:head=none", "simcse_head=none"), ("dcl", "dcl"))
    }
    found = Comparison(
        folder, "MRR", protocol, {}, scores, gains, adjusted, versus, runs, decision, model
    )
    (folder / "results.json").write_text(json.dumps(found.to_json()))
    return found


def page_of(*folders: Path, output: Path | None = None, queries: Sequence[str] = ()) -> str:
    return write_report(collect(folders), output, queries, as_options).read_text(encoding="utf-8")
