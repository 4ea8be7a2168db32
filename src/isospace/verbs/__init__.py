"""The verbs of the command line: a dataclass each, whose fields are its options."""

from __future__ import annotations

from typing import Any

from isospace.verbs.encoding import Encode
from isospace.verbs.evaluating import Evaluate, Neighbours
from isospace.verbs.exploring import Explore
from isospace.verbs.listing import Doctor, Objectives, Recipes
from isospace.verbs.reporting import Report
from isospace.verbs.searching import Index, Search
from isospace.verbs.shipping import Export
from isospace.verbs.training import Compare, Train
from isospace.verbs.whitening import Whiten

VERBS: dict[str, type[Any]] = {
    "train": Train,
    "compare": Compare,
    "evaluate": Evaluate,
    "neighbours": Neighbours,
    "explore": Explore,
    "whiten": Whiten,
    "export": Export,
    "encode": Encode,
    "index": Index,
    "search": Search,
    "report": Report,
    "objectives": Objectives,
    "recipes": Recipes,
    "doctor": Doctor,
}
