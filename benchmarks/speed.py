"""docs/results/speed.md: isospace against what users would pick instead, in one run.

    python benchmarks/speed.py CORPUS STS_FOLDER [--parts train encode ... scores]

CORPUS is a text file of real sentences, STS_FOLDER the seven sets in SentEval's layout. Tables go
between their markers in the page, so that a part can be measured again alone. A candidate that
fails is listed with its reason. Where there is a GPU, training runs on it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig

import dev_scores
import encoding
import families
import pair_training
import reading
import training
from common import BATCH, LENGTH, draw
from contest import Result, contest, machine
from isospace.system.files import write_text

RESULTS = Path(__file__).parent.parent / "docs" / "results"
PLAIN: dict[str, Any] = {"head": "none"}
ONE = {"isospace simcse": ("simcse", PLAIN)}
PAPERS = ONE | {
    "isospace whitenedcse, 3 views": ("whitenedcse", PLAIN),
    "isospace simcse++": ("simcse++", PLAIN),
}
OBJECTIVES = PAPERS | {
    "whitenedcse without whitening": ("whitenedcse", {**PLAIN, "whitening": "none"}),
    "isospace scd, projector 1024": ("scd", {"projector": (1024, 1024, 1024)}),
    "isospace iso": ("iso", PLAIN),
}


_NOT_SHOWN = (
    "head", "objective", "share of the bf16 product rate", "seeds 0, 1, 2",
)  # fmt: skip


def main() -> None:
    """Run the parts asked for and put their tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("sts", type=Path)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=DEFAULT)
    parser.add_argument("--page", default="speed")
    options = parser.parse_args()
    page = RESULTS / f"{options.page}.md"
    numbers = page.with_suffix(".json")
    record = json.loads(numbers.read_text()) if numbers.is_file() else {}
    for part in options.parts:
        print(f"{part} ...", file=sys.stderr, flush=True)
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        began = time.monotonic()
        record[part] = {"machine": machine(), "tables": PARTS[part](options)}
        record[part]["minutes"] = round((time.monotonic() - began) / 60, 1)
        write_text(numbers, json.dumps(record, indent=1) + "\n")
        draw(page, sections(record))


def sections(record: dict[str, Any]) -> dict[str, str]:
    """Return the parts of the page: the machines, and the tables of each part."""
    machines: dict[str, list[str]] = {}
    for name, part in record.items():
        machines.setdefault(part["machine"], []).append(name)
    parts = {"machines": "\n".join(f"- {', '.join(n)}: {m}." for m, n in machines.items())}
    for name in PARTS:
        if name in record:
            tables = record[name]["tables"]
            tables = [families.joined(tables)] if name == "families" else tables
            parts[name] = "\n".join(_markdown(**table) for table in tables)
    return parts


def _markdown(title: str, columns: list[str], rows: list[list[str]]) -> str:
    """Return what a page shows of a table; the record has the rest."""
    shown = [place for place, name in enumerate(columns) if name not in _NOT_SHOWN]
    columns, *rows = ([line[place] for place in shown] for line in (columns, *rows))
    lines = [f"**{title}**", "", "| " + " | ".join(columns) + " |"]
    lines.append("|---" * len(columns) + "|")
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _table(
    title: str,
    results: dict[str, Result],
    reference: str,
    amount: int | None,
    unit: str,
    extra: dict[str, Callable[[Result], str]] | None = None,
) -> dict[str, Any]:
    """One line a candidate: rate (seconds, without an amount), ratio, peak memory."""
    extra = extra or {}
    rows = []
    for name, result in results.items():
        if result.failure:
            rows.append([name, result.failure, *[""] * (2 + len(extra))])
            continue
        ratios = ""
        if not results[reference].failure:
            ratio, low, high = result.ratio_to(results[reference])
            ratios = f"{ratio:.2f} ({low:.2f} to {high:.2f})"
        rows.append(
            [
                name,
                f"{amount / result.median:.0f}" if amount else f"{result.median:.0f}",
                ratios,
                f"{result.peak_mb:,.0f}",
                *(show(result) for show in extra.values()),
            ]
        )
    columns = ["", f"{unit} a second" if amount else unit, f"times {reference}", "peak MB", *extra]
    return {"title": title, "columns": columns, "rows": rows}


