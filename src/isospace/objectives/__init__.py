"""The table of objectives. A new row is a new file, one line here, and its test."""

from __future__ import annotations

from isospace.errors import UserError, no_such
from isospace.objectives.arccse import ArcCSE
from isospace.objectives.barlow_twins import BarlowTwins, RankStudy
from isospace.objectives.base import Objective
from isospace.objectives.consert import ConSERT
from isospace.objectives.ct import CT, CTInBatch
from isospace.objectives.dclr import DCLR
from isospace.objectives.declutr import DeCLUTR
from isospace.objectives.diffcse import DiffCSE
from isospace.objectives.esimcse import ESimCSE
from isospace.objectives.gs_infonce import GSInfoNCE
from isospace.objectives.is_bert import ISBERT
from isospace.objectives.iso import Iso
from isospace.objectives.mixcse import MixCSE
from isospace.objectives.mocose import MoCoSE
from isospace.objectives.pcl import PCL
from isospace.objectives.promptbert import PromptBERT
from isospace.objectives.rankcse import RankCSE
from isospace.objectives.sbert_softmax import SBERTSoftmax
from isospace.objectives.scd import SCD
from isospace.objectives.simcse import SimCSE
from isospace.objectives.simcsepp import DCL, NoiseStudy, OffDropout, SimCSEPP
from isospace.objectives.tsdae import TSDAE
from isospace.objectives.vascl import VaSCL
from isospace.objectives.vicreg import CovarianceIdentity, VICReg
from isospace.objectives.whitenedcse import WhitenedCSE

__all__ = [
    "CT",
    "DCL",
    "DCLR",
    "ISBERT",
    "OBJECTIVES",
    "PCL",
    "SCD",
    "TSDAE",
    "ArcCSE",
    "BarlowTwins",
    "CTInBatch",
    "ConSERT",
    "CovarianceIdentity",
    "DeCLUTR",
    "DiffCSE",
    "ESimCSE",
    "GSInfoNCE",
    "Iso",
    "MixCSE",
    "MoCoSE",
    "NoiseStudy",
    "Objective",
    "OffDropout",
    "PromptBERT",
    "RankCSE",
    "RankStudy",
    "SBERTSoftmax",
    "SimCSE",
    "SimCSEPP",
    "VICReg",
    "VaSCL",
    "WhitenedCSE",
]


class _Table(dict[str, type[Objective]]):
    def __missing__(self, name: str) -> type[Objective]:
        raise UserError(no_such("objective", str(name), self))


OBJECTIVES: dict[str, type[Objective]] = _Table(
    {
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
        "esimcse": ESimCSE,
        "ct": CT,
        "ct-in-batch": CTInBatch,
        "dclr": DCLR,
        "pcl": PCL,
        "mocose": MoCoSE,
        "is-bert": ISBERT,
        "consert": ConSERT,
        "mixcse": MixCSE,
        "gs-infonce": GSInfoNCE,
        "arccse": ArcCSE,
        "vascl": VaSCL,
        "promptbert": PromptBERT,
        "declutr": DeCLUTR,
        "tsdae": TSDAE,
        "diffcse": DiffCSE,
        "sbert-softmax": SBERTSoftmax,
        "rankcse": RankCSE,
        "iso": Iso,
    }
)
