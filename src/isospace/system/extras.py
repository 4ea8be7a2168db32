"""Packages that only some commands need, and the extras of isospace that install them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from isospace.errors import UserError


def require_extra(what: str, extra: str, *modules: str) -> None:
    """Refuse work that needs packages of an extra which are not installed.

    `what` is the start of the message, such as "`to` onnx".
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise UserError(f"{what} needs {', '.join(missing)}: pip install 'isospace[{extra}]'")


def import_extra(what: str, extra: str, module: str) -> Any:
    """Import a module of an extra; refuse the work if it is not installed."""
    require_extra(what, extra, module)
    return import_module(module)
