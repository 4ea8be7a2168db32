"""DiffCSE's rows: one setting for STS, another for transfer."""

from __future__ import annotations

from isospace.config import TrainConfig
from isospace.objectives import DiffCSE
from isospace.recipes.base import Recipe, setting, sts, transfer, weights

_RERUNS = (
    "Others got 77.0 to 77.4 with the official script, SimCSE++ 77.25 (69.41, 82.47, 74.52, 82.82, "
    "80.06, 79.39, 72.05); the authors call it sensitive to the device."
)
_TRANSFER = "lambda, mask rate and learning rate are the authors' for transfer."


def _diffcse(objective: DiffCSE, model: str, learning_rate: float) -> TrainConfig:
    return setting(objective, model, learning_rate=learning_rate, epochs=2.0)


DIFFCSE: dict[str, Recipe] = {
    "diffcse-bert-base": Recipe(
        _diffcse(DiffCSE(generator="distilbert-base-uncased"), "bert-base-uncased", 7e-6),
        "DiffCSE, STS",
        sts(72.28, 84.43, 76.47, 83.90, 80.54, 80.59, 71.23, 78.49),
        f"{_RERUNS} {weights('voidism/diffcse-bert-base-uncased-sts')}",
        published_dev=84.56,
    ),
    "diffcse-roberta-base": Recipe(
        _diffcse(DiffCSE(mask_rate=0.2, generator="distilroberta-base"), "roberta-base", 1e-5),
        "DiffCSE, STS",
        sts(70.05, 83.43, 75.49, 82.81, 82.12, 82.38, 71.19, 78.21),
        f"No re-run is known to us. {weights('voidism/diffcse-roberta-base-sts')}",
    ),
    "diffcse-bert-base-transfer": Recipe(
        _diffcse(
            DiffCSE(detection_weight=0.05, mask_rate=0.15, generator="distilbert-base-uncased"),
            "bert-base-uncased",
            2e-6,
        ),
        "DiffCSE, transfer",
        {},
        f"{_TRANSFER} {weights('voidism/diffcse-bert-base-uncased-trans')}",
        transfer(82.69, 87.23, 95.23, 89.28, 86.60, 90.40, 76.58, 86.86),
    ),
    "diffcse-roberta-base-transfer": Recipe(
        _diffcse(
            DiffCSE(detection_weight=0.05, mask_rate=0.15, generator="distilroberta-base"),
            "roberta-base",
            3e-6,
        ),
        "DiffCSE, transfer",
        {},
        f"{_TRANSFER} {weights('voidism/diffcse-roberta-base-trans')}",
        transfer(82.82, 88.61, 94.32, 87.71, 88.63, 90.40, 76.81, 87.04),
    ),
}
