"""Recipes of SCD: results, the released command, and each term alone."""

from __future__ import annotations

from isospace.config import TrainConfig
from isospace.objectives import SCD
from isospace.recipes.base import Recipe, Reruns, setting, sts, transfer

_NOTE = (
    "The authors' log peaks at 0.798 on the dev set and falls to 0.57 before the epoch ends, so "
    "that frequent evaluations are part of the method. As in the released command, SICK-R dev "
    "chooses, every 250 updates."
)
_THREAD = "https://github.com/SAP-samples/acl2022-self-contrastive-decorrelation/issues/5"


def _scd(objective: SCD, model: str = "bert-base-uncased") -> TrainConfig:
    return setting(objective, model, batch_size=192, every=250, labels="sickr-dev")


def _term(objective: SCD, note: str, sts12_16: float, stsb: float, sickr: float) -> Recipe:
    return Recipe(
        _scd(objective),
        "SCD, ablation",
        {"STS12-16": sts12_16, "STS-B": stsb, "SICK-R": sickr},
        f"{note} STS12-16 is the mean of the five; no average of the seven is published.",
    )


SCD_ROWS: dict[str, Recipe] = {
    "scd-bert-base": Recipe(
        _scd(SCD()),
        "SCD, STS and transfer",
        sts(66.94, 78.03, 69.89, 78.73, 76.23, 76.30, 73.18, 74.19),
        f"In the ablation this row is both terms. {_NOTE} The published SUBJ of 99.56 is not a "
        "test accuracy (94 to 96 is usual); scd-bert-base-released has the README's numbers.",
        transfer(73.21, 85.80, 99.56, 88.67, 85.89, 89.80, 75.71, 85.52),
        reruns=Reruns("a user of the released code: below 72", _THREAD),
    ),
    "scd-roberta-base": Recipe(
        _scd(
            SCD(
                decorrelation_weight=0.0033,
                off_diagonal_weight=0.028,
                low_dropout=0.065,
                high_dropout=0.24,
            ),
            "roberta-base",
        ),
        "SCD, STS and transfer",
        sts(63.53, 77.79, 69.79, 80.21, 77.29, 76.55, 72.10, 73.89),
        _NOTE,
        transfer(82.17, 87.76, 93.67, 85.69, 88.19, 83.40, 76.23, 85.30),
        reruns=Reruns("a user of the released code: about 70", _THREAD),
    ),
    "scd-bert-base-released": Recipe(
        _scd(
            SCD(
                temperature=0.05,
                decorrelation_weight=0.005225,
                off_diagonal_weight=0.012,
                high_dropout=0.155,
            )
        ),
        "SCD, README",
        {},
        "The command of the authors' README: a temperature on the self-contrast makes the "
        f"decorrelation weigh 19 times less than the paper says. {_NOTE}",
        transfer(79.26, 84.85, 93.57, 89.13, 85.23, 83.60, 74.84, 84.35),
    ),
    "scd-bert-base-self-contrast": _term(
        SCD(decorrelation_weight=0.0, projector=()),  # no term reads the projector
        "L_S alone, which only pushes the views apart.",
        35.70,
        23.59,
        49.88,
    ),
    "scd-bert-base-decorrelation": _term(
        SCD(self_contrast_weight=0.0), "L_C alone.", 66.48, 67.57, 67.97
    ),
}
