"""The table of evaluation tasks, in the order in which they are scored and shown."""

from __future__ import annotations

from typing import Any

from isospace.evaluation.isotropy import Isotropy
from isospace.evaluation.mteb import MTEB
from isospace.evaluation.own import OwnFiles
from isospace.evaluation.retrieval import SameMeaning
from isospace.evaluation.sts import STS
from isospace.evaluation.stsb_geometry import STSBGeometry
from isospace.evaluation.task import Task
from isospace.evaluation.transfer import Transfer

TASKS: tuple[type[Task[Any]], ...] = (
    STS,
    MTEB,
    STSBGeometry,
    Isotropy,
    SameMeaning,
    Transfer,
    OwnFiles,
)
