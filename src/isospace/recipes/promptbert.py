"""PromptBERT's rows."""

from __future__ import annotations

from isospace.objectives import PromptBERT
from isospace.recipes.base import Recipe, setting, sts

_NOTE = (
    "Mean of 10 seeds; the average has a standard deviation of {}. The paper's vector is the state "
    "at the mask token of the first template, without MLP and denoising; its checkpoints are "
    "chosen with denoising. `max_length` is that of the sentence without the template."
).format

PROMPTBERT: dict[str, Recipe] = {
    "promptbert-bert-base": Recipe(
        setting(PromptBERT(), batch_size=256, learning_rate=1e-5),
        "PromptBERT, STS",
        sts(71.56, 84.58, 76.98, 84.47, 80.60, 81.60, 69.87, 78.54),
        f"{_NOTE(0.15)} The mean of the published columns is 78.52, not their average.",
    ),
    "promptbert-roberta-base": Recipe(
        setting(
            PromptBERT(
                first="This sentence : ' {} ' means [MASK].",
                second="The sentence : ' {} ' means [MASK].",
            ),
            "roberta-base",
            batch_size=256,
            learning_rate=1e-5,
        ),
        "PromptBERT, STS",
        sts(73.94, 84.74, 77.28, 84.99, 81.74, 81.88, 69.50, 79.15),
        _NOTE(0.25),
    ),
}
