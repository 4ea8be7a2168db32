"""What every objective is: a frozen dataclass of hyper-parameters that maps views to loss terms."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import NoneType
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from torch import Tensor, nn

from isospace.operators.similarity import upcast, without_autocast

Self = TypeVar("Self", bound="Objective")

_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    NoneType: "None (in JSON null)",
}


@dataclass(frozen=True)
class Paper:
    """Where an objective comes from."""

    title: str
    year: int
    url: str
    bibtex: str


@dataclass(frozen=True)
class View:
    """One encoding of the batch under one noise.

    Attributes:
        dropout: the rate in the encoder; `None` is the encoder's own, 0.0 is a clean pass.
        text: which text of an example: 0 the sentence itself (the anchor), 1 its paired positive,
            2 its hard negative. Lines of text have text 0 only.
    """

    dropout: float | None = None
    text: int = 0


@dataclass(frozen=True, eq=False)
class Views:
    """What an objective sees; views first, always.

    Attributes:
        encoded: (view, batch, dim), what the encoder gave, in the order of the plan.
        projected: (view', batch, dim'), what the head made of it.

    Raises:
        ValueError: not three axes, fewer than 2 sentences, unequal batches, not floating point.
    """

    encoded: Tensor
    projected: Tensor

    def __post_init__(self) -> None:
        for name, tensor in (("encoded", self.encoded), ("projected", self.projected)):
            shape = tuple(tensor.shape)
            if tensor.dim() != 3:
                raise ValueError(f"{name}: expected the shape (view, batch, dim); got {shape}")
            if shape[1] < 2:
                raise ValueError(f"{name}: expected a batch of at least 2 sentences; got {shape}")
            if not tensor.is_floating_point():
                raise ValueError(f"{name}: expected floating point; got {tensor.dtype}")
        if self.encoded.shape[1] != self.projected.shape[1]:
            raise ValueError(
                "encoded and projected: expected the same batch; got "
                f"{tuple(self.encoded.shape)} and {tuple(self.projected.shape)}"
            )


@dataclass(frozen=True)
class Objective(ABC):
    """Base of all objectives. Fields are hyper-parameters, their defaults the paper's values.

    Class constants: `paper`; `term_names`, the terms in the order in which they are reported.
    """

    paper: ClassVar[Paper]
    term_names: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        types = get_type_hints(type(self))
        for field in fields(self):
            kind, value = types[field.name], getattr(self, field.name)
            require(_fits(value, kind), f"{field.name} must be {_in_words(kind)}; got {value!r}")

    @property
    @abstractmethod
    def views(self) -> tuple[View, ...]:
        """The plan: the passes through the encoder, in order."""

    @property
    def texts(self) -> int:
        """How many texts of an example the plan reads: 1 for sentences."""
        return 1 + max(view.text for view in self.views)

    @property
    def head_summary(self) -> str:
        """The head in a few words."""
        return "none"

    def build_head(self, dim: int, seed: int) -> nn.Module:
        """The training-only head, `(view, batch, dim) -> (view', batch, dim')`.

        Weights and later draws come from a generator seeded with `seed`, never from the global one.

        Raises:
            ValueError: the hyper-parameters do not fit `dim`.
        """
        return nn.Identity()

    @abstractmethod
    def terms(self, views: Views) -> dict[str, Tensor]:
        """The weighted scalar terms, in float32 or float64. Call the objective itself instead."""

    def __call__(self, views: Views) -> dict[str, Tensor]:
        """Named scalar terms; the loss is their sum. Computed in float32 or better.

        Raises:
            ValueError: the views are not those of the plan, or the head is another objective's.
        """
        if len(views.encoded) != len(self.views):
            raise ValueError(
                f"{type(self).__name__} plans {len(self.views)} views ({self.describe_views()}); "
                f"got encoded of shape {tuple(views.encoded.shape)}"
            )
        if len(views.projected) != self.projected_views(views.encoded.shape[1]):
            raise ValueError(
                f"{type(self).__name__}'s head gives "
                f"{self.projected_views(views.encoded.shape[1])} views; "
                f"got projected of shape {tuple(views.projected.shape)}"
            )
        with without_autocast(views.encoded):
            return self.terms(Views(upcast(views.encoded), upcast(views.projected)))

    def projected_views(self, batch: int) -> int:
        """How many views the head returns for a batch of this size."""
        return len(self.views)

    def describe_views(self) -> str:
        """The plan in words.

        >>> from isospace.objectives import SimCSE
        >>> SimCSE().describe_views()
        '2 dropout'
        """
        return " + ".join(f"{n} {_describe(view)}" for view, n in Counter(self.views).items())

    def to_json(self) -> dict[str, Any]:
        """Hyper-parameters as JSON values."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls: type[Self], values: Mapping[str, Any]) -> Self:
        """The objective with these hyper-parameters; missing ones keep their defaults.

        Raises:
            ValueError: a name that is no hyper-parameter of this objective, or an impossible value.
        """
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ValueError(
                f"{cls.__name__} has no hyper-parameter {', '.join(unknown)}; it has {known}"
            )
        return cls(
            **{
                name: tuple(value) if isinstance(value, list) else value
                for name, value in values.items()
            }
        )


def _describe(view: View) -> str:
    rate = "dropout" if view.dropout is None else f"dropout {view.dropout:g}"
    noise = "clean" if view.dropout == 0.0 else rate
    return noise + ("", " of the positive", " of the hard negative")[view.text]


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a field's type; a truth value is no number, and numbers are finite."""
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return value in parts
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_fits(item, parts[0]) for item in value)
    if parts:
        return any(_fits(value, part) for part in parts)
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and abs(value) <= sys.float_info.max
    return type(value) is kind


def _in_words(kind: Any) -> str:
    """What a field's type expects."""
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return f"one of {parts}"
    if get_origin(kind) is tuple:
        return f"a tuple (in JSON a list), each item {_in_words(parts[0])}"
    return " or ".join(_WORDS[part] for part in parts or (kind,))


def require(holds: bool, message: str) -> None:
    """Refuse impossible hyper-parameters.

    Raises:
        ValueError: with the message.
    """
    if not holds:
        raise ValueError(message)


def require_not_negative(objective: Objective, *names: str) -> None:
    """Refuse negative values of these hyper-parameters: weights, variances, counts.

    Raises:
        ValueError: with the name and the value of the first.
    """
    for name in names:
        value = getattr(objective, name)
        require(value >= 0, f"{name} must not be negative; got {value}")
