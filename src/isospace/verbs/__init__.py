"""The verbs of the command line: a dataclass each, whose fields are its options."""

from __future__ import annotations

from typing import Any

from isospace.verbs.encode import Encode
from isospace.verbs.evaluate import Evaluate
from isospace.verbs.explore import Explore
from isospace.verbs.export import Export
from isospace.verbs.index import Index
from isospace.verbs.listing import Doctor, Objectives, Recipes
from isospace.verbs.neighbours import Neighbours
from isospace.verbs.report import Report
from isospace.verbs.search import Search
from isospace.verbs.train import Compare, Train
from isospace.verbs.whiten import Whiten

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
