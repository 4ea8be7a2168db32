"""docs/results/whitening.md: whitening by dropout pairs, for a corpus of single sentences.

    python benchmarks/dropout_whitening.py CORPUS STS_FOLDER

CORPUS is a text file with a sentence a line, STS_FOLDER the seven sets in SentEval's layout. A
dropout pair is one sentence encoded twice under the model's own dropout. The base model is
all-MiniLM-L6-v2 with mean and with [CLS] pooling.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from sentence_transformers.sentence_transformer.modules import Pooling

from common import draw
from isospace.adaptation.fitting import drop_normalize, fit_rows, through
from isospace.config import CorpusConfig
from isospace.corpus.corpus import load_corpus
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.evaluation.pairs import Encode, remembering
from isospace.evaluation.retrieval import evaluate_retrieval, halves
from isospace.evaluation.sts import evaluate_sts, load_sts
from isospace.operators.fitted_whitening import Moments, PairMoments, Whitening, WhiteningMap
from isospace.report.tables import mean_sd
from isospace.system.files import cache_folder
from isospace.system.tables import markdown_table
from whitening_study import PAGE, SENTENCES, STARTS

SEEDS = (0, 1, 2)
TOTAL = (0.0, 1.0)
DROPOUT = (1.0,)
HALVES = "halves"
COLUMNS = ("STS12", "Avg", HALVES)


def main() -> None:
    """Fit every map, score it on the STS sets and draw the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("sts", type=Path, metavar="STS_FOLDER")
    options = parser.parse_args()
    encoder = load_encoder("minilm")
    drop_normalize(encoder)
    # Both poolings from one pass: a vector is the mean, then the [CLS] state.
    encoder.model[1] = Pooling(encoder.dim, STARTS)
    corpus = load_corpus(CorpusConfig(corpus=(str(options.corpus),)), cache_folder())
    texts = [corpus[int(row)] for row in fit_rows(corpus, 1, SENTENCES)]
    sets = {name: one.test_only() for name, one in load_sts(options.sts).items()}
    validation = halves(corpus.held_out(corpus.validation))
    encode = remembering(encoder.embed)
    clean = torch.from_numpy(encoder.embed(texts))
    views = [_views(encoder, texts, seed) for seed in SEEDS]
    rows = []
    for start, part in _parts(encoder.dim).items():
        pooled = encode.each(partial(_columns, part))
        maps = _maps(clean[:, part], [[view[:, part] for view in own] for own in views])
        for name, fitted in maps.items():
            scores: dict[str, list[float]] = {}
            for own in (through(pooled, one) for one in fitted):
                found = evaluate_sts(own, sets).paper_row()
                found[HALVES] = 100 * evaluate_retrieval(own, validation).mrr
                for column, score in found.items():
                    scores.setdefault(column, []).append(score)
            cells = {column: mean_sd(scores[column]).split()[0] for column in COLUMNS}
            rows.append({"pooling": start, "fitted on": name} | cells)
            print(rows[-1], flush=True)
    draw(PAGE, {"dropout pairs": markdown_table(rows)})


def _parts(width: int) -> dict[str, slice]:
    """Return the columns of each pooling's vectors."""
    one = width // len(STARTS)
    return {start: slice(place * one, (place + 1) * one) for place, start in enumerate(STARTS)}


def _columns(part: slice, encode: Encode) -> Encode:
    """Return the encoder that gives some columns of the vectors."""
    return lambda texts: encode(texts)[:, part]


def _views(encoder: Encoder, texts: Sequence[str], seed: int) -> list[torch.Tensor]:
    """Encode texts twice under dropout."""
    torch.manual_seed(seed)
    return [torch.from_numpy(encoder.embed(texts, dropout=None)) for _ in range(2)]


def _maps(
    clean: torch.Tensor, views: Sequence[Sequence[torch.Tensor]]
) -> dict[str, Sequence[WhiteningMap | None]]:
    """Return each row's maps, one for each seed that it depends on."""
    single = Moments.from_vectors(clean)
    pairs = [PairMoments.from_pairs(*own) for own in views]
    return {
        "base model": [None],
        **{f"texts, power {power:g}": [Whitening().fit(single, power)] for power in TOTAL},
        **{f"dropout pairs, power {power:g}": [p.fit(power) for p in pairs] for power in DROPOUT},
    }


if __name__ == "__main__":
    main()
