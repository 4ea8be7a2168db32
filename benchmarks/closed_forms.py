"""Maps that need no training: the rows of domains.py, and docs/results/closed-forms.md.

Texts that maps are fitted on are cut as training cuts them; all others are encoded whole, all in
float32. `python benchmarks/domains.py` measures the rows and draws the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt
import torch

from common import draw, mean_gain
from isospace.adaptation.fitting import FITTED_ON, fit_rows, through, through_queries
from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.evaluation.pairs import PromptedEncoders
from isospace.operators.fitted_whitening import Moments, PairMoments, Whitening, WhiteningMap
from isospace.report.figures import styled
from isospace.system.files import atomic_path
from isospace.system.tables import markdown_table
from isospace.training.examples import Examples
from isospace.training.prepare import Data

PAGE = Path(__file__).parent.parent / "docs" / "results" / "closed-forms.md"
PICTURE = PAGE.parents[1] / "images" / "closed-forms.svg"
POWERS = (0.25, 0.5, 0.75, 1.0)
PAIRS = (300, 1_000, 3_000, 12_000)
"""How many pairs a map is fitted on."""
FEWER_OR_MORE = tuple(count for count in PAIRS if count != FITTED_ON)
TEXTS = (1_000, 12_000)
DROPOUT = "by dropout pairs"
TEST, VALIDATION, HARD = "test", "validation", "validation, harder"
HYBRID = "hybrid"
HYBRID_GAIN = "hybrid over base + BM25"
ON_EACH_CORPUS = (
    "BM25",
    "by pairs, power 0.5",
    "by pairs, power 0.75",
    "by pairs, power 1",
    "by 300 pairs, power 0.75",
    "queries alone, power 0.5",
    "by 12,000 single texts, power 0.5",
    "by dropout pairs, power 0.75",
)
CLOSED_FORMS = ("by ", "queries alone")
"""How the names of their rows begin."""
HIDDEN = (
    "by 1,000 single texts",
    "by 12,000 single texts, power 0.75",
    "by dropout pairs, power 0.5",
    "queries alone, 1,000 single texts",
)
"""How rows begin that the page does not show."""
OF_QUERIES = (
    "queries alone, power 0.5",
    *(f"queries alone, {count:,} pairs, power 0.5" for count in FEWER_OR_MORE),
    *(f"queries alone, {count:,} single texts, power 0.5" for count in TEXTS),
    "queries alone, dropout pairs, power 0.5",
    "queries alone, ridge regression",
)
"""Rows of the table of other maps of queries alone; the first is the map of `adapt`."""
_SHOWN = {"queries alone, 75% of their axes": "queries alone, projected on 75 % of their axes"}
"""Row -> its name on the page, where that is another."""
RIDGE = 0.3
"""Added to the diagonal of the queries' Gram matrix, as a share of its mean."""
KEPT = 0.75
"""Share of the principal axes of the queries that are kept."""


def rows(
    encoder: Encoder, encode: PromptedEncoders, data: Data, config: TrainConfig
) -> Iterator[tuple[str, PromptedEncoders]]:
    """Give every row, and the encoder with its map."""
    corpus = data.corpus
    embed = partial(encoder.embed, max_length=config.max_length)
    first, second = Examples.from_corpus(config, corpus).related_texts(max(PAIRS))
    pairs = [
        torch.from_numpy(embed(texts, side=side))
        for texts, side in ((first, "query"), (second, "document"))
    ]
    texts = {}
    for count in TEXTS:
        lines = [corpus[int(line)] for line in fit_rows(corpus, 1, count)]
        own = torch.from_numpy(embed(lines, side="document"))
        texts[f"{count:,} single texts"] = Moments.from_vectors(own)
    for name, fitted in _maps(pairs, texts):
        yield name, through(encode, fitted)
    for name, fitted in _query_maps(pairs, texts):
        yield f"queries alone, {name}", through_queries(encode, fitted)
    lines = [corpus[int(line)] for line in fit_rows(corpus, 1, FITTED_ON)]
    views = [torch.from_numpy(embed(lines, dropout=None, side="document")) for _ in range(2)]
    own_moments = PairMoments.from_pairs(*views)
    for power in (0.5, 0.75):
        yield f"{DROPOUT}, power {power:g}", through(encode, own_moments.fit(power))
    of_queries = through_queries(encode, own_moments.fit_queries(0.5))
    yield f"queries alone, {DROPOUT.removeprefix('by ')}, power 0.5", of_queries


def _maps(
    pairs: list[torch.Tensor], texts: Mapping[str, Moments]
) -> Iterator[tuple[str, WhiteningMap]]:
    """Give the maps of queries and documents, fitted on pairs [(n, dim)] * 2 or on texts."""
    for power in POWERS:
        yield f"by pairs, power {power:g}", _moments(pairs, FITTED_ON).fit(power)
    for count in FEWER_OR_MORE:
        yield f"by {count:,} pairs, power 0.75", _moments(pairs, count).fit(0.75)
    for name, moments in texts.items():
        for power in (0.5, 0.75):
            yield f"by {name}, power {power:g}", Whitening().fit(moments, power)


