"""docs/results/query-side.md: fine-tuning the encoder of queries, while documents stay.

    python benchmarks/query_side.py FOLDER [--only CORPUS ...] [--jobs 2]
    python benchmarks/query_side.py --draw

FOLDER holds the corpora as benchmarks/corpora.py makes them. Only queries pass the trained encoder.
The vectors of documents are the base model's, so that each query is compared with all training
passages at once, in one softmax over up to 12,000 of them:

    L = -log( exp(cos(q_i, d_i) / 0.05) / sum_j exp(cos(q_i, d_j) / 0.05) )

Nothing is selected: the settings were fixed beforehand. Prompts of the base model are not used in
training. A corpus that is in the record is not
measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy, normalize

from common import draw, gain_cell, mean_gain, points
from documents import SOURCES, TOKENS, pairs
from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.evaluation.hybrid import rank_pairs
from isospace.evaluation.pairs import PromptedEncoders
from isospace.evaluation.retrieval import evaluate_retrieval, mrr_scores
from isospace.evaluation.vector_cache import cached
from isospace.operators.fitted_whitening import PairMoments
from isospace.statistics.gains import gain
from isospace.statistics.influence import Scores
from isospace.system.cache import cache_folder
from isospace.system.files import write_text
from isospace.system.tables import markdown_table
from isospace.training.examples import Examples
from isospace.training.prepare import Data, load_data, start_of
from isospace.whiten.fitting import FITTED_ON
from isospace.whiten.fold import drop_normalize, through_queries

RECORD = Path(__file__).parent.parent / "docs" / "results" / "query-side.json"
PAGE = RECORD.with_suffix(".md")
PASSAGES = 12_000
TEMPERATURE, RATE, BATCH, WARM_UP, LARGEST_GRADIENT = 0.05, 3e-5, 64, 0.1, 1.0
POWERS = (0.25, 0.5)
"""Of the matrix of queries, as `adapt --queries-only` names them."""
TUNED = "fine-tuned"
TEST, HYBRID, DEFINITIONS = KINDS = "test", "hybrid", "definitions"


def main() -> None:
    """Measure what is missing, then draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if not options.draw and options.folder is None:
        parser.error("give FOLDER, or --draw")
    # STS is not measured here.
    os.environ.pop("ISOSPACE_DATA", None)
    if not options.draw:
        missing = [name for name in options.only if name not in read_record()]
        with ProcessPoolExecutor(options.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
            work = {pool.submit(measure, name, options.folder): name for name in missing}
            for future in as_completed(work):
                record = read_record() | {work[future]: future.result()}
                write_text(RECORD, json.dumps(record, indent=1) + "\n")
                print(work[future], json.dumps(record[work[future]]["rows"]), flush=True)
    draw_page(read_record())


def read_record() -> dict[str, Any]:
    """Return what was measured: corpus -> numbers."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def measure(corpus: str, folder: Path) -> dict[str, Any]:
    """Fine-tune the encoder of queries on a corpus; return the gains of all rows."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = pairs(SOURCES[corpus], folder)
    data = load_data(config, other_text_selects=True)
    base = _base_model(config)
    encode = cached(base, cache_folder())
    weight = data.benchmark.select_weight(encode, data.held_out)
    before = _scores(encode, data, weight)
    queries, passages = Examples.from_corpus(config, data.corpus).related_texts(PASSAGES)
    embed = partial(base.embed, max_length=config.max_length)
    documents = torch.from_numpy(embed(passages, side="document"))
    tuned, facts = _base_model(config), {"pairs": len(queries)}
    started = time.monotonic()
    facts |= fine_tune(tuned, queries, passages, documents, config)
    facts["seconds"] = round(time.monotonic() - started)
    rows = {}
    with TemporaryDirectory() as temporary:
        own = cached(tuned, Path(temporary))
        both = PromptedEncoders(own.queries, encode.documents, encode.plain)
        for name, row in _rows(base, tuned, encode, both, queries, documents, config):
            after = _scores(row, data, weight)
            rows[name] = {kind: points(gain(after[kind], before[kind])) for kind in before}
    return facts | {"base": before[TEST].mean, HYBRID: before[HYBRID].mean, "rows": rows}


def _base_model(config: TrainConfig) -> Encoder:
    encoder = start_of(config)
    drop_normalize(encoder)
    return encoder


def _rows(
    base: Encoder,
    tuned: Encoder,
    encode: PromptedEncoders,
    both: PromptedEncoders,
    queries: list[str],
    documents: torch.Tensor,
    config: TrainConfig,
) -> Iterator[tuple[str, PromptedEncoders]]:
    """Give the encoders of all rows: the matrix alone, fine-tuning, and the matrix behind it."""
    chosen = torch.linspace(0, len(queries) - 1, min(FITTED_ON, len(queries))).long()
    texts = [queries[int(row)] for row in chosen]
    moments = [
        PairMoments.from_pairs(
            torch.from_numpy(one.embed(texts, max_length=config.max_length, side="query")),
            documents[chosen],
        )
        for one in (base, tuned)
    ]
    power = POWERS[-1]
    yield f"matrix, power {power:g}", through_queries(encode, moments[0].fit_queries(power))
    yield TUNED, both
    for power in POWERS:
        fitted = moments[1].fit_queries(power)
        yield f"{TUNED}, then matrix, power {power:g}", through_queries(both, fitted)


def fine_tune(
    encoder: Encoder,
    queries: list[str],
    passages: list[str],
    documents: torch.Tensor,
    config: TrainConfig,
) -> dict[str, int]:
    """Train an encoder to find its passage for each query, among all distinct passages.

    Args:
        encoder: the encoder of queries; its weights change.
        queries: n texts.
        passages: the n texts that belong to the queries; equal texts count once.
        documents: (n, dim) vectors of the passages, which stay as they are.
        config: settings of the run; `max_length` cuts queries.

    Returns:
        Number of updates, and of tokens they trained on.
    """
    columns: dict[str, int] = {}
    labels = torch.tensor([columns.setdefault(text, len(columns)) for text in passages])
    firsts = np.unique(labels.numpy(), return_index=True)[1]
    targets = normalize(documents[torch.from_numpy(firsts)], dim=1)
    parameters = [one for one in encoder.parameters() if one.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=RATE)
    ids = encoder.tokens.ids(queries, config.max_length, side="query")
    order = np.random.default_rng(0).permutation(len(queries))
    tokens = np.cumsum([len(ids[row]) for row in order])
    order = order[: int(np.searchsorted(tokens, TOKENS, side="right"))]
    batches = [order[at : at + BATCH] for at in range(0, len(order) - BATCH + 1, BATCH)]
    warm = max(1, round(WARM_UP * len(batches)))
    encoder.model.train(False)  # dropout of queries would only add noise: their targets are fixed
    for step, batch in enumerate(batches):
        for group in optimiser.param_groups:
            left = (len(batches) - step) / max(1, len(batches) - warm)
            group["lr"] = RATE * min((step + 1) / warm, left)
        features = encoder.model.preprocess([queries[row] for row in batch])
        features = {
            name: value[:, : config.max_length] if torch.is_tensor(value) else value
            for name, value in features.items()
        }
        vectors = normalize(encoder.model(features)["sentence_embedding"], dim=1)
        loss = cross_entropy(vectors @ targets.T / TEMPERATURE, labels[torch.from_numpy(batch)])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, LARGEST_GRADIENT)
        optimiser.step()
    return {"updates": len(batches), "tokens": int(tokens[len(order) - 1])}


