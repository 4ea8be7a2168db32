"""docs/results/domains.md: what `adapt` gains on several domains, beside single objectives.

    python benchmarks/domains.py FOLDER [--only CORPUS ...] [--rows ROW ...] [--seeds 1] [--jobs 2]
                                        [--sts FOLDER] [--start all-mpnet-base-v2]
    python benchmarks/domains.py --judge

FOLDER holds the corpora as benchmarks/corpora.py makes them, STS the seven sets in SentEval's
layout. Goes on where it was stopped, and with the runs whose records are in
docs/results/documents-cells, where benchmarks/relations.py puts its own. With --judge the finished
runs are judged again: no text, no training. Another start than minilm, such as the folder that
benchmarks/mpnet.py makes, is named as it lies in the current folder, and has tables of its own; it
is trained in bf16, on machines that have it.

All rows of a corpus are trained on as many tokens, but those named by others, and are judged by a
relation that trains none of them. With the first seed every rung of the ladder is judged beside
what was taken, and STS is measured. Rungs have one seed.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from itertools import islice, takewhile
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest.mock import patch

import archived
from cell_archive import pack, unpack
from common import draw
from documents import CELLS, PRECISION, RUNS, SOURCES, TOKENS, on_one_text, pairs, published
from domains_picture import draw_gains
from isospace.adaptation.adapt import adapt
from isospace.adaptation.adapt_config import AdaptConfig
from isospace.adaptation.encoder_states import EncoderStates
from isospace.adaptation.results import Ladder, Rung, read_ladder
from isospace.adaptation.states import PAIR_MAPS, SHARES, State
from isospace.comparison.baselines import Baseline
from isospace.comparison.results import ComparisonResults
from isospace.config import CorpusConfig, PrecisionChoice, TrainConfig
from isospace.encoders.loading import load_encoder
from isospace.evaluation.benchmark import load_sts_data
from isospace.evaluation.elsewhere import STS, Elsewhere, elsewhere_scores
from isospace.evaluation.vector_cache import cached
from isospace.report.papers import mean_sd
from isospace.statistics.gains import Gain
from isospace.system.cache import cache_folder
from isospace.system.files import write_text
from isospace.system.tables import markdown_table
from isospace.training import checkpoint
from isospace.training.finish import Judged
from isospace.training.prepare import load_data
from isospace.training.run import Run
from peer_recipes import PEERS, train_peer

PAGE = Path(__file__).parent.parent / "docs" / "results" / "domains.md"
PICTURE = PAGE.parents[1] / "images" / "domains.svg"
ADAPT = "adapt"
LADDERS: dict[str, dict[str, Any]] = {
    ADAPT: {},
    "adapt-teacher": {"teacher": "start+bm25"},
    "adapt-3-trainings": {"seeds": 3},
    "adapt-1m-tokens": {"budget": (1_000_000, "tokens")},
}
"""Row -> settings of a ladder; the last trains about as long as ten minutes of two cores allow."""
RUNG = "rung-"
"""Begins the names of rows that are a rung of the first ladder."""
SINGLE = ("simcse", "whitenedcse", "scd-published", "simcse++-published")
"""Objectives of the three papers, of which `adapt` is held against the best."""
MEASURES = ("MRR", "nDCG@10", "R@1", "R@10")
Value = TypeVar("Value")


def main() -> None:
    """Run what is missing; then draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--rows", nargs="+", help="those that are run; the others wait")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--sts", type=Path)
    parser.add_argument("--start", default="minilm")
    parser.add_argument("--output", type=Path, default=RUNS)
    options = parser.parse_args()
    if options.folder is None and not options.judge:
        parser.error("give FOLDER, or --judge")
    # STS is measured once, and chooses nothing: corpora are not held against it.
    os.environ.pop("ISOSPACE_DATA", None)
    of_start = "" if options.start == "minilm" else f"-{options.start}"
    for corpus in () if options.judge else options.only:
        _run(f"{corpus}{of_start}", corpus, options)
    found = {}
    for corpus in SOURCES:
        name = f"{corpus}{of_start}"
        if (CELLS / name / f"{ADAPT}-seed-0.tar.xz").exists():
            found[corpus] = _judge(name, corpus, options.start)
    parts = {f"over corpora{of_start}": _over_corpora(found)}
    if not of_start:
        draw_gains(PICTURE, found, {corpus: _drawn(found[corpus]) for corpus in found})
        parts["stopping"] = _stopping()
    draw(PAGE, parts)


