"""SBERT's rows: supervised, so in no table of the others, but the start of some."""

from __future__ import annotations

from dataclasses import replace

from isospace.objectives import SBERTSoftmax
from isospace.recipes.base import Recipe, setting, sts

_NOTE = (
    "Supervised. `corpus` has the pairs in the columns sentence1 and sentence2, and in label what "
    "they are to each other; rows without a gold label are to be removed. The paper warms up for a "
    "tenth of the updates, and its script looks at STS-B dev every 1,000; here there is no warm-up."
)


def _sbert(model: str, published: dict[str, float], note: str = _NOTE) -> Recipe:
    config = setting(
        SBERTSoftmax(),
        model,
        batch_size=16,
        learning_rate=2e-5,
        sentences=941_000,
        every=1000,
        columns=("sentence1", "sentence2"),
        pooling="mean",
        max_length=128,
    )
    config = replace(config, text=replace(config.text, label_column="label"))
    corpus = "the pairs of SNLI and MultiNLI with their labels"
    return Recipe(config, "SBERT, Table 1", published, note, corpus=corpus)


SBERT: dict[str, Recipe] = {
    "sbert-bert-base": _sbert(
        "bert-base-uncased",
        sts(70.97, 76.53, 73.19, 79.09, 74.30, 77.03, 72.91, 74.89),
        f"{_NOTE} The mean of the published columns is 74.86.",
    ),
    "sbert-bert-large": _sbert(
        "bert-large-uncased", sts(72.27, 78.46, 74.90, 80.99, 76.25, 79.23, 73.75, 76.55)
    ),
}
