"""Files that identify the folder of a run, for all code that accepts a run as a model."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from isospace.errors import UserError

MODEL = "model"
"""Name of the model's folder in the folder of a run."""

ADAPT_SETTINGS = "adapt.json"
"""Name of the file with the settings of adapt, in the folder of the run."""


def run_model(folder: Path) -> Path | None:
    """Return the model folder of a finished run; `None` if the folder is not a run.

    A Hugging Face folder has a config.json too, but only that of a run has objective and budget.
    """
    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not (isinstance(settings, dict) and {"objective", "budget"} <= settings.keys()):
        return None
    if not (folder / "results.json").is_file():
        raise UserError(
            f"{folder}: this run is not finished. Go on with it: {resume_command(folder)}"
        )
    return folder / MODEL


def resume_command(folder: Path) -> str:
    """Return the command that resumes the run in a folder, for messages."""
    command = "adapt " if (folder / ADAPT_SETTINGS).is_file() else ""
    return f"{command}`resume` {shlex.quote(str(folder))}"
