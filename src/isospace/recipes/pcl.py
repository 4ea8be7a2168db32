"""PCL's rows."""

from __future__ import annotations

from isospace.objectives import PCL
from isospace.recipes.base import Recipe, setting, sts, transfer, weights


def _pcl(
    model: str,
    published: dict[str, float],
    accuracies: dict[str, float],
    paper: float,
    note: str = "Hyper-parameters are published for BERT-base only, and are used here.",
) -> Recipe:
    return Recipe(
        setting(PCL(), model),
        "PCL, README",
        published,
        f"The README's evaluation of the released weights; the paper has {paper}. {note} The "
        "README's command has batch 64, its script 256. The numbers were made with `variant` "
        f"released. {weights(f'qiyuw/pcl-{model}')}",
        accuracies,
    )


PCL_ROWS: dict[str, Recipe] = {
    "pcl-bert-base": _pcl(
        "bert-base-uncased",
        sts(73.87, 82.60, 75.71, 82.67, 80.22, 79.55, 72.12, 78.11),
        transfer(80.11, 85.27, 94.22, 89.15, 85.50, 87.40, 76.12, 85.40),
        78.14,
        "No re-run by others is known to us.",
    ),
    "pcl-bert-large": _pcl(
        "bert-large-uncased",
        sts(74.92, 86.01, 78.92, 85.11, 80.06, 81.33, 73.53, 79.98),
        transfer(82.45, 87.84, 95.04, 89.61, 87.81, 93.00, 75.94, 87.38),
        79.94,
    ),
    "pcl-roberta-base": _pcl(
        "roberta-base",
        sts(70.54, 83.25, 75.73, 83.46, 81.81, 81.83, 69.27, 77.98),
        transfer(81.86, 87.55, 92.98, 87.20, 87.26, 85.20, 76.46, 85.50),
        77.91,
    ),
    "pcl-roberta-large": _pcl(
        "roberta-large",
        sts(72.76, 84.72, 77.49, 85.03, 81.78, 83.26, 73.49, 79.79),
        transfer(84.49, 89.06, 94.67, 89.26, 89.07, 94.20, 74.90, 87.95),
        79.34,
    ),
}
