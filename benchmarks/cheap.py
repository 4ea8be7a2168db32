"""docs/results/cheap.md: what it costs to run an encoder cheaply.

    python benchmarks/cheap.py FOLDER [--runs RUNS] [--only CORPUS ...] [--output runs/cheap]
    python benchmarks/cheap.py --draw

FOLDER holds the corpora as benchmarks/corpora.py makes them. The forms of small vectors are
measured with the base model. RUNS are the runs of `adapt` as benchmarks/domains.py writes them to
its `--output`; with them, static twins are measured too, which stay in `--output`. Nothing that is
there is made or measured again. What the page needs is in docs/results/cheap.json, from which
--draw draws the page again.

model2vec's own distillation is measured if it is in OUTPUT/CORPUS/model2vec. It needs packages of
its own (`pip install 'model2vec[distill]'` in another environment):

    from model2vec.distill import distill
    distill("RUNS/minilm/CORPUS/adapt-0/model").save_pretrained("OUTPUT/CORPUS/model2vec")
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from model2vec import StaticModel

from common import draw, gain_cell, mean_gain, points
from documents import SOURCES
from isospace.config import DistillConfig, TrainConfig
from isospace.encoders.loading import load_encoder
from isospace.evaluation.benchmark import hard_pairs
from isospace.evaluation.hybrid import rank_pairs
from isospace.evaluation.pairs import PromptedEncoders, cached
from isospace.evaluation.retrieval import mrr_of_items, mrr_scores
from isospace.export.distill import TwinResults, distill, read_results, text_settings
from isospace.operators.forms import FORMS
from isospace.statistics.gains import gain
from isospace.system.files import cache_folder, write_text
from isospace.system.tables import markdown_table
from isospace.training.compressing import measure_forms
from isospace.training.prepare import load_data
from isospace.training.run import Run

RECORD = Path(__file__).parent.parent / "docs" / "results" / "cheap.json"
PAGE = RECORD.with_suffix(".md")
CORPORA = ("docstrings", "foldoc", "debian-en", "debian-de", "debian-ja", "python-docs")
TWINS = "static twins"
"""The part of the record and of the page that the twins have."""
CHANGES = "changes by static twins"
"""The page's table of the twins' changes."""
SMALL = "small vectors"
"""The part that the forms of small vectors have."""
BASE = "minilm"
RUN = Path(BASE, "{corpus}", "adapt-0")
PEER = "model2vec"
KINDS = {"twin": False, "queries": True}
"""Folder of a twin -> whether it is for queries alone."""


TIMED, TIMES = 128, 20
"""Number of held-out texts that are timed, and number of times that a twin encodes them."""


def main() -> None:
    """Measure what is missing, then draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--only", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--output", type=Path, default=Path("runs/cheap"))
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if not options.draw and options.folder is None:
        parser.error("give FOLDER or --draw")
    # STS is not measured here.
    os.environ.pop("ISOSPACE_DATA", None)
    torch.set_num_threads(1)
    for corpus in () if options.draw else options.only:
        if corpus not in read_record().get(SMALL, {}):
            keep(SMALL, corpus, measure_small(corpus, options.folder))
        if options.runs is None:
            continue
        run = options.runs / str(RUN).format(corpus=corpus)
        if not (run / "results.json").is_file():
            print(f"{corpus}: no finished run in {run}", flush=True)
            continue
        keep(TWINS, corpus, measure_twins(corpus, run, options.folder, options.output))
    record = read_record()
    if TWINS in record:
        draw(PAGE, twins_tables(record[TWINS]))
    if SMALL in record:
        draw(PAGE, small_tables(record[SMALL]))


def read_record() -> dict[str, Any]:
    """Return what was measured: part -> corpus -> numbers."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def keep(part: str, corpus: str, found: Any) -> None:
    """Put what was measured of a corpus into a part of the record."""
    record = read_record()
    record.setdefault(part, {})[corpus] = found
    write_text(RECORD, json.dumps(record, indent=1) + "\n")


def measure_twins(corpus: str, run: Path, folder: Path, output: Path) -> dict[str, Any]:
    """Make the static twins of a run where they are missing; return their scores."""
    found = {}
    config = DistillConfig(str(run), SOURCES[corpus].text(folder))
    for name, queries_only in KINDS.items():
        place = output / corpus / name
        if not place.is_dir():
            started = time.monotonic()
            distill(replace(config, queries_only=queries_only, output=place))
            print(f"{corpus}: {name} {time.monotonic() - started:.0f} s", flush=True)
        results = read_results(place)
        if not found:
            found["encoder"] = _encoder_row(results)
        found[results.name] = _twin_row(results)
        found[results.name]["speed"] = _speed(config, place, queries_only)
    peer = output / corpus / PEER
    if peer.is_dir():
        found[PEER] = _peer_row(config, peer, found["encoder"]["nDCG@10"])
    return found


def _peer_row(config: DistillConfig, folder: Path, encoder: float) -> dict[str, Any]:
    """Score model2vec's own distillation of a run's model on the run's test pairs."""
    run = Run(Path(config.model))
    model = StaticModel.from_pretrained(folder)
    encode = PromptedEncoders(*[partial(model.encode, max_length=None)] * 3)
    data = load_data(text_settings(config, run))
    weight = data.benchmark.select_weight(encode, data.held_out)
    found, with_bm25 = rank_pairs(encode, data.benchmark.pairs, weight)
    groups = data.benchmark.pairs.group_numbers()
    adapted = mrr_of_items([run.items("after")], "MRR", groups)
    return {
        "nDCG@10": found.row()["nDCG@10"],
        "share": found.row()["nDCG@10"] / encoder,
        "MRR": found.mrr,
        "change": points(gain(mrr_scores(data.benchmark.pairs, found), adapted)),
        "hybrid": with_bm25.hybrid.mrr,
    }


