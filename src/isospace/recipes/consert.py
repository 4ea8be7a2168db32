"""ConSERT's rows."""

from __future__ import annotations

from isospace.config import TrainConfig
from isospace.objectives import ConSERT
from isospace.recipes.base import Recipe, setting, sts

_CORPUS = (
    "the texts of STS12-16, STS-B and SICK-R, test sets included, without scores: 89,192 sentences"
)
_NOTE = (
    "Trained on the texts of the tests, so no row to compare with others. The paper trains the "
    "mean over tokens of the last layer and is scored by that of the last two (isospace evaluate "
    "RUN with `pooling` last2). It warms up for 10 % of the updates and stops after 10 evaluations "
    "without a gain; here neither."
)


def _consert(objective: ConSERT, model: str, *, epochs: float, every: int) -> TrainConfig:
    return setting(
        objective,
        model,
        batch_size=96,
        learning_rate=5e-7,
        epochs=epochs,
        sentences=89_192,
        every=every,
        pooling="mean",
        max_length=64,
    )


CONSERT: dict[str, Recipe] = {
    "consert-bert-base": Recipe(
        _consert(ConSERT(), "bert-base-uncased", epochs=10, every=200),
        "ConSERT, STS",
        sts(64.64, 78.49, 69.07, 79.72, 75.95, 73.97, 67.31, 72.74),
        f"No re-run by others is known to us. {_NOTE}",
        corpus=_CORPUS,
    ),
    "consert-bert-large": Recipe(
        _consert(
            ConSERT(first="none", second="shuffle", with_dropout=True),
            "bert-large-uncased",
            epochs=25,
            every=100,
        ),
        "ConSERT, STS",
        sts(70.69, 82.96, 74.13, 82.78, 76.66, 77.53, 70.37, 76.45),
        "The authors' re-run with sentences of 40 tokens has the same average. As in the released "
        f"script one view is shuffled, the other only under dropout. {_NOTE}",
        corpus=_CORPUS,
    ),
}
