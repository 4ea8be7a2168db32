"""Compare three objectives on your own text and print the table for a LaTeX paper.

    python compare_objectives.py notes.txt --output which

A comparison that was stopped goes on where it was, by the same command.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from isospace import OBJECTIVES, CorpusConfig, TrainConfig, compare
from isospace.report.tables import comparison_table
from isospace.system.tables import write_tables

if __name__ == "__main__":
    parser = ArgumentParser(description="Compare three objectives; print the table as LaTeX.")
    parser.add_argument("corpus", help="a file or folder of text")
    parser.add_argument("--model", default="minilm", help="the base model")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=16_000, help="to train each run on")
    parser.add_argument("--output", type=Path, default=Path("which"), help="a new folder")
    arguments = parser.parse_args()

    candidates = {
        name: TrainConfig(
            text=CorpusConfig(corpus=arguments.corpus),
            objective=OBJECTIVES[name](),
            model=arguments.model,
            budget=(arguments.sentences, "sentences"),
        )
        for name in ("simcse", "whitenedcse", "simcse++")
    }
    results = compare(candidates, seeds=arguments.seeds, folder=arguments.output)
    print(results.verdict.text)
    files = write_tables([comparison_table("objectives", results)], arguments.output / "table.html")
    print(next(file for file in files if file.suffix == ".tex").read_text(encoding="utf-8"))
