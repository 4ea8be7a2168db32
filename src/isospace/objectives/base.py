"""What every objective is: a frozen dataclass of hyper-parameters that maps views to loss terms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import torch
from pydantic import PositiveInt, Strict

from isospace.operators import similarity
from isospace.system.settings import settings, to_dict

Self = TypeVar("Self", bound="Objective")

HeadChoice = Literal["mlp", "none"]
Widths = Annotated[tuple[PositiveInt, ...], Strict(False)]
"""Units of the layers of a projector, a tuple or a list."""


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

    encoded: torch.Tensor
    projected: torch.Tensor

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


@settings
class Objective(ABC):
    """Base of all objectives. Fields are hyper-parameters, their defaults the paper's values.

    Class constants: `paper`; `term_names`, the terms in the order in which they are reported.

    Raises:
        UserError: a value that a hyper-parameter cannot have, or values that do not go together.
    """

    paper: ClassVar[Paper]
    term_names: ClassVar[tuple[str, ...]]

    @property
    def views(self) -> tuple[View, ...]:
        """The plan: the passes through the encoder, in order. By itself two under dropout."""
        return (View(), View())

    @property
    def texts(self) -> int:
        """How many texts of an example the plan reads: 1 for sentences."""
        return 1 + max(view.text for view in self.views)

    @property
    def head_summary(self) -> str:
        """The head in a few words."""
        return "none"

    def build_head(self, dim: int, seed: int) -> torch.nn.Module:
        """The training-only head, `(view, batch, dim) -> (view', batch, dim')`.

        Weights and later draws come from a generator seeded with `seed`, never from the global one.

        Raises:
            ValueError: the hyper-parameters do not fit `dim`.
        """
        return torch.nn.Identity()

    @abstractmethod
    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        """The weighted scalar terms, in float32 or float64. Call the objective itself instead."""

    def __call__(self, views: Views) -> dict[str, torch.Tensor]:
        """Named scalar terms; the loss is their sum. Computed in float32 or better.

        Raises:
            ValueError: the views are not those of the plan, or the head is another objective's.
        """
        if len(views.encoded) != len(self.views):
            raise ValueError(
                f"{type(self).__name__} plans {len(self.views)} views ({self.describe_views()}); "
                f"got encoded of shape {tuple(views.encoded.shape)}"
            )
        expected = self.projected_views(batch=views.encoded.shape[1])
        if len(views.projected) != expected:
            raise ValueError(
                f"{type(self).__name__}'s head gives {expected} views; "
                f"got projected of shape {tuple(views.projected.shape)}"
            )
        with similarity.without_autocast(views.encoded):
            return self.terms(
                Views(similarity.upcast(views.encoded), similarity.upcast(views.projected))
            )

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
        return to_dict(self)

    @classmethod
    def from_json(cls: type[Self], values: Mapping[str, Any]) -> Self:
        """The objective with these hyper-parameters; missing ones keep their defaults.

        Raises:
            UserError: a name that is no hyper-parameter of this objective, or an impossible value.
        """
        return cls(**values)


def _describe(view: View) -> str:
    rate = "dropout" if view.dropout is None else f"dropout {view.dropout:g}"
    noise = "clean" if view.dropout == 0.0 else rate
    return noise + ("", " of the positive", " of the hard negative")[view.text]