def _precision(start: str) -> PrecisionChoice:
    return PRECISION if start == "minilm" else "bf16"


def _rows(corpus: str, folder: Path, start: str) -> dict[str, TrainConfig]:
    source = SOURCES[corpus]
    rows = on_one_text(source, folder, start) | published(source, folder, start)
    return {name: replace(row, precision=_precision(start)) for name, row in rows.items()}


def _run(name: str, corpus: str, options: argparse.Namespace) -> None:
    """Train what is missing of a corpus, and put it into the archive."""
    runs: Path = options.output / name
    rows = _rows(corpus, options.folder, options.start)
    wanted = options.rows or [*LADDERS, *rows, *PEERS]
    text = rows["simcse"].text
    unpack(CELLS / name, runs, Path(text.corpus[0]), Path())
    _run_ladders(name, wanted, text, options)
    on_pairs = pairs(SOURCES[corpus], options.folder, options.start)
    models = _train_peers(name, wanted, on_pairs, options)
    candidates = {row: config for row, config in rows.items() if row in wanted}
    seeds = options.seeds
    if models and not candidates:  # it takes a run to score others' models beside
        candidates, seeds = {"simcse": rows["simcse"]}, 1
    if candidates:
        archived.run(candidates, seeds, runs, CELLS / name, options.jobs, models, "pairs")


def _run_ladders(
    name: str, wanted: Collection[str], text: CorpusConfig, options: argparse.Namespace
) -> None:
    """Climb what is missing of the wanted ladders."""
    runs = options.output / name
    for ladder in (ladder for ladder in LADDERS if ladder in wanted):
        for seed in range(options.seeds):
            if _note_of(ladder, seed) in _notes(name):  # what is written last
                continue
            usual: dict[str, Any] = {"budget": (TOKENS, "tokens")}
            config = AdaptConfig(
                text=text,
                model=options.start,
                precision=_precision(options.start),
                seed=seed,
                output=runs / ladder / f"seed-{seed}",
                **usual | LADDERS[ladder],
            )
            found = _apart(_climb, config)
            rungs = {_row_of(rung): rung.seconds for rung in found.rungs[1:]}
            note: dict[str, Any] = {"seconds": found.seconds, "rungs": rungs}
            if seed == 0 and ladder == ADAPT:
                _apart(_judge_rungs, config.output, runs / "baselines")
            if seed == 0 and options.sts is not None:
                note[STS] = _apart(_sts, config.output, options.sts)
            _note(name, _note_of(ladder, seed), note)
            pack(runs, CELLS / name)


def _train_peers(
    name: str, wanted: Collection[str], config: TrainConfig, options: argparse.Namespace
) -> dict[str, Path]:
    """Row -> model of the wanted recipes of others that are not in the archive, all trained now.

    `config` is of a run on pairs.
    """
    config = replace(config, precision=_precision(options.start))
    models = {}
    for peer in (peer for peer in PEERS if peer in wanted):
        for seed, row in enumerate(islice(archived.seeds_of(peer), options.seeds)):
            if (CELLS / name / f"baseline-{row}.tar.xz").exists():
                continue
            models[row] = options.output / "models" / name / row
            if not models[row].exists():
                own = replace(config, seed=seed)
                _note(name, row, {"seconds": _apart(train_peer, peer, own, models[row])})
    return models


def _climb(config: AdaptConfig) -> Ladder:
    """The ladder of a folder, which is climbed first where it is not there, or not to its end.

    It finds nothing in the cache, so that the minutes of all ladders are of the same work.
    """
    assert config.output is not None
    with TemporaryDirectory() as cache, patch.dict(os.environ, ISOSPACE_CACHE=cache):
        if config.output.exists():
            adapt(resume=config.output)
        else:
            adapt(config)
    ladder = read_ladder(config.output)
    assert ladder is not None
    return ladder


def _judge_rungs(folder: Path, baselines: Path) -> None:
    """Score every rung on the items that judge, as rows that chose nothing."""
    run, ladder = Run(folder), read_ladder(folder)
    assert ladder is not None
    data = load_data(run.config, elsewhere_chooses=True)
    states = EncoderStates(run.config, data.corpus)
    if any(rung.name == "trained" for rung in ladder.rungs):
        states.trained.append(checkpoint.load_weights(run.kept_weights))
    known = [State(share, change) for share in (0.0, 1.0, *SHARES) for change in (None, *PAIR_MAPS)]
    by_words = {state.words: state for state in known}
    weight = run.finished.start.beside.weight
    with TemporaryDirectory() as beside:
        for rung in ladder.rungs[1:]:
            encode = states.encode(by_words[rung.words], Path(beside))
            found = Judged.of(encode, data, weight)
            Baseline.of(rung.words, found, data).write(baselines / _row_of(rung))


