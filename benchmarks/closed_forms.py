"""docs/results/closed-forms.md: whitening by pairs and by single texts, on six corpora.

    python benchmarks/closed_forms.py FOLDER [--only CORPUS ...]
    python benchmarks/closed_forms.py --draw

FOLDER holds the corpora as benchmarks/corpora.py makes them. Texts that maps are fitted on are cut
as training cuts them and encoded in bf16 where the machine has it; all others are encoded whole, in
float32. What was measured of a corpus is in docs/results/closed-forms.json; --draw draws the page
again from that file.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt
import torch

from common import draw
from documents import SOURCES, pairs
from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.evaluation.benchmark import hard_pairs
from isospace.evaluation.beside_bm25 import find_pairs
from isospace.evaluation.pairs import SidedEncode, TextPairs
from isospace.evaluation.retrieval import evaluate_retrieval, mrr_scores
from isospace.evaluation.vector_cache import cached
from isospace.objectives.base import View
from isospace.operators.fitted_whitening import Moments, Whitening
from isospace.operators.pair_whitening import PairMoments
from isospace.report.figures import styled
from isospace.statistics.gains import Gain, gain
from isospace.statistics.influence import Scores
from isospace.system.cache import cache_folder
from isospace.system.devices import has_bf16
from isospace.system.files import atomic_path, write_text
from isospace.system.tables import markdown_table
from isospace.training.examples import Examples
from isospace.training.prepare import Data, load_data, start_of
from isospace.whiten.fold import drop_normalize
from isospace.whiten.whiten import fit_rows, through

PAGE = Path(__file__).parent.parent / "docs" / "results" / "closed-forms.md"
RECORD = PAGE.with_suffix(".json")
PICTURE = PAGE.parents[1] / "images" / "closed-forms.svg"
POWERS = (0.25, 0.5, 0.75, 1.0)
PAIRS = (300, 1_000, 3_000, 6_000)
"""How many pairs a map is fitted on."""
USUAL = 3_000
TEXTS = (1_000, 12_000)
DROPOUT = "by dropout pairs"
TEST, VALIDATION, HARD = "test", "validation", "validation, harder"


def main() -> None:
    """Measure what is missing, then draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if options.folder is None and not options.draw:
        parser.error("give FOLDER, or --draw")
    os.environ.pop("ISOSPACE_DATA", None)
    for corpus in () if options.draw else options.only:
        record = _record()
        if corpus not in record:
            record[corpus] = _measure(corpus, options.folder)
            write_text(RECORD, json.dumps(record, indent=1) + "\n")
    _draw(_record())


def _record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def _measure(corpus: str, folder: Path) -> dict[str, Any]:
    """Return set -> row -> gain over the base model, and what BM25 and both come to."""
    config = pairs(SOURCES[corpus], folder)
    data = load_data(config, elsewhere_chooses=True)
    encoder = start_of(config)
    drop_normalize(encoder)
    encode = cached(encoder, cache_folder())
    weight = data.benchmark.choose_weight(encode, data.held_out)
    sets = {
        TEST: data.benchmark.pairs,
        VALIDATION: data.held_out.pairs,
        HARD: hard_pairs(data.corpus, data.held_out),
        **data.elsewhere.judges,
    }
    base = {name: _scores(encode, own) for name, own in sets.items()}
    ranks, beside = find_pairs(encode, sets[TEST], weight)
    del ranks
    bm25, fused = (mrr_scores(sets[TEST], own) for own in (beside.bm25, beside.fused))
    found: dict[str, Any] = {
        "base": {name: 100 * own.mean for name, own in base.items()},
        "pairs": {name: len(own) for name, own in sets.items()},
        "rows": {
            "BM25": {TEST: _points(gain(bm25, base[TEST]))},
            "base + BM25": {TEST: _points(gain(fused, base[TEST]))},
        },
    }
    for row, mapped in _rows(encoder, encode, data, config):
        own: dict[str, Any] = {
            name: _points(gain(_scores(mapped, part), base[name])) for name, part in sets.items()
        }
        _, both = find_pairs(mapped, sets[TEST], weight)
        own["hybrid over base + BM25"] = _points(gain(mrr_scores(sets[TEST], both.fused), fused))
        found["rows"][row] = own
        print(corpus, row, *(f"{name} {value[0]:+.2f}" for name, value in own.items()), flush=True)
    return found


def _points(found: Gain) -> list[float]:
    """Return the gain and the ends of its interval, in points."""
    return [round(100 * value, 3) for value in (found.mean, found.low, found.high)]


def _scores(encode: SidedEncode, own: TextPairs) -> Scores:
    return mrr_scores(own, evaluate_retrieval(encode, own))


