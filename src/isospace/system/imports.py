"""Imports of large libraries: deferred, with sleeping threads; and of packages of an extra.

Help texts need settings of modules that import torch, which takes seconds. The standard library's
LazyLoader does not help: a second `import` of the same module makes it run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from isospace.errors import UserError


def wait_passively() -> None:
    """Let threads that wait for each other sleep, unless OMP_WAIT_POLICY is set.

    By default they spin, and slow down other work on their cores (docs/results/speed.md). OpenMP
    reads the variable when torch is imported, so call this function before.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@contextmanager
def lazy_imports(*names: str) -> Iterator[None]:
    """Make `import name` within the context run a module only at the first use of an attribute.

    `from name import attribute` and `import name.submodule` use one. Modules that are already
    imported stay as they are.
    """
    finder = _LazyFinder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def run_lazy_modules() -> None:
    """Run the modules that `lazy_imports` deferred.

    Otherwise a first `import torch.name` would run torch, which itself imports `torch.name`, and
    then run `torch.name` again.
    """
    for module in list(sys.modules.values()):
        if type(module) is _LazyModule:
            module.__doc__  # noqa: B018 - any attribute will do


class _LazyModule(ModuleType):
    """A module that has not run; reading `__spec__`, as the import system does, does not run it."""

    def __getattribute__(self, name: str) -> Any:
        spec = object.__getattribute__(self, "__spec__")
        if name == "__spec__":
            return spec
        self.__class__ = ModuleType  # type: ignore[assignment]
        spec.loader = self.__loader__ = spec.loader.loader
        spec.loader.exec_module(self)
        return getattr(self, name)


class _LazyLoader(Loader):
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _LazyModule


class _LazyFinder(MetaPathFinder):
    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _LazyLoader(spec.loader)
        return spec


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
