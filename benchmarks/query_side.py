"""docs/results/query-side.md: what `adapt --queries-only` gains, and what its parts do.

    python benchmarks/query_side.py FOLDER [--only CORPUS ...] [--jobs 2] [--output RUNS]
    python benchmarks/query_side.py --draw

FOLDER holds the corpora as benchmarks/corpora.py makes them. A run of `adapt` fine-tunes an encoder
for queries on at most 200,000 tokens of them. Candidates that are fixed beforehand are then scored
on the test pairs too. A corpus that is in the record is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from common import draw, gain_cell, mean_gain, points
from documents import PRECISION, SOURCES, TOKENS
from isospace.adaptation.adapt import adapt
from isospace.adaptation.candidates import (
    BASE_MODEL,
    QUERY_MAPS,
    SHARES,
    Candidate,
    CandidateEncoders,
    queries_by_pairs,
)
from isospace.adaptation.fine_tune import QUERY_WEIGHTS
from isospace.adaptation.results import read_candidates
from isospace.config import AdaptConfig
from isospace.evaluation.hybrid import rank_pairs
from isospace.evaluation.pairs import PromptedEncoders
from isospace.evaluation.retrieval import evaluate_retrieval, mrr_scores
from isospace.statistics.gains import Scores, gain
from isospace.system.files import write_text
from isospace.system.tables import markdown_table
from isospace.training import checkpoint
from isospace.training.prepare import Data, load_data
from isospace.training.run import begun

RECORD = Path(__file__).parent.parent / "docs" / "results" / "query-side.json"
PAGE = RECORD.with_suffix(".md")
ADAPT = "adapt --queries-only"
ROWS = {
    "matrix, power 0.5": Candidate(0.0, queries_by_pairs(0.5)),
    "fine-tuned": Candidate(1.0),
    "fine-tuned, then matrix, power 0.25": Candidate(1.0, queries_by_pairs(0.25)),
    "fine-tuned, then matrix, power 0.5": Candidate(1.0, queries_by_pairs(0.5)),
}
"""Row -> the candidate that was fixed beforehand."""
TEST, HYBRID, DEFINITIONS = KINDS = "test", "hybrid", "definitions"


def main() -> None:
    """Measure what is missing, then draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("runs/query-side"))
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if not options.draw and options.folder is None:
        parser.error("give FOLDER, or --draw")
    # STS is not measured here.
    os.environ.pop("ISOSPACE_DATA", None)
    if not options.draw:
        missing = [name for name in options.only if name not in read_record()]
        with ProcessPoolExecutor(options.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
            work = {
                pool.submit(measure, name, options.folder, options.output / name): name
                for name in missing
            }
            for future in as_completed(work):
                record = read_record() | {work[future]: future.result()}
                write_text(RECORD, json.dumps(record, indent=1) + "\n")
                print(work[future], json.dumps(record[work[future]]["rows"]), flush=True)
    draw_page(read_record())


def read_record() -> dict[str, Any]:
    """Return what was measured: corpus -> numbers."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def measure(corpus: str, folder: Path, output: Path) -> dict[str, Any]:
    """Adapt the encoding of queries to a corpus; return the gains of all rows."""
    torch.set_num_threads(1)
    config = AdaptConfig(
        text=SOURCES[corpus].text(folder),
        queries_only=True,
        precision=PRECISION,
        seed=0,
        output=output,
        budget=(TOKENS, "tokens"),
    )
    run = (adapt(resume=output) if begun(output) else adapt(config)).run
    data = load_data(run.config)
    weights = checkpoint.load(output / QUERY_WEIGHTS)["weights"]
    encoders = CandidateEncoders.load(run.config, data.corpus, queries_only=True)
    encoders = replace(encoders, trained=weights, folder=output / "vectors")
    encode = encoders.encode(BASE_MODEL)
    weight = data.benchmark.select_weight(encode, data.held_out)
    before = _scores(encode, data, weight)
    found = read_candidates(output)
    assert found is not None
    selected = next(
        Candidate(share, change)
        for share in (0.0, *SHARES)
        for change in (None, *QUERY_MAPS.tried)
        if Candidate(share, change).name == found.selected.name
    )
    shipped = BASE_MODEL if run.finished.ships_base else selected
    rows = {}
    for name, candidate in {ADAPT: shipped, **ROWS}.items():
        after = _scores(encoders.encode(candidate), data, weight)
        rows[name] = {kind: points(gain(after[kind], before[kind])) for kind in before}
    if shipped == BASE_MODEL:
        rows[ADAPT] = {kind: [0.0, 0.0, 0.0] for kind in before}
    return {
        "base": before[TEST].mean,
        HYBRID: before[HYBRID].mean,
        "updates": run.finished.training.steps,
        "selected": found.selected.name,
        "verdict": run.finished.verdict.text,
        "rows": rows,
    }


def _scores(encode: PromptedEncoders, data: Data, weight: float) -> dict[str, Scores]:
    """Return the MRR of an encoder on the test pairs, alone and with BM25, and on other text."""
    sets = {TEST: data.benchmark.pairs, **data.other_text.test_pairs}
    found = {name: mrr_scores(own, evaluate_retrieval(encode, own)) for name, own in sets.items()}
    _, with_bm25 = rank_pairs(encode, sets[TEST], weight)
    return found | {HYBRID: mrr_scores(sets[TEST], with_bm25.hybrid)}


# What follows needs no encoder.


def draw_page(record: Mapping[str, Any]) -> None:
    """Draw the means over the corpora, and each corpus."""
    if not record:
        return
    corpora = [name for name in SOURCES if name in record]
    names = list(record[corpora[0]]["rows"])
    means = []
    for name in names:
        own = {kind: [record[corpus]["rows"][name][kind] for corpus in corpora] for kind in KINDS}
        other = sum(mean for mean, _, _ in own[DEFINITIONS]) / len(corpora)
        means.append(
            {
                "": name,
                "gain": mean_gain(own[TEST]),
                "hybrid gain": mean_gain(own[HYBRID]),
                DEFINITIONS: f"{other:+.2f}",
            }
        )
    each = [
        {
            "corpus": corpus,
            "base model, MRR": f"{100 * record[corpus]['base']:.2f}",
            **{name: _cell(name, record[corpus]["rows"][name][TEST]) for name in names},
        }
        for corpus in corpora
    ]
    draw(PAGE, {"means": markdown_table(means), "each corpus": markdown_table(each)})


def _cell(name: str, found: Sequence[float]) -> str:
    """Return a gain, and for `adapt` its interval unless the base model was kept."""
    return gain_cell(found) if name == ADAPT and any(found) else f"{found[0]:+.2f}"


if __name__ == "__main__":
    main()
