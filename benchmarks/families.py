"""The fast path of each family against transformers' own layers, in the same loops.

Weights are random, sizes those of the families' base models, the tokenizer is minilm's.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import (
    BertConfig,
    DistilBertConfig,
    ModernBertConfig,
    MPNetConfig,
    PreTrainedConfig,
)

import encoding
import training
from common import BATCH, LENGTH
from contest import contest

UPDATES, SENTENCES, ROUNDS = 1, 200, 3
"""Of a round of training, and of encoding; counted rounds."""
DROPOUT = {"embedding_dropout": 0.1, "attention_dropout": 0.1, "mlp_dropout": 0.1}
"""Of its own ModernBERT has none, and simcse needs some."""
SPECIAL = {f"{name}_token_id": 0 for name in ("pad", "bos", "eos", "cls", "sep")}
CONFIGS: dict[str, PreTrainedConfig] = {
    "BERT-base": BertConfig(),
    "MPNet-base": MPNetConfig(),
    "DistilBERT-base": DistilBertConfig(),
    "ModernBERT-base": ModernBertConfig(**SPECIAL, **DROPOUT),
}
OWN_LAYERS, FAST = "transformers' layers", "fast path"


def tables(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Training and encoding, a line for each family."""
    work: dict[str, tuple[Callable[[str, Path], Any], int]] = {
        f"training with simcse: batch {BATCH}, {LENGTH} tokens, bf16": (_training, UPDATES * BATCH),
        "encoding in float32, sentences of mixed length": (_encoding_float32, SENTENCES),
        "encoding in bf16, sentences of mixed length": (_encoding_bf16, SENTENCES),
    }
    columns = ["", *(f"{path}, sentences a second" for path in (OWN_LAYERS, FAST)), "times faster"]
    return [
        {
            "title": f"{title}, random weights",
            "columns": columns,
            "rows": [_row(family, run, options.corpus, amount) for family in CONFIGS],
        }
        for title, (run, amount) in work.items()
    ]


def joined(measured: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one table of how many times faster each family is, a column for each kind of work."""
    columns = ["", "training, bf16", "encoding, float32", "encoding, bf16"]
    ratios = zip(*([row[-1] for row in table["rows"]] for table in measured), strict=True)
    rows = [[family, *own] for family, own in zip(CONFIGS, ratios, strict=True)]
    return {"title": "how many times as fast the fast path is", "columns": columns, "rows": rows}


def _row(family: str, run: Callable[[str, Path], Any], corpus: Path, amount: int) -> list[str]:
    """Both rates of a family, and the ratio with its lowest and highest."""
    results = contest(
        {path: (_prepare, (run, family, path, corpus)) for path in (OWN_LAYERS, FAST)}, ROUNDS
    )
    failures = [result.failure for result in results.values()]
    if any(failures):
        return [family, *failures, ""]
    rates = [f"{amount / result.median:.1f}" for result in results.values()]
    ratio, low, high = results[FAST].ratio_to(results[OWN_LAYERS])
    return [family, *rates, f"{ratio:.2f} ({low:.2f} to {high:.2f})"]


def _prepare(run: Callable[[str, Path], Any], family: str, path: str, corpus: Path) -> Any:
    """A round by one of the two paths, in a process of its own."""
    from isospace.encoders.fast import FAMILIES

    config = CONFIGS[family]
    if path == OWN_LAYERS:
        del FAMILIES[config.model_type]
    with tempfile.TemporaryDirectory() as folder:
        return run(str(training.random_model(config, Path(folder))), corpus)


def _training(model: str, corpus: Path) -> Any:
    loop = training.own_loop(model, "simcse", {"head": "none"}, corpus, "bf16")
    return training.updates(loop, UPDATES)


def _encoding_float32(model: str, corpus: Path) -> Any:
    return encoding.ours("float32", corpus, SENTENCES, model)


def _encoding_bf16(model: str, corpus: Path) -> Any:
    return encoding.ours("bf16", corpus, SENTENCES, model)
