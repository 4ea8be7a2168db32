"""Imports of large libraries: put off, without garbage collection, and with threads that sleep.

The help of a command needs the names, defaults and docstrings of settings, some of which stand in
modules that import torch: seconds, for text that could be there at once. The standard library's
LazyLoader does not serve: a second `import` of the same module makes it run.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def wait_passively() -> None:
    """Let threads that wait for each other sleep, unless OMP_WAIT_POLICY is set.

    By default they spin, and slow down whatever else runs on their cores (docs/results/speed.md).
    Which thread computes what, and so every bit, stays the same. OpenMP reads the variable when
    torch is imported: call this before.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without garbage collections, which take a seventh of the time of large libraries."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def lazy_imports(*names: str) -> Iterator[None]:
    """Within the context, `import name` runs nothing of the module until an attribute is asked for.

    `from name import attribute` and `import name.submodule` ask for one. Modules that are imported
    already stay as they are.
    """
    finder = _LazyFinder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def run_lazy_modules() -> None:
    """Run the modules that `lazy_imports` has put off.

    Otherwise a first `import torch.name` would run torch, which imports that module, and then the
    module again.
    """
    for module in list(sys.modules.values()):
        if type(module) is _LazyModule:
            module.__doc__  # noqa: B018 - any attribute will do


class _LazyModule(ModuleType):
    """A module that has not run; `__spec__` is what the import system itself asks for."""

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
