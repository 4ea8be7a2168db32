"""ESimCSE's rows."""

from __future__ import annotations

from isospace.objectives import ESimCSE
from isospace.recipes.base import Recipe, average, setting, sts, weights


def _note(name: str) -> str:
    return (
        "Others got less than half a point by the repetition alone. In the released code the "
        "momentum network begins with random weights, here with the base model's. "
        f"{weights(f'ffgcc/esimcse-{name}')}"
    )


ESIMCSE: dict[str, Recipe] = {
    "esimcse-bert-base": Recipe(
        setting(ESimCSE()),
        "ESimCSE, STS",
        sts(73.40, 83.27, 77.25, 82.66, 78.81, 80.17, 72.30, 78.27),
        _note("bert-base-uncased"),
    ),
    "esimcse-bert-large": Recipe(
        setting(ESimCSE(), "bert-large-uncased", learning_rate=1e-5),
        "ESimCSE, STS",
        sts(73.21, 85.37, 77.73, 84.30, 78.92, 80.73, 74.89, 79.31),
        _note("bert-large-uncased"),
    ),
    "esimcse-roberta-base": Recipe(
        setting(ESimCSE(repetition_rate=0.30), "roberta-base", learning_rate=1e-5),
        "ESimCSE, STS",
        sts(69.90, 82.50, 74.68, 83.19, 80.30, 80.99, 70.54, 77.44),
        _note("roberta-base"),
    ),
    "esimcse-roberta-large": Recipe(
        setting(
            ESimCSE(repetition_rate=0.28, queue_size=128),
            "roberta-large",
            learning_rate=1e-5,
            dropout=0.15,
        ),
        "ESimCSE, STS",
        average(79.45),
        f"Only the average is known to us. {_note('roberta-large')}",
    ),
}
