"""Measure on a BEIR set what `adapt` gains from the corpus alone (docs/results/beir.md).

    python benchmarks/beir.py SET FOLDER --by NAME [--base all-mpnet-base-v2]
    python benchmarks/beir.py --draw

FOLDER is the set as BEIR ships it: corpus.jsonl, queries.jsonl and qrels/test.tsv. The models are
made from corpus.jsonl; the test queries and their judgements are read for the scores alone. The
scores are those of `isospace evaluate --own FOLDER`. A run is added to docs/results/beir.json, with
the hashes of the three files, and the page is drawn from there. A base model other than minilm is a
folder, such as benchmarks/mpnet.py makes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import stats

from common import draw, gain_cell, points
from contest import machine
from documents import PRECISION, TOKENS
from isospace.adaptation.adapt import adapt
from isospace.adaptation.candidates import THROUGH
from isospace.adaptation.results import read_candidates
from isospace.adaptation.whiten import whiten_model
from isospace.config import AdaptConfig, CorpusConfig, EvaluateConfig, WhitenConfig
from isospace.errors import UserError
from isospace.evaluation.evaluate import evaluate_models
from isospace.evaluation.hybrid import BM25Comparison, Way
from isospace.evaluation.judged import load_judged
from isospace.evaluation.own import OwnFilesScores
from isospace.statistics.gains import CONFIDENCE
from isospace.system.files import write_text
from isospace.system.tables import markdown_table
from isospace.training.run import Run

PAGE = Path(__file__).parent.parent / "docs" / "results" / "beir.md"
RECORD = PAGE.with_suffix(".json")
FILES = ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")
NDCG, RECALL = "nDCG@10", "R@100"
MINILM = "minilm"
BASE, WHITENED, ADAPTED, QUERIES = "base model", "whitened by pairs", "adapt", "queries alone"
ROWS: dict[str, tuple[str, Way]] = {
    "BM25": (BASE, "BM25"),
    BASE: (BASE, "encoder"),
    f"{BASE} + BM25": (BASE, "hybrid"),
    WHITENED: (WHITENED, "encoder"),
    ADAPTED: (ADAPTED, "encoder"),
    f"{ADAPTED} + BM25": (ADAPTED, "hybrid"),
    QUERIES: (QUERIES, "encoder"),
}
"""Row -> the model, and how it searches."""


@dataclass(frozen=True)
class Published:
    """Published figures of one set, x 100.

    Attributes:
        md5: checksum of the zip in BEIR's list of data sets.
        bm25: nDCG@10 and R@100 of Pyserini's reproductions (condition bm25-multifield).
        gpl: nDCG@10 in Table 9 of the GPL paper: the model trained on MS MARCO, GPL and TSDAE + GPL
            on top of it; TAS-B, and GPL on top of that.
    """

    md5: str
    bm25: tuple[float, float]
    gpl: tuple[float, float, float, float, float]


SETS = {
    "scifact": Published(
        "5f7d1de60b170fc8027bb7898e2efca1", (66.47, 90.76), (57.1, 66.4, 68.9, 63.5, 67.4)
    ),
    "nfcorpus": Published(
        "a89dba18a62ef92f7d323ec890a0d38d", (32.54, 25.00), (27.7, 34.2, 33.9, 31.9, 34.5)
    ),
    "fiqa": Published(
        "17918ed23cd04fb15047f73e6c3bd9d9", (23.61, 53.95), (26.7, 32.8, 34.4, 29.8, 34.4)
    ),
    "arguana": Published(
        "8ad3e3c2a5867cdced806d6503f29b99", (41.42, 94.31), (33.9, 48.3, 51.2, 43.4, 55.7)
    ),
    "scidocs": Published(
        "38121350fc3a4d2f48850f6aff52e4a9", (15.81, 35.61), (13.6, 16.1, 16.8, 14.9, 16.9)
    ),
}


def main() -> None:
    """Measure a set, add it to the record, and draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("set", choices=SETS, nargs="?")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--by", help="your name, for the log of the page")
    parser.add_argument("--base", default=MINILM)
    parser.add_argument("--tokens", type=int, help="fewer, to try the command; not recorded")
    parser.add_argument("--draw", action="store_true", help="draw the page from the record alone")
    options = parser.parse_args()
    os.environ.pop("ISOSPACE_DATA", None)  # it would add STS to the other-domain check
    record: list[dict[str, Any]] = json.loads(RECORD.read_text())
    if not options.draw:
        if options.folder is None or not (options.by or options.tokens):
            parser.error("give SET, FOLDER and --by NAME, or --draw")
        try:
            run = measure(options.set, options.folder, options.base, options.tokens or TOKENS)
        except UserError as error:
            sys.exit(f"beir.py: {error}")
        print(markdown_table(_rows(run)))
        if options.tokens:
            return
        record.append({"by": options.by} | run)
        write_text(RECORD, json.dumps(record, indent=1) + "\n")
    draw_page(record)


