"""What the trained rung of a ladder is: settings of training on pairs, by the validation pairs.

    python benchmarks/trained_rung.py FOLDER [--only CORPUS ...] [--rows ROW ...]

FOLDER holds the corpora as benchmarks/corpora.py makes them. Every setting trains once on each, for
as many tokens as take as many passes of a layer; what was found goes to
docs/results/trained-rung.json, from which the command goes on, and into the page
docs/results/domains.md. No pair that judges is read: what these trials choose is judged by
benchmarks/domains.py.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import draw
from documents import BY_RELATION, SOURCES
from isospace.adaptation.states import START, State
from isospace.config import TrainConfig
from isospace.encoders.merging import merge
from isospace.evaluation.pairs import SidedEncode
from isospace.evaluation.retrieval import evaluate_retrieval
from isospace.evaluation.vector_cache import cached
from isospace.objectives import Iso, RankCSE
from isospace.recipes import find
from isospace.statistics.gains import gain
from isospace.system.cache import cache_folder
from isospace.system.files import write_text
from isospace.system.progress import Logged
from isospace.system.signals import polite_stop
from isospace.system.tables import markdown_table
from isospace.training.fit import Fit
from isospace.training.prepare import load_data
from isospace.training.run import Run

PAGE = Path(__file__).parent.parent / "docs" / "results" / "domains.md"
RECORD = PAGE.with_name("trained-rung.json")
TOKENS = 200_000
FASTER = 1.5
"""As many tokens take as many passes of a layer where three of six train: 24 of pairs, not 36."""
STATES = (State(1.0), State(0.5))


def settings() -> dict[str, TrainConfig]:
    """The rows, each another way to train on pairs; the first is the recipe as it was.

    Those of "again" are compared among each other: since the others ran, a crop counts as many
    tokens as it has. Those of "whole passages cropped" crop all that is read of a passage; the
    others before them crop its first 64 tokens. Those of "float32" crop so too, and are
    compared among each other: what machines without bf16 do.
    """
    pairs = replace(
        find("pairs").config,
        budget=(TOKENS, "tokens"),
        learning_rate=5e-5,
        select="last",
        evaluations=1,
        seed=0,
    )
    fast = replace(pairs, learning_rate=1e-4)
    last = replace(pairs, trained_layers=3, budget=(FASTER * TOKENS, "tokens"))
    similar = replace(pairs, similar=16, learning_rate=1e-4)
    return {
        "pairs": pairs,
        "learning rate 1e-4": fast,
        "similar 16, 1e-4": similar,
        "last 3 layers, similar 16, 1e-4": replace(last, similar=16, learning_rate=1e-4),
        "iso": replace(pairs, objective=Iso(temperature=0.05)),
        "rankcse, base+bm25": replace(
            pairs, objective=RankCSE(head="none", temperature=0.05), teacher="base+bm25"
        ),
        "again: learning rate 1e-4": fast,
        "again: half the tokens": replace(fast, budget=(TOKENS / 2, "tokens")),
        "again: a quarter of the tokens": replace(fast, budget=(TOKENS / 4, "tokens")),
        "again: half the tokens, 5e-5": replace(pairs, budget=(TOKENS / 2, "tokens")),
        "again: held to the base model": replace(fast, hold_to_base=100.0),
        "whole passages cropped, 1e-4": fast,
        "whole passages cropped, 5e-5": pairs,
        "whole passages cropped, similar 16": replace(pairs, similar=16),
        "whole passages cropped, 128 tokens": replace(pairs, max_length=128),
        "whole passages cropped, iso": replace(pairs, objective=Iso(temperature=0.05)),
        "whole passages cropped, iso without clean negatives": replace(
            pairs, objective=Iso(temperature=0.05, clean_negatives=False)
        ),
        "float32": replace(pairs, precision="float32"),
        "float32, last 3 layers": replace(last, precision="float32"),
        "float32, similarities held to the base model": replace(
            pairs,
            precision="float32",
            objective=RankCSE(head="none", temperature=0.05, own_text="in"),
            teacher="start",
        ),
    }


def main() -> None:
    """Run what is missing; then draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=BY_RELATION)
    parser.add_argument("--rows", nargs="+", choices=settings(), default=list(settings()))
    options = parser.parse_args()
    found: dict[str, dict[str, Any]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for setting in options.rows:
        config = settings()[setting]
        for name in options.only:
            rows = found.setdefault(name, {})
            if setting not in rows:
                text = SOURCES[name].text(options.folder)
                rows[setting] = trial(replace(config, text=text))
                write_text(RECORD, json.dumps(found, indent=1) + "\n")
    draw(PAGE, {f"trained {name}": _table(rows) for name, rows in found.items()})


def trial(config: TrainConfig) -> dict[str, Any]:
    """Train once, and measure what comes out, and what is half-way to it, on what chooses."""
    with polite_stop() as stop, TemporaryDirectory() as folder:
        data = load_data(config, other_text_selects=True)
        fit = Fit(config, Logged(), stop, data)
        run = Run.create(replace(config, output=Path(folder, "run")))
        start = {name: w.detach().clone() for name, w in fit.encoder.model.state_dict().items()}
        with fit.holding(run, "again"):
            fit.begin()
            fit.measure_start()
            fit.go()
        trained = {name: w.detach().clone() for name, w in fit.encoder.model.state_dict().items()}
        choosers = data.held_out.pairs.grouped()
        found, before = {}, None
        for state in (START, *STATES):
            fit.encoder.model.load_state_dict(merge(start, [trained], state.share))
            if state == START:
                encode = cached(fit.encoder, cache_folder())
            else:
                encode = SidedEncode.of_prompts(fit.encoder.prompts, fit.encoder.embed)
            own = data.other_text.measure(encode, "choose")
            before = before or own
            found[state.words] = {
                "MRR": evaluate_retrieval(encode, choosers).mrr,
                **{name: gain(own[name], before[name]).mean for name in own},
            }
        seconds = [line["seconds"] for line in run.metrics() if line["kind"] == "step"]
        return {
            "updates": fit.loop.total_steps,
            "seconds": sum(seconds),
            "pairs": len(choosers),
            "states": found,
        }


def _table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """A row a setting, x 100: what is found, and what that does elsewhere.

    Where later rows were measured on other pairs the base model is told again.
    """
    lines: list[dict[str, str]] = []
    start = ""
    for setting, row in rows.items():
        found = f"{100 * row['states'][START.words]['MRR']:.2f}"
        if found != start:
            lines.append({"": "start", "MRR": found})
            start = found
        line = {"": setting}
        for state, short in zip(STATES, ("", ", half-way"), strict=True):
            values = row["states"][state.words]
            line[f"MRR{short}"] = f"{100 * values['MRR']:.2f}"
            other_text = [f"{100 * v:+.2f}" for name, v in values.items() if name != "MRR"]
            line[f"elsewhere{short}"] = ", ".join(other_text)
        lines.append({**line, "updates": str(row["updates"])})
    return markdown_table(lines)


if __name__ == "__main__":
    main()
