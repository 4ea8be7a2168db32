"""A second device on a machine that has none: `AWAY`, which says it is cpu:1.

PyTorch's own fake tensors abort the process where one of "cuda" has a gradient and PyTorch is built
without CUDA. So `Away` is a tensor of the CPU that says it lies elsewhere, and `OneDevice` refuses
what CUDA refuses. The numbers are real, so that what depends on them (masks, queues, `int`) runs as
it does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

AWAY, HOME = torch.device("cpu", 1), torch.device("cpu")
aten = torch.ops.aten
MOVES = {aten._to_copy.default, aten.copy_.default}
BY_INDICES = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
"""Their indices may lie on the CPU, and a single value for them too."""


class Away(Tensor):
    """A tensor of the CPU, `held`, that says it is on the other device."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> Away:
        shape, strides = held.shape, held.stride()
        made: Away = Tensor._make_wrapper_subclass(
            cls, shape, strides, held.storage_offset(), dtype=held.dtype, device=AWAY
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, *_: Any) -> Any:
        raise AssertionError(f"{function} outside of the mode")

    def tolist(self) -> Any:
        return self.held.tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A checkpoint is read onto the CPU."""
        return self.held.__reduce_ex__(protocol)


class OneDevice(TorchDispatchMode):
    """Runs everything on the CPU, and raises where tensors or a generator lie on the other one."""

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None):
        kwargs = dict(kwargs or {})
        parts = tree_leaves((args, kwargs))
        there = any(isinstance(part, Away) for part in parts)
        if there and function not in MOVES:
            require_one_device(function, args, parts)
        if kwargs.get("device") is not None:
            there, kwargs["device"] = torch.device(kwargs["device"]) == AWAY, HOME
        elif function is aten.copy_.default:
            there = isinstance(args[0], Away)
        if there and any(isinstance(part, torch.Generator) for part in parts):
            raise RuntimeError(f"{function}: a generator of the CPU for a tensor of {AWAY}")
        if torch.Tag.inplace_view in function.tags:  # what the tensor itself says of its shape
            with no_dispatch():
                function(*args, **kwargs)
        args, kwargs = tree_map(lambda x: x.held if isinstance(x, Away) else x, (args, kwargs))
        with _disable_current_modes():
            made = function(*args, **kwargs)
        return tree_map(lambda x: Away(x) if there and isinstance(x, Tensor) else x, made)


def require_one_device(function: Any, args: Any, parts: list[Any]) -> None:
    """What CUDA asks for: single numbers alone may lie on the CPU, where it goes cell by cell."""
    counted = [part for part in parts if isinstance(part, Tensor)]
    if function in BY_INDICES:
        counted = [part for part in (args[0], *args[2:3]) if part.dim()]
    elif torch.Tag.pointwise in function.tags:
        written = args[0] if function._schema.is_mutable else None
        counted = [part for part in counted if part.dim() or part is written]
    if not all(isinstance(part, Away) for part in counted):
        found = [f"{part.device} {tuple(part.shape)}" for part in counted]
        raise RuntimeError(f"{function}: expected all tensors on one device; got {found}")