def _speed(config: DistillConfig, folder: Path, queries_only: bool) -> list[float]:
    """Time a twin and its encoder on the same held-out texts; return texts per CPU second."""
    twin = StaticModel.from_pretrained(folder / ("query_0_StaticEmbedding" * queries_only))
    encoder = load_encoder(config.model)
    texts = load_data(text_settings(config, Run(Path(config.model)))).benchmark.sample[:TIMED]
    many = list(islice(cycle(texts), TIMES * len(texts)))
    encoder.embed(texts[:8])
    speeds = []
    encode_twin = partial(twin.encode, max_length=None)
    for encode, own in ((encode_twin, many), (partial(encoder.embed, side="document"), texts)):
        before = time.process_time()
        encode(own)
        speeds.append(len(own) / (time.process_time() - before))
    return speeds


def _encoder_row(results: TwinResults) -> dict[str, Any]:
    scores = results.encoder
    return {
        "nDCG@10": scores.pairs.values["nDCG@10"],
        "MRR": scores.pairs.mrr,
        "BM25": scores.with_bm25.bm25.mrr,
        "hybrid": scores.with_bm25.hybrid.mrr,
        "base MRR": results.base,
    }


def _twin_row(results: TwinResults) -> dict[str, Any]:
    scores = results.twin
    return {
        "nDCG@10": scores.pairs.values["nDCG@10"],
        "share": results.share,
        "MRR": scores.pairs.mrr,
        "change": points(results.loss),
        "hybrid": scores.with_bm25.hybrid.mrr,
        "over base": None if results.over_base is None else points(results.over_base),
        "other text": {name: points(one.gain) for name, one in results.other_text.items()},
        "pieces": results.pieces,
        "pairs": results.pairs,
        "updates": results.updates,
        "seconds": round(results.seconds),
    }


def twins_tables(record: Mapping[str, Any]) -> dict[str, str]:
    """Draw what static models find of what the encoder finds, and what else they change."""
    found, more = [], []
    for corpus, models in record.items():
        found.append({"corpus": corpus} | {name: _found(own) for name, own in models.items()})
        for name, own in models.items():
            if name in ("encoder", PEER):
                continue
            twin, encoder = own["speed"]
            more.append(
                {
                    "corpus": corpus,
                    "model": name,
                    "minus the encoder": gain_cell(own["change"]),
                    "minus the base model": gain_cell(own["over base"] or own["change"]),
                    "MRR with BM25": f"{100 * own['hybrid']:.1f}",
                    "encoder with BM25": f"{100 * models['encoder']['hybrid']:.1f}",
                    "definitions": f"{own['other text']['definitions'][0]:+.1f}",
                    "speed": f"{twin / encoder:,.0f} times",
                }
            )
    return {TWINS: markdown_table(found), CHANGES: markdown_table(more)}


def _found(own: Mapping[str, Any]) -> str:
    """Return a model's nDCG@10 as a cell, with its share of the encoder's."""
    value = f"{100 * own['nDCG@10']:.1f}"
    return f"{value} ({100 * own['share']:.0f} %)" if "share" in own else value


def measure_small(corpus: str, folder: Path) -> dict[str, Any]:
    """Measure all forms of the base model's vectors; return what the page needs."""
    data = load_data(TrainConfig(text=SOURCES[corpus].text(folder), model=BASE))
    pairs = data.benchmark.pairs
    encode = cached(load_encoder(BASE), cache_folder())
    validation = hard_pairs(data.corpus, data.held_out)
    results = measure_forms(encode, BASE, pairs, f"{len(pairs):,} test pairs", validation)
    forms = {
        name: {
            "bytes": form.bytes,
            "values": form.values,
            "changes": {measure: points(found) for measure, found in form.changes.items()},
            "lost": form.lost,
        }
        for name, form in results.forms.items()
    }
    return {"forms": forms, "smallest": results.smallest, "tested on": results.tested_on}


def small_tables(record: Mapping[str, Any]) -> dict[str, str]:
    """Draw the mean changes of each form."""
    means = []
    for name in FORMS:
        found = [own["forms"][name] for own in record.values() if own["forms"][name]["changes"]]
        if not found:
            continue
        means.append(
            {
                "form": name,
                "bytes a passage": f"{found[0]['bytes']:,}",
                "MRR": mean_gain([own["changes"]["MRR"] for own in found]),
                "nDCG@10": mean_gain([own["changes"]["nDCG@10"] for own in found]),
            }
        )
    return {SMALL: markdown_table(means)}


if __name__ == "__main__":
    main()
