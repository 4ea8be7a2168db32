"""Runs written by hand, as `isospace train` leaves them, for the tests of the report."""

from dataclasses import fields, replace

import numpy as np
from toy import sentences

from isospace.commands.options import as_options
from isospace.comparison.results import (
    BM25Row,
    ComparisonProtocol,
    ComparisonResults,
    ComparisonVerdict,
    RowGain,
    SeedScores,
)
from isospace.config import TrainConfig
from isospace.evaluation.benchmark import BenchmarkScores, BM25Scores, PairScores, STSScores
from isospace.evaluation.other_text import OtherTextScores
from isospace.evaluation.retrieval import DISPLACEMENT
from isospace.evaluation.sts import PAPER_COLUMNS
from isospace.objectives import OBJECTIVES, SimCSE
from isospace.report.run_set import collect
from isospace.report.write import write_report
from isospace.statistics.gains import Gain
from isospace.statistics.verdict import Difference, Verdict, VerdictKind
from isospace.system import typed_json
from isospace.system.settings import to_dict
from isospace.training.results import (
    Choice,
    CorpusFacts,
    Origin,
    RunResults,
    TrainingFacts,
    write_results,
)
from isospace.training.run import Run

STS = dict(zip(PAPER_COLUMNS.values(), np.arange(70.0, 77.0).tolist(), strict=True)) | {"Avg": 73.0}
LOST = Gain(-0.01, -0.02, 0.0, 0.05, items=600, groups=600, changed=90, changed_groups=90)
EVIL = "<script>document.title = 'run'</script> & \"quoted\" sentences of the sample"


def write_run(folder, mrr=0.5, **settings):
    """An unfinished run that has logged four updates and three evaluations."""
    settings = {"objective": SimCSE(), "learning_rate": 3e-5, **settings}
    run = Run.create(TrainConfig(output=folder, **settings))
    for step in range(1, 5):
        run.log("step", {"step": step, "sentences": 64 * step, "terms": {"info_nce": 1 / step}})
    for evaluation in evaluations(mrr):
        run.log("evaluation", evaluation)
    return run


def evaluations(mrr):
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


def ranked(reciprocal_ranks):
    """Items of test pairs; BM25 and hybrid search rank them as the encoder does."""
    none = np.zeros((2, len(reciprocal_ranks)))
    names = ("MRR", "BM25", "fused")
    return dict.fromkeys(names, reciprocal_ranks) | {
        f"{name}{DISPLACEMENT}": none for name in names
    }


def results_of(mrr=0.5, gain=0.05, sts=False, **changes):
    """Results of a run whose last evaluation was kept."""

    def scores(plus):
        row = {name: round(value + 100 * plus, 2) for name, value in STS.items()}

        def pairs(mrr):
            values = {"MRR": mrr, "nDCG@10": 0.6, "R@1": 0.25, "R@10": 0.75}
            return PairScores("cosine, 20 queries", 20, 20, values)

        with_bm25 = BM25Scores(pairs(0.4), pairs(mrr + plus + 0.02), 1.5)
        scored = STSScores(row, {"Avg": "plain mean"}) if sts else None
        return BenchmarkScores(pairs(mrr + plus), scored, with_bm25)

    results = RunResults(
        isospace="0.1.0",
        config={},
        origin=Origin("bert", None, None),
        corpus=CorpusFacts(1000, "of the text", {"read": 1234, "for training": 1000}),
        training=TrainingFacts(
            choice=Choice(4, "label-free", "pairs_mrr", (), "the best"),
            evaluations=tuple(evaluations(mrr)),
            steps=4,
            longest=32,
            pooling="cls",
            precision="cpu, float32",
            seconds=12.3,
            memory_mb=1620.0,
        ),
        benchmark="of the test items",
        base=scores(0.0),
        adapted=scores(gain),
        labels=None,
        model_step=4,
        verdict=Verdict(
            VerdictKind.ADAPTED,
            "Adapted: yes.",
            "MRR, halves",
            Gain(gain, 0.01, 0.09, 0.01, items=20, groups=20, changed=20, changed_groups=20),
        ),
        with_bm25={},
        other_text={"definitions": OtherTextScores(0.66, 0.65, LOST)},
        split=True,
        environment={"python": "3.11.7", "processor": "a <b>processor</b>"},
    )
    return changed(results, changes)


