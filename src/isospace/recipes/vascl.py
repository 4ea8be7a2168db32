"""VaSCL's rows."""

from __future__ import annotations

from isospace.objectives import VaSCL
from isospace.recipes.base import Recipe, average, setting, weights


def _vascl(model: str, published: float, note: str) -> Recipe:
    return Recipe(
        setting(
            VaSCL(),
            model,
            batch_size=1024,
            learning_rate=5e-6,
            epochs=5.0,
            every=100,
            pooling="mean",
        ),
        "VaSCL, results",
        average(published),
        f"{note} No row of BERT and no re-run are known to us. The released code has Adam at a "
        "constant rate, 100 times higher for the head (the README's command 100,000 times); here "
        f"both fall together. {weights(f'aws-ai/vascl-{model}', 'mean')}",
    )


VASCL: dict[str, Recipe] = {
    "vascl-roberta-base": _vascl(
        "roberta-base",
        76.96,
        "STS12-16 are 69.02, 82.38, 73.93, 82.54, 80.96; of STS-B and SICK-R only the average is "
        "known to us.",
    ),
    "vascl-roberta-large": _vascl(
        "roberta-large",
        79.04,
        "Only the average is known to us; the learning rate is not verified: here that of base.",
    ),
}