def _row_of(rung: Rung) -> str:
    return RUNG + "-".join(rung.name.replace(",", "").split())


def _sts(folder: Path, sts: Path) -> dict[str, Any]:
    """The average of the STS sets before and after a ladder, and the gain."""
    run = Run(folder)
    tasks = load_sts_data(str(sts))
    sets = Elsewhere.make(load_data(run.config).corpus, (), tasks)
    sets = Elsewhere({}, {}, sets.sts, sets.known, (), "")
    before, after = (
        sets.measure(cached(load_encoder(str(model)), cache_folder()))
        for model in (run.config.model, run.model_folder)
    )
    return asdict(elsewhere_scores(before, after)[STS])


def _apart(work: Callable[..., Value], *arguments: Any) -> Value:
    """Do it in a process of its own: one process has one precision."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def _notes(name: str) -> dict[str, dict[str, Any]]:
    """What the tables of a corpus have and no cell: rungs, STS, minutes of others' trainings."""
    path = _notes_path(name)
    found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _note_of(ladder: str, seed: int) -> str:
    return f"{ladder} seed {seed}"


def _notes_path(name: str) -> Path:
    return PAGE.with_name(f"domains-{name}-notes.json")


def _note(name: str, row: str, note: Mapping[str, Any]) -> None:
    write_text(_notes_path(name), json.dumps({**_notes(name), row: note}, indent=1) + "\n")


def _judge(name: str, corpus: str, start: str) -> ComparisonResults:
    """Judge all that the archive has of a corpus, and draw it."""
    rows = _rows(corpus, Path("FOLDER"), start)
    rungs = sorted(path.name.split(".")[0] for path in (CELLS / name).glob(f"baseline-{RUNG}*"))
    names = (*LADDERS, *rows, *PEERS, *(rung.removeprefix("baseline-") for rung in rungs))
    place = Path(rows["simcse"].text.corpus[0])
    results = archived.judged_again(names, CELLS / name, place, Path(), "MRR")
    archived.publish(PAGE.with_name(f"domains-{name}.json"), results)
    notes = _notes(name)
    with TemporaryDirectory() as folder:
        unpack(CELLS / name, Path(folder), place, Path())
        runs: dict[str, list[Run]] = {}
        for row in results.runs:
            for run in map(Run, sorted(Path(folder).glob(f"{row}/seed-*"))):
                # A ladder gets its note last: one that was stopped before has more to do.
                if row not in LADDERS or _note_of(row, run.config.seed) in notes:
                    runs.setdefault(row, []).append(run)
        ladders, costs = _ladders(runs, notes), _costs(runs, notes)
    draw(
        PAGE,
        {
            f"gains {name}": archived.tested(results, "pairs that choose"),
            f"scores {name}": _scores(results),
            f"ladders {name}": ladders,
            f"costs {name}": costs,
        },
    )
    return results


def _scores(results: ComparisonResults) -> str:
    """Every row with BM25's, and what became of other text."""
    rows = results.scores | {name: row.scores for name, row in results.beside.items()}
    return markdown_table(
        [
            {"": name}
            | {c: mean_sd(columns[c].seeds) for c in MEASURES if c in columns}
            | {
                f"elsewhere: {other}": found.points
                for other, found in results.elsewhere.get(name, {}).items()
            }
            for name, columns in rows.items()
        ]
    )


def _ladders(runs: Mapping[str, list[Run]], notes: Mapping[str, Mapping[str, Any]]) -> str:
    """What every ladder ended with, and what it said."""
    rows = []
    for ladder in (ladder for ladder in LADDERS if ladder in runs):
        for run in runs[ladder]:
            seed = run.config.seed
            sts = notes[_note_of(ladder, seed)].get(STS)
            rows.append(
                {
                    "": ladder,
                    "seed": str(seed),
                    "shipped": "the start" if run.finished.ships_start else run.finished.kept,
                    "verdict": run.finished.verdict.text,
                    "STS": Gain(**sts["gain"]).points if sts else "",
                }
            )
    return markdown_table(rows)


