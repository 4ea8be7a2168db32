"""DCLR's rows."""

from __future__ import annotations

from isospace.objectives import DCLR
from isospace.recipes.base import Recipe, setting, sts

_NOTE = (
    "STS-B dev chooses, where the paper takes the mean of STS-B and SICK-R dev, of the pooler's "
    "output. The numbers were made with the loss of `variant` released; the README calls them "
    "sensitive to the environment, and no re-run is known to us."
)
_BASE = (
    "The paper starts from {}, and compares negatives by a frozen SimCSE beside it; here the "
    "frozen network is the start, so the start is SimCSE."
).format
_LARGE = (
    "As in the paper the start is SimCSE; its frozen network is SimCSE of the base model, here the "
    "start."
)


def _dclr(
    backbone: str, noise_times: float, threshold: float, learning_rate: float, *values: float
) -> Recipe:
    large = "large" in backbone
    note = _LARGE if large else _BASE(backbone)
    return Recipe(
        setting(
            DCLR(noise_times=noise_times, threshold=threshold),
            f"princeton-nlp/unsup-simcse-{backbone}",
            batch_size=256 if large else 128,
            learning_rate=learning_rate,
            epochs=1.0 if large else 3.0,
        ),
        "DCLR, STS",
        sts(*values),
        f"{note} {_NOTE}",
    )


DCLR_ROWS: dict[str, Recipe] = {
    "dclr-bert-base": _dclr(
        "bert-base-uncased", 1.0, 0.9, 3e-5,
        70.81, 83.73, 75.11, 82.56, 78.44, 78.31, 71.59, 77.22,
    ),
    "dclr-bert-large": _dclr(
        "bert-large-uncased", 3.0, 0.9, 3e-5,
        71.87, 84.83, 77.37, 84.70, 79.81, 79.55, 74.19, 78.90,
    ),
    "dclr-roberta-base": _dclr(
        "roberta-base", 2.5, 0.85, 3e-5,
        70.01, 83.08, 75.09, 83.66, 81.06, 81.86, 70.33, 77.87,
    ),
    "dclr-roberta-large": _dclr(
        "roberta-large", 5.0, 0.85, 1e-5,
        73.09, 84.57, 76.13, 85.15, 81.99, 82.35, 71.80, 79.30,
    ),
}  # fmt: skip
