"""GS-InfoNCE's rows."""

from __future__ import annotations

from isospace.objectives import GSInfoNCE
from isospace.recipes.base import Recipe, average, setting, weights


def _gs_infonce(
    model: str,
    learning_rate: float,
    published: float,
    *,
    batch_size: int = 64,
    dropout: float | None = None,
) -> Recipe:
    return Recipe(
        setting(
            GSInfoNCE(),
            model,
            batch_size=batch_size,
            learning_rate=learning_rate,
            dropout=dropout,
        ),
        "GS-InfoNCE, README",
        average(published),
        "Only the average is known to us, and no re-run. The settings are the released script's. "
        f"{weights(f'ffgcc/gsInfoNCE-{model}')}",
    )


GS_INFONCE: dict[str, Recipe] = {
    "gs-infonce-bert-base": _gs_infonce("bert-base-uncased", 3e-5, 77.63, dropout=0.2),
    "gs-infonce-bert-large": _gs_infonce("bert-large-uncased", 1e-5, 78.96, dropout=0.2),
    "gs-infonce-roberta-base": _gs_infonce("roberta-base", 1e-5, 77.74),
    "gs-infonce-roberta-large": _gs_infonce("roberta-large", 2e-5, 79.21, batch_size=128),
}
