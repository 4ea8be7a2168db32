"""The table of objectives. A new row is a new file, one line here, and its test."""

from __future__ import annotations

from isospace.objectives.barlow_twins import BarlowTwins, RankStudy
from isospace.objectives.base import Objective
from isospace.objectives.covariance_identity import CovarianceIdentity
from isospace.objectives.diffcse import DiffCSE
from isospace.objectives.esimcse import ESimCSE
from isospace.objectives.iso import Iso
from isospace.objectives.noise_study import NoiseStudy
from isospace.objectives.scd import SCD
from isospace.objectives.simcse import SimCSE
from isospace.objectives.simcsepp import DCL, OffDropout, SimCSEPP
from isospace.objectives.tsdae import TSDAE
from isospace.objectives.whitenedcse import WhitenedCSE

__all__ = [
    "DCL",
    "OBJECTIVES",
    "SCD",
    "TSDAE",
    "BarlowTwins",
    "CovarianceIdentity",
    "DiffCSE",
    "ESimCSE",
    "Iso",
    "NoiseStudy",
    "Objective",
    "OffDropout",
    "RankStudy",
    "SimCSE",
    "SimCSEPP",
    "WhitenedCSE",
]

OBJECTIVES: dict[str, type[Objective]] = {
    "simcse": SimCSE,
    "whitenedcse": WhitenedCSE,
    "scd": SCD,
    "off-dropout": OffDropout,
    "dcl": DCL,
    "simcse++": SimCSEPP,
    "noise-study": NoiseStudy,
    "rank-study": RankStudy,
    "barlow-twins": BarlowTwins,
    "covariance-identity": CovarianceIdentity,
    "esimcse": ESimCSE,
    "tsdae": TSDAE,
    "diffcse": DiffCSE,
    "iso": Iso,
}