def _query_maps(
    pairs: list[torch.Tensor], texts: Mapping[str, Moments]
) -> Iterator[tuple[str, WhiteningMap]]:
    """Give the maps of queries alone, fitted on pairs [(n, dim)] * 2 or on texts."""
    for power in POWERS[:3]:
        yield f"power {power:g}", _moments(pairs, FITTED_ON).fit_queries(power)
    for count in FEWER_OR_MORE:
        yield f"{count:,} pairs, power 0.5", _moments(pairs, count).fit_queries(0.5)
    for name, moments in texts.items():
        # As `fit_queries`: the map that both sides would have, applied twice to the queries.
        kernel = Whitening().fit(moments, 0.5).kernel
        both = kernel @ kernel.T
        yield f"{name}, power 0.5", WhiteningMap(both.new_zeros(len(both)), both)
    yield "ridge regression", _regression(*pairs)
    yield f"{KEPT:.0%} of their axes", _projection(pairs[0])


def _moments(pairs: list[torch.Tensor], count: int) -> PairMoments:
    """Return the moments of this many pairs, spread evenly."""
    rows = torch.linspace(0, len(pairs[0]) - 1, min(count, len(pairs[0]))).long()
    return PairMoments.from_pairs(*(side[rows] for side in pairs))


def _projection(queries: torch.Tensor) -> WhiteningMap:
    """Return the projection on the leading principal axes of queries, (n, dim)."""
    _, axes = torch.linalg.eigh(queries.double().T @ queries.double())  # ascending
    kept = axes[:, -round(KEPT * len(axes)) :]
    return WhiteningMap(kept.new_zeros(len(axes)), kept @ kept.T)


def _regression(queries: torch.Tensor, documents: torch.Tensor) -> WhiteningMap:
    """Return the ridge regression from queries to their documents, both (n, dim)."""
    queries, documents = queries.double(), documents.double()
    gram = queries.T @ queries
    shrunk = gram + RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    return WhiteningMap(
        gram.new_zeros(len(gram)), torch.linalg.solve(shrunk, queries.T @ documents)
    )


def draw_page(record: Mapping[str, Any]) -> None:
    """Draw the tables and the picture of what was measured."""
    first, *others = (own["rows"] for own in record.values())
    names = [row for row in first if _is_row(row) and all(row in rows for rows in others)]
    means = [_over_corpora(record, row) for row in names if not row.startswith(HIDDEN)]
    each = [
        {"": row} | {corpus: f"{own['rows'][row][TEST][0]:+.2f}" for corpus, own in record.items()}
        for row in names
        if row in ON_EACH_CORPUS
    ]
    parts = {"gains": means, "each corpus": each, "queries alone": _query_map_rows(record)}
    draw(PAGE, {name: markdown_table(rows) for name, rows in parts.items()})
    _draw_trade(record)


def _query_map_rows(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the table of maps of queries alone, on the corpora where all were measured."""
    measured = {
        corpus: own["rows"]
        for corpus, own in record.items()
        if all(row in own["rows"] for row in OF_QUERIES)
    }
    table = []
    for row in OF_QUERIES:
        name = row.removeprefix("queries alone, ").removesuffix(", power 0.5")
        cells = {"": name if row != OF_QUERIES[0] else f"{FITTED_ON:,} pairs, as in `adapt`"}
        cells["mean"] = mean_gain([rows[row][TEST] for rows in measured.values()])
        cells |= {corpus: f"{rows[row][TEST][0]:+.2f}" for corpus, rows in measured.items()}
        definitions = [rows[row]["definitions"][0] for rows in measured.values()]
        table.append(cells | {"definitions": f"{sum(definitions) / len(definitions):+.2f}"})
    return table


def _is_row(row: str) -> bool:
    """Tell whether a row of domains.py is one of a closed form, or of BM25."""
    return row.startswith((*CLOSED_FORMS, "BM25", "base model"))


def _over_corpora(record: Mapping[str, Any], row: str) -> dict[str, str]:
    """Return a row of means over the corpora."""
    cells = {"": _SHOWN.get(row, row)}
    for name in (TEST, HYBRID_GAIN, "docstrings", "definitions"):
        found = [own["rows"][row][name] for own in record.values() if name in own["rows"][row]]
        if found:
            mean = mean_gain(found)
            title = {TEST: "gain", HYBRID_GAIN: "hybrid gain"}.get(name)
            cells[title or name] = mean if title else mean.split()[0]
    return cells


def _draw_trade(record: Mapping[str, Any]) -> None:
    """Draw the gain on the corpus against the change on definitions, a line a corpus."""
    kinds = {
        "queries and documents (solid)": "by pairs, power {:g}",
        "queries alone (dashed)": "queries alone, power {:g}",
    }
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
        for power in POWERS
        if (row := name.format(power)) in own["rows"]
    ]
    chart = (
        alt.Chart({"values": points})
        .mark_line(point=True)
        .encode(
            alt.X("other text:Q").title("change on definitions, points of MRR"),
            alt.Y("gain:Q").title("gain on the corpus, points of MRR"),
            alt.Color("corpus:N").scale(scheme="tableau10"),
            alt.StrokeDash("kind:N")
            .scale(domain=list(kinds), range=[[1, 0], [4, 2]])
            .title(None)
            .legend(
                symbolType="stroke",
                symbolStrokeColor="black",
                symbolStrokeWidth=2,
                symbolSize=400,
                labelLimit=0,
            ),
            alt.Order("power:Q"),
        )
        .properties(width=420, height=320)
    )
    with atomic_path(PICTURE) as temporary:
        styled(chart).save(str(temporary), format="svg")