def _rows(
    encoder: Encoder, encode: SidedEncode, data: Data, config: TrainConfig
) -> Iterator[tuple[str, SidedEncode]]:
    """Give every row, and the encoder with its map."""
    corpus, precision = data.corpus, "bf16" if has_bf16() else "float32"
    embed = partial(encoder.embed, max_length=config.max_length, precision=precision)
    first, second = Examples.of(config, corpus).related_texts(corpus, max(PAIRS))
    vectors = [
        torch.from_numpy(embed(texts, side=side))
        for texts, side in ((first, "query"), (second, "document"))
    ]

    def moments(count: int) -> PairMoments:
        rows = torch.linspace(0, len(first) - 1, min(count, len(first))).long()
        return PairMoments.of(*(side[rows] for side in vectors))

    for power in POWERS:
        yield f"by pairs, power {power:g}", through(encode, moments(USUAL).fit(power))
    for count in PAIRS:
        if count != USUAL:
            yield f"by {count:,} pairs, power 0.75", through(encode, moments(count).fit(0.75))
    for power in POWERS[:3]:
        yield f"queries alone, power {2 * power:g}", _queries(encode, moments(USUAL), power)
    for count in TEXTS:
        lines = fit_rows(corpus, 1, count)
        own = embed([corpus[int(line)] for line in lines], side="document")
        single = Moments.of(torch.from_numpy(own))
        for power in (0.5, 0.75):
            mapped = through(encode, Whitening().fit(single, power))
            yield f"by {count:,} single texts, power {power:g}", mapped
    lines = [corpus[int(line)] for line in fit_rows(corpus, 1, USUAL)]
    views = [torch.from_numpy(embed(lines, View(), side="document")) for _ in range(2)]
    for power in (0.5, 0.75):
        own_map = PairMoments.of(*views).fit(power)
        yield f"{DROPOUT}, power {power:g}", through(encode, own_map)


def _queries(encode: SidedEncode, moments: PairMoments, power: float) -> SidedEncode:
    """Return the encoder whose queries alone are mapped."""
    mapped = through(encode, moments.fit_queries(power)).queries
    return SidedEncode(mapped, encode.documents, encode.plain)


def _draw(record: Mapping[str, Any]) -> None:
    """Draw the tables and the picture of what was measured."""
    rows = list(dict.fromkeys(row for own in record.values() for row in own["rows"]))
    parts = {"gains": markdown_table([_over_corpora(record, row) for row in rows])}
    for corpus, own in record.items():
        about = ", ".join(f"{name} {value:.2f}" for name, value in own["base"].items())
        table = [
            {"": row} | {name: _cell(value) for name, value in found.items()}
            for row, found in own["rows"].items()
        ]
        pairs_of = ", ".join(f"{count:,} {name}" for name, count in own["pairs"].items())
        text = f"Base model: {about}. Pairs: {pairs_of}.\n\n{markdown_table(table)}"
        parts[corpus] = text
    draw(PAGE, parts)
    _draw_trade(record)


def _over_corpora(record: Mapping[str, Any], row: str) -> dict[str, str]:
    """Return a row of means over the corpora; squares of half-widths add."""
    cells = {"": row}
    for name in (TEST, VALIDATION, HARD, "hybrid over base + BM25", "docstrings", "definitions"):
        found = [own["rows"][row][name] for own in record.values() if name in own["rows"][row]]
        if found:
            mean = sum(value for value, _, _ in found) / len(found)
            half = sum(((high - low) / 2) ** 2 for _, low, high in found) ** 0.5 / len(found)
            cells[name] = _cell([mean, mean - half, mean + half])
    return cells


def _cell(value: list[float]) -> str:
    mean, low, high = value
    return f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"


def _draw_trade(record: Mapping[str, Any]) -> None:
    """Draw the gain on the corpus against the change on definitions, a line a corpus."""
    kinds = {"both sides": "by pairs, power {:g}", "queries alone": "queries alone, power {:g}"}
    points = [
        {
            "corpus": corpus,
            "kind": kind,
            "power": power,
            "gain": own["rows"][row][TEST][0],
            "other text": own["rows"][row]["definitions"][0],
        }
        for corpus, own in record.items()
        for kind, name in kinds.items()
        for power in (*POWERS, 1.5)
        if (row := name.format(power)) in own["rows"]
    ]
    chart = (
        alt.Chart({"values": points})
        .mark_line(point=True)
        .encode(
            alt.X("other text:Q").title("change on definitions, points of MRR"),
            alt.Y("gain:Q").title("gain on the corpus, points of MRR"),
            alt.Color("corpus:N"),
            alt.StrokeDash("kind:N")
            .title(None)
            .legend(symbolType="stroke", symbolStrokeColor="black", symbolSize=400),
            alt.Order("power:Q"),
        )
        .properties(width=420, height=320)
    )
    with atomic_path(PICTURE) as temporary:
        styled(chart).save(str(temporary), format="svg")


if __name__ == "__main__":
    main()