def measure(name: str, folder: Path, base: str, tokens: int) -> dict[str, Any]:
    """Make all models from a corpus, and score them on the test queries.

    `tokens` is the budget of `adapt`.
    """
    judged = load_judged(folder)  # bad input is refused before the work starts
    commit = _commit()
    text = CorpusConfig(corpus=(str(folder / FILES[0]),), title_column="title")
    with TemporaryDirectory() as scratch:
        models, minutes = {BASE: base}, {}

        started = time.monotonic()
        models[WHITENED] = str(Path(scratch, "whitened"))
        whiten_model(
            WhitenConfig(
                model=base, text=text, by="pairs", power=THROUGH.power, output=models[WHITENED]
            )
        )
        minutes[WHITENED] = time.monotonic() - started
        runs: dict[str, Run] = {}
        for row, queries_only in ((ADAPTED, False), (QUERIES, True)):
            started = time.monotonic()
            config = AdaptConfig(
                text=text,
                model=base,
                budget=(tokens, "tokens"),
                precision=PRECISION,
                queries_only=queries_only,
                output=Path(scratch, row),
            )
            runs[row] = adapt(config).run
            models[row] = str(runs[row].folder)
            minutes[row] = time.monotonic() - started
        selected = {row: _selected(run) for row, run in runs.items()}
        found = _scores(models, folder)
    return {
        "set": name,
        "date": date.today().isoformat(),
        "commit": commit,
        "base": Path(base).name,
        "machine": machine(),
        "files": {file: _sha256(folder / file) for file in FILES},
        "queries": len(judged),
        "documents": len(judged.documents),
        "selected": selected,
        "rows": {
            row: _row(found[model], way, found[BASE])
            | ({"minutes": round(minutes[row] / 60, 2)} if row in minutes else {})
            for row, (model, way) in ROWS.items()
        },
    }


def _selected(run: Run) -> str:
    searched = read_candidates(run.folder)
    assert searched is not None
    return searched.selected.name


def _scores(models: Mapping[str, str], folder: Path) -> dict[str, BM25Comparison]:
    """Return row -> the scores of its model, alone and with BM25."""
    config = EvaluateConfig(own=(str(folder),))
    found = {}
    for row, evaluation in zip(models, evaluate_models(list(models.values()), config), strict=True):
        own = evaluation.scores["own"]
        assert isinstance(own, OwnFilesScores)
        with_bm25 = own.files[0].with_bm25
        assert with_bm25 is not None
        found[row] = with_bm25
    return found


def _row(found: BM25Comparison, way: Way, base: BM25Comparison) -> dict[str, Any]:
    """Return the scores of one row, x 100, with intervals over the queries."""
    [values] = found.scores[way][NDCG].values
    error = values.std(ddof=1) / np.sqrt(len(values))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * error)
    mean = float(values.mean())
    row: dict[str, Any] = {
        NDCG: [round(100 * value, 3) for value in (mean, max(0, mean - half), min(1, mean + half))],
        RECALL: round(100 * found.values[way][RECALL], 3),
    }
    if found is not base or way != "encoder":
        row["gain"] = points(found.over(base, way)[NDCG])
    return row


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _commit() -> str:
    """Return the commit of this checkout, with a mark if files were changed since."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + (" with changes" if git("diff", "HEAD") else "")


# What follows draws the page.


def draw_page(record: Sequence[Mapping[str, Any]]) -> None:
    """Draw the tables of all sets, and the log; the newest run of a set and base is shown."""
    parts: dict[str, str] = {}
    measured: list[str] = []
    for name in SETS:
        runs = {run["base"]: run for run in record if run["set"] == name}
        measured += [
            f"**{name}, from {base}**\n\n{markdown_table(_rows(run))}" for base, run in runs.items()
        ]
    parts["measured"] = "\n\n".join(measured) or "Nothing was measured yet."
    parts["published"] = markdown_table(_published_rows())
    parts["files"] = markdown_table(
        [{"set": name, "MD5 of the zip": f"`{own.md5}`"} for name, own in SETS.items()]
    )
    parts["log"] = markdown_table([_log_row(run) for run in record] or [dict.fromkeys(LOG, "")])
    draw(PAGE, parts)


def _rows(run: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the rows of one run."""
    rows = []
    for row in ROWS:
        found = run["rows"][row]
        mean, low, high = found[NDCG]
        rows.append(
            {
                "": row,
                NDCG: f"{mean:.2f} ({low:.2f} to {high:.2f})",
                "over base": gain_cell(found["gain"]) if "gain" in found else "",
                RECALL: f"{found[RECALL]:.2f}",
                "minutes": f"{found['minutes']:.1f}" if "minutes" in found else "",
            }
        )
    return rows


def _published_rows() -> list[dict[str, str]]:
    """Return the nDCG@10 that others published, each with its gain over its own base model."""
    rows: dict[str, dict[str, str]] = {}
    for name, own in SETS.items():
        ms_marco, gpl, tsdae, tas_b, over_tas_b = own.gpl
        cells = {
            "BM25 (Pyserini)": f"{own.bm25[0]:.2f}",
            "BM25 (Pyserini), R@100": f"{own.bm25[1]:.2f}",
            "MS MARCO model": f"{ms_marco:.1f}",
            "GPL": f"{gpl:.1f} ({gpl - ms_marco:+.1f})",
            "TSDAE + GPL": f"{tsdae:.1f} ({tsdae - ms_marco:+.1f})",
            "TAS-B": f"{tas_b:.1f}",
            "TAS-B + GPL": f"{over_tas_b:.1f} ({over_tas_b - tas_b:+.1f})",
        }
        for title, cell in cells.items():
            rows.setdefault(title, {"": title})[name] = cell
    return list(rows.values())


LOG = ("set", "base", "who", "when", "commit", "machine", "result", "corpus.jsonl")
"""The columns of the log."""


def _log_row(run: Mapping[str, Any]) -> dict[str, str]:
    """Return one run as a row of the log, with a shortened hash."""
    before, after = (run["rows"][row][NDCG][0] for row in (BASE, ADAPTED))
    return {
        "set": run["set"],
        "base": run["base"],
        "who": run["by"],
        "when": run["date"],
        "commit": run["commit"],
        "machine": run["machine"],
        "result": f"{before:.2f} to {after:.2f}: {run['selected'][ADAPTED]}",
        "corpus.jsonl": f"`{run['files'][FILES[0]][:12]}`",
    }


if __name__ == "__main__":
    main()