def _train(options: argparse.Namespace) -> list[dict[str, Any]]:
    tables = []
    with tempfile.TemporaryDirectory() as folder:
        base = str(training.random_model(BertConfig(), Path(folder)))
        on_gpu = torch.cuda.is_available()
        settings = (
            ("minilm", "minilm", OBJECTIVES, 100 if on_gpu else 3, 3),
            ("BERT-base, random", base, PAPERS if on_gpu else ONE, 100 if on_gpu else 1, 2),
        )
        for title, model, objectives, steps, rounds in settings:
            peer = "sentence-transformers"
            results = contest(
                {peer: (training.peer, (model, options.corpus, steps))}
                | {name: (training.ours, (model, objective, fields, options.corpus, steps))
                   for name, (objective, fields) in objectives.items()},
                rounds,
            )  # fmt: skip
            # The machine's best: one candidate may have met a slow moment.
            rate = max(r.notes.get("rate", 0.0) for r in results.values())
            extra: dict[str, Callable[[Result], str]] = {
                "share of the bf16 product rate": partial(_share, steps=steps, rate=rate),
                "head": partial(_part_of_step, part="head", steps=steps),
                "objective": partial(_part_of_step, part="objective", steps=steps),
            }
            if on_gpu:
                extra["seconds for 10^6 sentences"] = partial(_epoch, sentences=BATCH * steps)
                extra["kernels, share of a step"] = _busy
            tables.append(
                _table(
                    f"training {title}: batch {BATCH}, {LENGTH} tokens, bf16",
                    results,
                    peer,
                    BATCH * steps,
                    "sentences",
                    extra,
                )
            )
        if not on_gpu:
            tables.append(_train_float32(options.corpus))
    return tables


def _train_float32(corpus: Path) -> dict[str, Any]:
    """What a machine without bf16 does."""
    peer, steps = "sentence-transformers", 3
    results = contest(
        {
            peer: (training.peer, ("minilm", corpus, steps, False)),
            "isospace simcse": (
                training.ours,
                ("minilm", "simcse", PLAIN, corpus, steps, "float32"),
            ),
        },
        rounds=3,
    )
    title = f"training minilm: batch {BATCH}, {LENGTH} tokens, float32"
    return _table(title, results, peer, BATCH * steps, "sentences")


def _share(result: Result, steps: int, rate: float) -> str:
    """Useful arithmetic a second (matrix products of real tokens) over the rate of one product."""
    if "flop" not in result.notes:
        return ""
    return f"{100 * result.notes['flop'] * steps / result.median / rate:.0f} %"


def _part_of_step(result: Result, part: str, steps: int) -> str:
    """Share of a step that the objective, or its head, takes."""
    if part not in result.notes:
        return ""
    return f"{100 * result.notes[part] * steps / result.median:.1f} %"


def _epoch(result: Result, sentences: int) -> str:
    """What an epoch of the papers' million sentences would take."""
    return f"{1e6 / sentences * result.median:,.0f}"


def _busy(result: Result) -> str:
    return f"{100 * result.notes['busy']:.0f} %" if "busy" in result.notes else ""


def _pairs(options: argparse.Namespace) -> list[dict[str, Any]]:
    tables = []
    for batch, tokens, mini_batch, steps in ((64, None, None, 2), (128, 4096, 32, 1)):
        parts = "at once" if tokens is None else "in parts"
        peer = f"sentence-transformers, {parts}"
        results = contest(
            {
                peer: (pair_training.peer, (options.corpus, batch, mini_batch, steps)),
                f"isospace, {parts}": (
                    pair_training.ours, (options.corpus, batch, tokens, steps)),
            },
            rounds=3,
        )  # fmt: skip
        title = (
            f"training minilm on pairs of a sentence and the next {pair_training.SENTENCES}: batch "
            f"{batch} {parts}, {pair_training.LENGTH} tokens, bf16"
        )
        tables.append(_table(title, results, peer, batch * steps, "pairs"))
    return tables


def _encode(options: argparse.Namespace) -> list[dict[str, Any]]:
    sentences = 1_000
    peer = "sentence-transformers, torch float32"
    graphs = ("ONNX Runtime float32", "ONNX Runtime int8", "OpenVINO float32", "OpenVINO bf16")
    results = contest(
        {
            peer: (encoding.peer, ("float32", options.corpus, sentences)),
            "sentence-transformers, torch bf16": (
                encoding.peer, ("bfloat16", options.corpus, sentences)),
            **{g: (encoding.graph_runtime, (g, options.corpus, sentences)) for g in graphs},
            "isospace float32": (encoding.ours, ("float32", options.corpus, sentences)),
            "isospace bf16": (encoding.ours, ("bf16", options.corpus, sentences)),
        },
        rounds=3,
    )  # fmt: skip
    exact = results[peer].notes.get("vectors")
    return [
        _table(
            "encoding with minilm, sentences of mixed length, not truncated",
            results,
            peer,
            sentences,
            "sentences",
            {"lowest cosine to float32": lambda r: f"{encoding.lowest_cosine(r.notes, exact):.5f}"},
        )
    ]


PARTS: dict[str, Callable[[argparse.Namespace], list[dict[str, Any]]]] = {
    "train": _train,
    "pairs": _pairs,
    "reading": reading.tables,
    "encode": _encode,
    "scores": dev_scores.tables,
    "families": families.tables,
}

_LONG = ("reading", "scores", "families")
DEFAULT = [part for part in PARTS if part not in _LONG]
"""In 20 minutes: `scores` trains nine encoders, `families` eight base models, `reading` reads a
million rows."""

if __name__ == "__main__":
    main()
