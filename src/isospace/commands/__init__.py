"""The commands of the command line.

A command has a row in `COMMANDS` and a dataclass of its name: its fields are the options, and its
method `run` does the work. Only its module is imported, and slow packages inside `run`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

COMMANDS = {
    "adapt": "Find the best encoder for a text within a budget of time, and say what it gains.",
    "corpus": "Show what is understood of a text before anything is trained on it.",
    "train": "Adapt an encoder to a text without labels, and say whether that helped.",
    "compare": "Train several objectives on the same text, and say which one to adapt with.",
    "evaluate": "Score a model on the STS sets and on data of your own.",
    "explore": "Show one or two models in the browser: neighbours, similarities, geometry.",
    "whiten": "Whiten a model's vectors by a text, and say whether that helped.",
    "distill": "Make a much faster static copy of an encoder for one corpus, and measure its loss.",
    "export": "Write a model in a format for others to load, and check the copy.",
    "encode": "Turn text of any size into files of vectors; a stopped run can be resumed.",
    "index": "Make text of any size searchable on disk, add to it, or delete from it.",
    "search": "List the texts of an index that are nearest to a query.",
    "report": "Make a page and tables from the folders of runs or of a comparison.",
    "objectives": "List the objectives that can be trained.",
    "recipes": "List the published settings and their scores, or show one in full.",
    "doctor": "Say what works on this machine, and what to install for what does not.",
}
"""Command -> its description in one sentence."""


_MODULES = {
    "making": ("adapt", "train", "whiten", "distill", "export"),
    "measuring": ("compare", "evaluate", "report"),
    "searching": ("encode", "index", "search"),
    "listing": ("objectives", "recipes", "doctor"),
}
"""Module -> its commands; every other command has a module of its own name."""


def load_command(name: str) -> type[Any]:
    """Return the dataclass of a command's options."""
    module = next((module for module, names in _MODULES.items() if name in names), name)
    kind: type[Any] = getattr(import_module(f"isospace.commands.{module}"), name.capitalize())
    return kind
