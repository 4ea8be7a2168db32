"""The table of objectives. A new objective is a class, one row here, and its test."""

from __future__ import annotations

from isospace.errors import UserError, no_such
from isospace.objectives.arccse import ArcCSE as ArcCSE
from isospace.objectives.base import Objective as Objective
from isospace.objectives.declutr import DeCLUTR as DeCLUTR
from isospace.objectives.decorrelation import (
    SCD as SCD,
    BarlowTwins as BarlowTwins,
    CovarianceIdentity as CovarianceIdentity,
    RankStudy as RankStudy,
    VICReg as VICReg,
)
from isospace.objectives.further_negatives import (
    DCLR as DCLR,
    ESimCSE as ESimCSE,
    GSInfoNCE as GSInfoNCE,
    MixCSE as MixCSE,
    MoCoSE as MoCoSE,
)
from isospace.objectives.nt_xent import ConSERT as ConSERT, VaSCL as VaSCL
from isospace.objectives.promptbert import PromptBERT as PromptBERT
from isospace.objectives.rankcse import RankCSE as RankCSE
from isospace.objectives.sbert_softmax import SBERTSoftmax as SBERTSoftmax
from isospace.objectives.simcse import Iso as Iso, SimCSE as SimCSE
from isospace.objectives.simcsepp import (
    DCL as DCL,
    NoiseStudy as NoiseStudy,
    OffDropout as OffDropout,
    SimCSEPP as SimCSEPP,
)
from isospace.objectives.tokens import ISBERT as ISBERT, TSDAE as TSDAE, DiffCSE as DiffCSE
from isospace.objectives.two_networks import CT as CT, PCL as PCL, CTInBatch as CTInBatch
from isospace.objectives.whitenedcse import WhitenedCSE as WhitenedCSE


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