def _scores(encode: PromptedEncoders, data: Data, weight: float) -> dict[str, Scores]:
    """Return the MRR of an encoder on the test pairs, alone and with BM25, and on other text."""
    sets = {TEST: data.benchmark.pairs, **data.other_text.test_pairs}
    found = {name: mrr_scores(own, evaluate_retrieval(encode, own)) for name, own in sets.items()}
    _, with_bm25 = rank_pairs(encode, sets[TEST], weight)
    return found | {HYBRID: mrr_scores(sets[TEST], with_bm25.hybrid)}


# What follows needs no encoder.


def draw_page(record: Mapping[str, Any]) -> None:
    """Draw the means over the corpora, and each corpus."""
    if not record:
        return
    corpora = [name for name in SOURCES if name in record]
    names = list(record[corpora[0]]["rows"])
    means = []
    for name in names:
        own = {kind: [record[corpus]["rows"][name][kind] for corpus in corpora] for kind in KINDS}
        other = sum(mean for mean, _, _ in own[DEFINITIONS]) / len(corpora)
        means.append(
            {
                "": name,
                "gain": mean_gain(own[TEST]),
                HYBRID: mean_gain(own[HYBRID]),
                DEFINITIONS: f"{other:+.2f}",
            }
        )
    each = [
        {
            "corpus": corpus,
            "base model, MRR": f"{100 * record[corpus]['base']:.2f}",
            **{name: gain_cell(record[corpus]["rows"][name][TEST]) for name in names},
        }
        for corpus in corpora
    ]
    draw(PAGE, {"means": markdown_table(means), "each corpus": markdown_table(each)})


if __name__ == "__main__":
    main()
