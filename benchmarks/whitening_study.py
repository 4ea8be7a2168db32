"""docs/results/whitening.md: how far to whiten, and does `--power auto` find it?

    python benchmarks/whitening_study.py WIKI MIXED CAPTIONS

Four domains (docstrings of the installed packages, two files of sentences, image captions), two
starts (all-MiniLM-L6-v2 from mean and from [CLS] pooling). Every power is fitted on each domain and
scored on the test pairs of each. CAPTIONS holds five blocks of captions of the same images; a
caption and the one in the next block are a pair.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import Pooling

from common import draw
from isospace.adaptation.fitting import drop_normalize, fit_rows, through
from isospace.adaptation.whiten import name_of
from isospace.config import POWERS, CorpusConfig, Power
from isospace.corpus.corpus import load_corpus
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.evaluation.benchmark import Benchmark, natural_pairs
from isospace.evaluation.pairs import Encode, TextPairs, remembering
from isospace.evaluation.retrieval import evaluate_retrieval, halves
from isospace.operators.fitted_whitening import Moments, Whitening, WhiteningMap
from isospace.statistics.gains import gain
from isospace.system.files import cache_folder
from isospace.system.tables import markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "results" / "whitening.md"
STARTS = ("mean", "cls")
SENTENCES, PAIRS, BLOCKS = 4000, 1000, 5
FEW = 500
CUT = 128
SETTINGS: dict[str, tuple[Whitening, float]] = {
    "power 0.5": (Whitening(), 0.5),
    "power 0.5, no shrinkage": (Whitening(shrinkage=0.0), 0.5),
    "power 1": (Whitening(), 1.0),
    "power 1, no shrinkage (BERT-whitening)": (Whitening(shrinkage=0.0), 1.0),
    f"{CUT} dimensions, power 0": (Whitening(dim=CUT), 0.0),
    f"{CUT} dimensions, power 0.5": (Whitening(dim=CUT), 0.5),
}
SHOWN: tuple[Power, ...] = (None, 0.0, 0.5, 1.0)
"""Powers that have a column."""

Row = list[str]
Maps = Mapping[Power, WhiteningMap | None]


@dataclass(frozen=True)
class Domain:
    """Text of one kind, in disjoint parts."""

    fit: Sequence[str]
    validation: TextPairs
    test: TextPairs


def main() -> None:
    """Encode once, then fit, select and score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("wiki", "mixed", "captions"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    encoder = load_encoder("minilm")
    drop_normalize(encoder)
    # Both poolings from one pass: their vectors are concatenated.
    encoder.model[1] = Pooling(encoder.dim, STARTS)
    with tempfile.TemporaryDirectory() as folder:
        corpora = {
            "docstrings": CorpusConfig(corpus=("docstrings",)),
            "wiki": CorpusConfig(corpus=(str(options.wiki),)),
            "mixed": CorpusConfig(corpus=(str(options.mixed),)),
            "captions": _captions(options.captions, Path(folder)),
        }
        domains = {name: _domain(config) for name, config in corpora.items()}
    encode = remembering(encoder.embed)
    parts: dict[str, str] = {}
    other: list[Row] = [["tested on", "fitted on"]]
    for start in STARTS:
        encode_start = _of_start(encode, encoder, start)
        maps = {name: _fit(encode_start, domain) for name, domain in domains.items()}
        parts[f"own {start}"] = _own(encode_start, domains, maps)
        title = f"from {'mean' if start == 'mean' else '[CLS]'} pooling"
        _beside(other, [title], _other(encode_start, domains, maps, start == "mean"))
        if start == "mean":
            parts["settings"] = _settings(encode_start, domains)
    draw(PAGE, parts | {"other": _table(*other)})


def _beside(table: list[Row], head: Row, rows: dict[tuple[str, ...], Row]) -> None:
    """Append the cells of a pooling to those of the other."""
    table[0] += head
    if len(table) == 1:
        table += [list(key) for key in rows]
    for line, cells in zip(table[1:], rows.values(), strict=True):
        line += cells


def _captions(path: Path, folder: Path) -> CorpusConfig:
    """Captions of the first and of the second block, image by image, as examples."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    images, rest = divmod(len(lines), BLOCKS)
    if rest:
        raise SystemExit(f"{path}: {len(lines)} lines are not {BLOCKS} blocks of equal length")
    examples = folder / "captions.jsonl"
    pairs = zip(lines[:images], lines[images : 2 * images], strict=True)
    examples.write_text("\n".join(json.dumps({"a": a, "b": b}) for a, b in pairs), "utf-8")
    return CorpusConfig(corpus=(str(examples),), columns=("a", "b"))


def _domain(config: CorpusConfig) -> Domain:
    corpus = load_corpus(config, cache_folder())
    first, second = (halves(corpus.held_out(part)) for part in (corpus.validation, corpus.test))
    rows = fit_rows(corpus, max(1, len(config.columns)), SENTENCES)
    natural = corpus.pairs
    return Domain(
        [corpus[int(row)] for row in rows],
        natural_pairs(natural.dev[:PAIRS], natural.dev_groups[:PAIRS], natural.unit)
        if natural.dev
        else first,
        natural_pairs(natural.test[:PAIRS], natural.test_groups[:PAIRS], natural.unit)
        if natural.test
        else second,
    )


def _of_start(encode: Encode, encoder: Encoder, start: str) -> Encode:
    """The vectors of one pooling."""
    width = encoder.dim // len(STARTS)
    place = STARTS.index(start) * width
    return lambda texts: encode(texts)[:, place : place + width]


def _fit(encode: Encode, domain: Domain) -> Maps:
    moments = Moments.from_vectors(torch.from_numpy(encode(domain.fit)))
    return {None: None, **{power: Whitening().fit(moments, power) for power in POWERS}}


def _best(scores: dict[Power, float]) -> Power:
    return max(scores, key=scores.__getitem__)


def _table(head: Row, *rows: Row) -> str:
    return markdown_table([dict(zip(head, cells, strict=True)) for cells in rows])


def _gain(encode: Encode, maps: Maps, domain: Domain, power: Power) -> str:
    """Return what a power gains over the model as it is."""
    if power is None:
        return "nothing to test"
    benchmark = Benchmark(domain.test.grouped(), "", {}, None, ())
    after, before = (
        benchmark.pair_scores(evaluate_retrieval(through(encode, maps[p]), benchmark.pairs))
        for p in (power, None)
    )
    return gain(after, before).points


def _mrr(encode: Encode, maps: Maps, pairs: TextPairs) -> dict[Power, float]:
    return {
        power: evaluate_retrieval(through(encode, fitted), pairs).mrr
        for power, fitted in maps.items()
    }


def _own(encode: Encode, domains: dict[str, Domain], maps: dict[str, Maps]) -> str:
    """Draw the scores of maps that are fitted and selected on the domain that is tested."""
    head = ["", *map(name_of, SHOWN), "auto", "best", "gain of auto"]
    rows = []
    for name, domain in domains.items():
        scores = _mrr(encode, maps[name], domain.test)
        picked = _best(_mrr(encode, maps[name], domain.validation))
        cells = {power: f"{100 * mrr:.2f}" for power, mrr in scores.items()}
        named = [f"{cells[power]} ({name_of(power)})" for power in (picked, _best(scores))]
        gained = _gain(encode, maps[name], domain, picked)
        rows.append([name, *(cells[power] for power in SHOWN), *named, gained])
    return _table(head, *rows)


def _other(
    encode: Encode, domains: dict[str, Domain], maps: dict[str, Maps], intervals: bool
) -> dict[tuple[str, ...], Row]:
    """Return the gains of maps that are fitted and selected on another domain."""
    rows: dict[tuple[str, ...], Row] = {}
    for name, domain in domains.items():
        for source in domains:
            if source != name:
                picked = _best(_mrr(encode, maps[source], domains[source].validation))
                found = _gain(encode, maps[source], domain, picked)
                rows[name, source] = [found if intervals else found.split()[0]]
    return rows


def _settings(encode: Encode, domains: dict[str, Domain]) -> str:
    """Other settings, fitted on the domain that is tested."""
    rows: dict[str, Row] = {name_of(None): []}
    cut = f"first {CUT} dimensions as they are"
    for domain in domains.values():
        vectors = torch.from_numpy(encode(domain.fit))
        moments = Moments.from_vectors(vectors)
        few = Moments.from_vectors(vectors[:: len(vectors) // FEW])
        tried = {name: setting.fit(moments, power) for name, (setting, power) in SETTINGS.items()}
        tried[f"power 0.5, fitted on {few.count} sentences"] = Whitening().fit(few, 0.5)
        encoders = {
            name_of(None): encode,
            cut: lambda texts: np.ascontiguousarray(encode(texts)[:, :CUT]),
        }
        encoders |= {name: through(encode, fitted) for name, fitted in tried.items()}
        for name, one in encoders.items():
            mrr = evaluate_retrieval(one, domain.test).mrr
            rows.setdefault(name, []).append(f"{100 * mrr:.2f}")
    return _table(["", *domains], *([name, *cells] for name, cells in rows.items()))


if __name__ == "__main__":
    main()
