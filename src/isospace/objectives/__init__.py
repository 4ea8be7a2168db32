"""The table of objectives. A new row is a new file, one line here, and its test."""

from __future__ import annotations

from isospace.objectives.arccse import ArcCSE
from isospace.objectives.barlow_twins import BarlowTwins, RankStudy
from isospace.objectives.base import Objective
from isospace.objectives.covariance_identity import CovarianceIdentity
from isospace.objectives.gs_infonce import GSInfoNCE
from isospace.objectives.iso import Iso
from isospace.objectives.mixcse import MixCSE
from isospace.objectives.noise_study import NoiseStudy
from isospace.objectives.scd import SCD
from isospace.objectives.simcse import SimCSE
from isospace.objectives.simcsepp import DCL, OffDropout, SimCSEPP
from isospace.objectives.vascl import VaSCL
from isospace.objectives.vicreg import VICReg
from isospace.objectives.whitenedcse import WhitenedCSE

__all__ = [
    "DCL",
    "OBJECTIVES",
    "SCD",
    "ArcCSE",
    "BarlowTwins",
    "CovarianceIdentity",
    "GSInfoNCE",
    "Iso",
    "MixCSE",
    "NoiseStudy",
    "Objective",
    "OffDropout",
    "RankStudy",
    "SimCSE",
    "SimCSEPP",
    "VICReg",
    "VaSCL",
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
    "vicreg": VICReg,
    "covariance-identity": CovarianceIdentity,
    "mixcse": MixCSE,
    "gs-infonce": GSInfoNCE,
    "arccse": ArcCSE,
    "vascl": VaSCL,
    "iso": Iso,
}