def _costs(runs: Mapping[str, list[Run]], notes: Mapping[str, Mapping[str, Any]]) -> str:
    """Minutes of each row: with all measuring, but of rows that sentence-transformers trains."""
    seconds = {
        row: [
            notes[_note_of(row, run.config.seed)]["seconds"]
            if row in LADDERS
            else run.finished.seconds
            for run in of_row
        ]
        for row, of_row in runs.items()
    }
    rungs = notes.get(_note_of(ADAPT, 0), {}).get("rungs", {})
    seconds |= {f"{rung}, beside what is below it": [own] for rung, own in rungs.items()}
    for peer in PEERS:
        there = takewhile(notes.__contains__, archived.seeds_of(peer))
        if own := [notes[row]["seconds"] for row in there]:
            seconds[f"{peer}, training alone"] = own
    return markdown_table(
        [
            {"": row, "minutes": f"{sum(times) / len(times) / 60:.1f}"}
            for row, times in seconds.items()
        ]
    )


def _stopping() -> str:
    """What would be lost if trainings ended where their middle finds less than the start.

    Of all trainings on pairs in the archive, those of relations.py too, on the pairs that choose.
    """
    rows = []
    for corpus, source in SOURCES.items():
        with TemporaryDirectory() as folder:
            unpack(CELLS / corpus, Path(folder), Path(source.place), Path())
            curves = [
                [line["pairs_mrr"] for line in run.metrics() if line["kind"] == "evaluation"]
                for run in map(Run, sorted(Path(folder).glob("*/seed-*")))
                if run.config.views != "dropout"
            ]
        # The start, the middle, the end; a long training of a ladder is looked at earlier, too.
        curves = [[curve[0], *curve[-2:]] for curve in curves]
        stopped = [curve for curve in curves if curve[1] < curve[0]]
        counts = {
            "trainings": len(curves),
            "their middle finds less than the start": len(stopped),
            "and their end more than their middle": sum(end > mid for _, mid, end in stopped),
            "and their end more than the start": sum(end > start for start, _, end in stopped),
        }
        rows.append({"": corpus, **counts})
    total = {key: sum(row[key] for row in rows) for key in rows[0] if key}
    return markdown_table(
        [{key: str(cell) for key, cell in row.items()} for row in [*rows, {"": "all", **total}]]
    )


def _over_corpora(found: Mapping[str, ComparisonResults]) -> str:
    """Every row's gain over the start, and `adapt` over it, as means of the corpora that have it.

    Corpora are few and were not drawn from anything: intervals are for other seeds and items of
    these, which are independent, so that squares of half-widths add.
    """
    rows = []
    names = dict.fromkeys(name for results in found.values() for name in results.gains)
    for name in names:
        having = [results for results in found.values() if name in results.gains]
        own = [results.gains[name][results.measure].over_start for results in having]
        row = {"": name, "corpora": str(len(having)), "gain": archived.mean_of(own)}
        if name != ADAPT:
            row[f"{ADAPT} over it"] = archived.mean_of(
                [archived.difference(results, ADAPT, name).gain for results in having]
            )
        rows.append(row)
    ours, others = [], []
    for results in found.values():
        if best := _best_single(results):
            for row, gains in ((ADAPT, ours), (best, others)):
                gains.append(results.gains[row][results.measure].over_start)
    if others:
        times = sum(gain.mean for gain in ours) / sum(gain.mean for gain in others)
        rows.append(
            {
                "": "the best of the three papers by the pairs that choose",
                "corpora": str(len(others)),
                "gain": archived.mean_of(others),
                f"{ADAPT} over it": f"{times:.2f} times its gain",
            }
        )
    return markdown_table(rows)


def _best_single(results: ComparisonResults) -> str | None:
    """Of the objectives of the three papers that which the pairs that choose take."""
    there = [name for name in SINGLE if name in results.criterion]
    return max(there, key=results.criterion.__getitem__, default=None)


def _drawn(results: ComparisonResults) -> dict[str, str]:
    """Name in the picture -> row."""
    rows = {
        "adapt": ADAPT,
        "sentence-transformers' MNRL": "st-mnrl",
        "sentence-transformers' CT": "st-ct",
        "sentence-transformers' SimCSE": "st-simcse",
        "best of three papers": _best_single(results) or "",
        "start + BM25, untrained": "start + BM25",
        "adapt + BM25": f"{ADAPT} + BM25",
    }
    known = results.gains.keys() | results.beside.keys()
    return {name: row for name, row in rows.items() if row in known}


if __name__ == "__main__":
    main()
