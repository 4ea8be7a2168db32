"""docs/results/scaling.md: what several processes cost, measured to 8, and computed beyond.

    python benchmarks/scaling.py CORPUS [--steps 4]
    python benchmarks/scaling.py --draw

Every row of ROWS trains minilm for a few updates on 1, 2, 4 and 8 processes of this machine, which
share one batch. Counted is what passes through the loopback interface meanwhile, so let nothing
else use it. What was measured goes to docs/results/scaling.json; with --draw the tables are drawn
from it again. Rows that are in it are not measured again. Larger numbers are computed from sizes of
what is gathered and reduced.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from common import BATCH, LENGTH, draw
from contest import machine
from isospace.system.files import write_text
from isospace.system.tables import markdown_table
from training import own_loop, updates

PAGE = Path(__file__).parent.parent / "docs" / "results" / "scaling.md"
RECORD = PAGE.parent / "scaling.json"
ROWS = ("simcse", "whitenedcse", "scd", "esimcse", "is-bert")
COUNTS = (1, 2, 4, 8)
SENTENCES = (10**6, 10**8, 10**9)
CORE_HOUR = 0.04
"""Dollars, about what clouds ask for a core on demand; a reader puts in their own."""


def main() -> None:
    """Measure what is missing, or only draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        _work(options.work, options.corpus, options.steps)
        return
    if not options.draw:
        if options.corpus is None:
            parser.error("give CORPUS, or --draw")
        for name in ROWS:
            for count in COUNTS:
                _measure(name, count, options)
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    draw(
        PAGE,
        {"training": _measured(found), "encoding": _encoding()},
    )


def _measure(name: str, count: int, options: argparse.Namespace) -> None:
    """One row on so many processes, into the record; unless it is there."""
    record = {"machine": machine(), "batch": BATCH, "tokens": LENGTH, "rows": []}
    if RECORD.exists():
        record = json.loads(RECORD.read_text(encoding="utf-8"))
    if any((row["objective"], row["processes"]) == (name, count) for row in record["rows"]):
        return
    print(f"{name}, {count} processes", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count)]
    command += [__file__, str(options.corpus), "--steps", str(options.steps), "--work", name]
    threads = str(max(1, (os.cpu_count() or 1) // count))
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    record["rows"].append({"objective": name, "processes": count, **found})
    write_text(RECORD, json.dumps(record, indent=1) + "\n")


def _work(name: str, corpus: Path, steps: int) -> None:
    """One of the processes; the first prints what all have moved."""
    fields = {"projector": (1024, 1024, 1024)} if name == "scd" else {}
    loop = own_loop("minilm", name, fields, corpus, "bf16")
    one, seconds, moved = updates(loop, 1), [], []
    for step in range(steps + 2):  # the first are not counted: some things are made once
        _barrier()
        before = _loopback_bytes()
        took = one()
        _barrier()
        if step > 1:
            seconds.append(took)
            moved.append(_loopback_bytes() - before)
    if not dist.is_initialized() or dist.get_rank() == 0:
        trained = [p for p in loop.training.parameters if p.requires_grad]
        facts = {
            "seconds": median(seconds),
            "megabytes": median(moved) / 2**20,
            "parameters": sum(p.numel() for p in trained),
            "dim": loop.training.encoder.dim,
            "views": len(loop.training.plan.views),
            "token_views": sum(view.read == "tokens" for view in loop.training.plan.views),
        }
        print(json.dumps(facts), flush=True)
    _barrier()


def _barrier() -> None:
    if dist.is_initialized():
        dist.barrier()


def _loopback_bytes() -> int:
    """Received by the loopback interface since the machine started."""
    for line in Path("/proc/net/dev").read_text(encoding="utf-8").splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    raise RuntimeError("no loopback interface")


def _reduced(row: dict[str, Any]) -> float:
    """Bytes of all gradients, that every process sends about twice in an update."""
    return 4.0 * row["parameters"]


def _gathered(row: dict[str, Any], batch: int) -> float:
    """Bytes of what the loss of a batch reads: vectors of each view, or states of its tokens."""
    each = row["views"] - row["token_views"] + LENGTH * row["token_views"]
    return 4.0 * batch * each * row["dim"]


def _computed(row: dict[str, Any], batch: int, processes: int) -> float:
    """Megabytes of all processes together in an update.

    A reduction among W processes moves 2 (W - 1) times its size, a gather (W - 1) times. What was
    gathered comes back as a reduction of its gradient.
    """
    return (processes - 1) * (2 * _reduced(row) + 3 * _gathered(row, batch)) / 2**20


def _measured(record: dict[str, Any]) -> str:
    """Return what was moved, a row for each objective."""
    lines: dict[str, dict[str, str]] = {}
    for row in record["rows"]:
        batch, processes = record["batch"], row["processes"]
        line = lines.setdefault(row["objective"], {"objective": row["objective"]})
        if processes > 1:
            line[f"{processes} processes"] = f"{row['megabytes']:,.0f}"
        if processes == COUNTS[-1]:
            line[f"{processes} processes, computed"] = f"{_computed(row, batch, processes):,.0f}"
            line["share of vectors"] = f"{_share(row, batch):.1%}"
            half = batch * 2 * _reduced(row) / (3 * _gathered(row, batch))
            line["half at a batch of"] = f"{half:,.0f}"
    return f"Machine: {record['machine']}.\n\n{markdown_table(list(lines.values()))}"


def _share(row: dict[str, Any], batch: int) -> float:
    gathers, gradients = 3 * _gathered(row, batch), 2 * _reduced(row)
    return gathers / (gathers + gradients)


def _encoding() -> str:
    """Cost of encoding many sentences, from the rate of docs/results/speed.md."""
    speed = json.loads((PAGE.parent / "speed.json").read_text(encoding="utf-8"))
    table = speed["encode"]["tables"][0]
    rate = next(float(row[1]) for row in table["rows"] if row[0] == "isospace bf16")
    dim, cores = 384, int(speed["encode"]["machine"].split()[0])
    lines = []
    for count in SENTENCES:
        hours = count / rate * cores / 3600
        line = {"sentences of 27 tokens": f"{count:,}", "core hours": f"{hours:,.1f}"}
        line["dollars"] = f"{hours * CORE_HOUR:,.2f}"
        line["GB as float32"] = f"{count * dim * 4 / 1e9:,.2f}"
        lines.append(line)
    return markdown_table(lines)


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    main()
