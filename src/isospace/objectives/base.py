"""The base of all objectives: a frozen dataclass of hyper-parameters that maps views to terms."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import PositiveFloat, PositiveInt, Strict

from isospace.objectives import auxiliaries, heads
from isospace.operators import similarity
from isospace.system.settings import settings, to_dict
from isospace.views import Edit, View, Views

HeadChoice = Literal["mlp", "none"]
Widths = Annotated[tuple[PositiveInt, ...], Strict(False)]
"""Units of a projector's layers, a tuple or a list."""


@cache
def _entries() -> dict[str, str]:
    """Return citation key -> entry of papers.bib."""
    text = Path(__file__).with_name("papers.bib").read_text(encoding="utf-8")
    return {re.split("[{,]", entry)[1]: entry for entry in text.strip().split("\n\n")}


@dataclass(frozen=True)
class Paper:
    """A publication: entries of papers.bib, of which the first gives title, year and url."""

    key: str
    others: tuple[str, ...] = ()
    own_title: str = ""

    @property
    def bibtex(self) -> str:
        return "\n\n".join(_entries()[key] for key in (self.key, *self.others))

    @property
    def title(self) -> str:
        return self.own_title or self._field("title")

    @property
    def year(self) -> int:
        return int(self._field("year"))

    @property
    def url(self) -> str:
        return self._field("url")

    def _field(self, name: str) -> str:
        """Return a field of the entry in one line, without braces."""
        found = re.search(rf"^ *{name} = \{{(.*?)\}},?$", self.bibtex, re.MULTILINE | re.DOTALL)
        assert found is not None
        return " ".join(re.sub("[{}]", "", found[1]).split())


@settings
class Objective(ABC):
    """Base of all objectives. Fields are hyper-parameters with the paper's values as defaults.

    Raises:
        UserError: a value that a hyper-parameter cannot have, or values that do not go together.
    """

    paper: ClassVar[Paper]
    reads_labels: ClassVar[bool] = False
    takes_candidates: ClassVar[bool] = False
    """True where the terms read `Views.candidates`, if there are any."""
    one_text_only: ClassVar[bool] = False
    """True where the terms do more than draw the first view and those not `of_anchor` together."""
    without_mask: ClassVar[str] = ""
    """The setting with which no view needs a mask token; empty if there is none."""

    @property
    def takes_pairs(self) -> bool:
        """True where the views may be of two texts that belong together."""
        return not self.one_text_only and self.texts == 1 and len(self.views) > 1

    @property
    def reads_teacher(self) -> bool:
        return False

    @property
    def views(self) -> tuple[View, ...]:
        """The plan: the passes through the encoder, in order; by default two under dropout."""
        return (View(), View())

    @property
    def inputs(self) -> tuple[View, ...]:
        """Token ids that the terms read, such as a decoder's targets; by default none.

        Only `text`, `edit` and `of_anchor` count. Edits of equal `stream` make equal draws.
        """
        return ()

    @property
    def texts(self) -> int:
        """The number of texts of an example that the plan reads: 1 for sentences."""
        return 1 + max(view.text for view in (*self.views, *self.inputs))

    @property
    def tokens_needed(self) -> int:
        """The least number of tokens of a text, without special ones; 0 if texts may be cut."""
        return max(view.edit.needs if view.edit else 0 for view in self.views)

    def make_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        """Make the head, which is on the encoder in training only; it draws from the generator."""
        return torch.nn.Identity()

    def build_head(self, dim: int, seed: int, classes: int = 2) -> torch.nn.Module:
        """Build the head for vectors of a width, and for a number of label classes.

        Raises:
            ValueError: the hyper-parameters do not fit the width.
        """
        return self.make_head(dim, heads.seeded(seed))

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
        """Build the networks and memories that train with the encoder; by default none.

        Raises:
            ValueError: the encoder cannot serve them.
        """
        return {}

    def shipped(self, built: auxiliaries.ByName) -> Edit | torch.nn.Module | None:
        """Return how the encoder is read for evaluation and in the shipped model.

        A `Template`: the state at its mask token. One of the `built` auxiliaries, `Convolutions`:
        the mean of what they make of the tokens. `None`, the default: the encoder's own pooling.
        """
        return None

    @abstractmethod
    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        """Compute the weighted scalar terms, in float32 or float64; call the objective instead."""

    def __call__(self, views: Views) -> dict[str, torch.Tensor]:
        """Compute the named scalar terms, in float32 or better; the loss is their sum."""
        if len(views.encoded) != len(self.views):
            raise ValueError(
                f"{type(self).__name__} plans {len(self.views)} views; "
                f"got encoded of shape {tuple(views.encoded.shape)}"
            )
        with similarity.without_autocast(views.encoded):
            encoded, projected = map(similarity.upcast, (views.encoded, views.projected))
            tokens = {
                place: replace(tokens, states=similarity.upcast(tokens.states))
                for place, tokens in views.tokens.items()
            }
            mined = None if views.candidates is None else similarity.upcast(views.candidates)
            return self.terms(
                replace(
                    views, encoded=encoded, projected=projected, tokens=tokens, candidates=mined
                )
            )

    def to_json(self) -> dict[str, Any]:
        """Return the hyper-parameters as JSON values."""
        return to_dict(self)


@settings
class OnCosines(Objective):
    """Base of objectives on cosines of vectors behind the tanh MLP, or behind no head."""

    head: HeadChoice = "mlp"
    """Tanh MLP on the encoder while training, or none; it is dropped for inference."""
    temperature: PositiveFloat = 0.05
    """tau, divides the cosines."""

    def make_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        return heads.TanhMLP(dim, generator) if self.head == "mlp" else torch.nn.Identity()


class Projected:
    """A mixin for objectives whose field `projector` gives the widths of a projector."""

    projector: Widths
    first_bias: ClassVar[bool] = False
    """True where the first layer has a bias; the others have none."""

    def make_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        return heads.Projector(dim, generator, widths=self.projector, first_bias=self.first_bias)