def changed(results, changes):
    """Results with other values; those of the training by their own names."""
    of_training = {one.name for one in fields(TrainingFacts)} & changes.keys()
    training = replace(results.training, **{name: changes.pop(name) for name in of_training})
    return replace(results, training=training, **changes)


def finish(run, mrr=0.5, gain=0.05, sts=False, **changes):
    """Write the results of a run whose last evaluation was kept."""
    write_results(run.results_path, results_of(mrr, gain, sts, **changes))
    return run


def change(run, **changes):
    write_results(run.results_path, changed(run.finished, changes))


def write_sample(run, count=60):
    """A sample in which the first sentence is evil, and every vector moves a little."""
    source = np.random.default_rng(0)
    before = source.normal(size=(count, 8))
    after = before + 0.3 * source.normal(size=(count, 8))
    run.write_sample([EVIL, *sentences(count - 1)], before, after)
    return run


def write_comparison(folder, sts=False):
    """A comparison of two objectives by two seeds, as `isospace compare` leaves it."""
    counts = {"items": 20, "groups": 20, "changed": 20, "changed_groups": 20}
    gain = Gain(mean=0.02, low=0.005, high=0.035, p=0.01, **counts, seeds=2, sd=0.01)
    worse = replace(gain, mean=-0.03, low=-0.05, high=-0.01, p=0.02)
    ahead = replace(gain, mean=0.05, low=0.03, high=0.07, p=0.004)
    difference = Difference("simcse:head=none", "dcl", ahead, ahead.p)
    columns = ["MRR", *STS] if sts else ["MRR"]
    scores = {
        "base model": {"MRR": [50.0], "R@1": [40.0]},
        "simcse:head=none": {"MRR": [51.0, 53.0], "R@1": [41.0, 43.0]},
        "dcl": {"MRR": [46.5, 47.5], "R@1": [36.5, 37.5]},
    }
    places = {"simcse:head=none": "simcse_head=none", "dcl": "dcl"}
    objectives = {"simcse:head=none": SimCSE(head="none"), "dcl": OBJECTIVES["dcl"]()}
    for name, place in places.items():
        for seed in (1, 2):
            run = write_run(folder / place / f"seed-{seed}", objective=objectives[name], seed=seed)
            finish(run, sts=sts)
    model = str(folder / "simcse_head=none" / "seed-1" / "model")
    results = ComparisonResults(
        measure="MRR",
        protocol=ComparisonProtocol("MRR, pairs", None, "last", None, None, True, "validation MRR"),
        settings={
            name: to_dict(TrainConfig(objective=objective))
            for name, objective in objectives.items()
        },
        runs={name: tuple(f"{place}/seed-{n}" for n in (1, 2)) for name, place in places.items()},
        baselines={},
        criterion={"simcse:head=none": 0.54, "dcl": 0.5},
        scores={
            row: {column: SeedScores.of_seeds(seeds) for column, seeds in found.items()}
            for row, found in scores.items()
        },
        gains={
            "simcse:head=none": dict.fromkeys(columns, RowGain(gain, 2 * gain.p)),
            "dcl": dict.fromkeys(columns, RowGain(worse, 2 * worse.p)),
        },
        differences=(difference,),
        verdict=ComparisonVerdict(
            VerdictKind.ADAPTED,
            "simcse:head=none",
            "Adapt with simcse:head=none: +2.00 points; two seeds.",
            model,
        ),
        with_bm25={
            "BM25": BM25Row({"MRR": SeedScores.of_seeds([40.0])}, None, worse),
            "dcl + BM25": BM25Row({"MRR": SeedScores.of_seeds([48.0, 50.0])}, 1.5, worse),
        },
        other_text={
            "simcse:head=none": {"definitions": LOST},
            "dcl": {"definitions": replace(LOST, mean=0.001, low=-0.003, high=0.005)},
        },
    )
    typed_json.write(folder / "results.json", results)
    return results


def page_of(*folders, output=None):
    return write_report(collect(folders), output, as_options).read_text(encoding="utf-8")
