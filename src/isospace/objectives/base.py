"""What every objective is: a frozen dataclass of hyper-parameters that maps views to loss terms."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import PositiveInt, Strict

from isospace.errors import UserError
from isospace.objectives import auxiliaries
from isospace.operators import similarity
from isospace.system.settings import settings, to_dict
from isospace.views import Edit, View, Views, describe_views

HeadChoice = Literal["mlp", "none"]
Widths = Annotated[tuple[PositiveInt, ...], Strict(False)]
"""Units of the layers of a projector, a tuple or a list."""


@dataclass(frozen=True)
class Paper:
    """Where an objective comes from.

    Attributes:
        bibtex: one entry, or several of which the first is meant.
        own_title: in place of the entry's.
    """

    bibtex: str
    own_title: str = ""

    @property
    def title(self) -> str:
        """In one line, without braces."""
        return self.own_title or self._field("title")

    @property
    def year(self) -> int:
        """Of the publication."""
        return int(self._field("year"))

    @property
    def url(self) -> str:
        """Where it can be read."""
        return self._field("url")

    def _field(self, name: str) -> str:
        found = re.search(rf"^ *{name} = \{{(.*?)\}},?$", self.bibtex, re.MULTILINE | re.DOTALL)
        assert found is not None
        return " ".join(re.sub("[{}]", "", found[1]).split())


@settings
class Objective(ABC):
    """Base of all objectives. Fields are hyper-parameters, their defaults the paper's values.

    Class constants: `paper`; `term_names`, the terms in the order in which they are reported.

    Raises:
        UserError: a value that a hyper-parameter cannot have, or values that do not go together.
    """

    paper: ClassVar[Paper]
    term_names: ClassVar[tuple[str, ...]]
    passes_beside: ClassVar[tuple[str, ...]] = ()
    """Passes of auxiliaries that the terms make, such as "1 decoder"."""
    reads_labels: ClassVar[bool] = False
    """Whether the terms read `Views.labels`; the head is then that of `build_classifier`."""
    takes_candidates: ClassVar[bool] = False
    """Whether the terms read `Views.candidates` where there are some."""
    draws_together: ClassVar[bool] = False
    """Whether the terms draw the first view of an example and those not `of_anchor` together: these
    may then be of two texts that belong together."""

    def _require_a_weight(self, *names: str) -> None:
        """Refuse an objective all of whose terms have weight 0.

        Raises:
            UserError: with the names of these weights.
        """
        if any(getattr(self, name) for name in names):
            return
        *others, last = (f"`{name}`" for name in names)
        every = "both" if len(names) == 2 else "all"
        raise UserError(f"{', '.join(others)} and {last} are {every} 0: nothing is learnt")

    @property
    def why_no_pairs(self) -> str:
        """Why this plan cannot be laid over pairs of texts that belong together; empty: it can."""
        if self.texts > 1:
            return "reads several texts of an example already"
        if len(self.views) == 1:
            return "has one view of a text, and no second one that another text could be"
        if any(view.read == "tokens" for view in self.views):
            return "reads all tokens of a text, and not its vector alone"
        if not self.draws_together:
            return "asks more of the views of a text than that they are alike"
        if any(view.perturb is not None and view.perturb.added_by for view in self.views):
            return "moves both views by the last gradient of one text"
        return ""

    @property
    def takes_pairs(self) -> bool:
        """Whether this plan may be laid over pairs of texts that belong together."""
        return not self.why_no_pairs

    @property
    def reads_teacher(self) -> bool:
        """Whether the terms read `Views.teacher`; by itself not."""
        return False

    @property
    def views(self) -> tuple[View, ...]:
        """The plan: the passes through the encoder, in order. By itself two under dropout."""
        return (View(), View())

    @property
    def all_passes(self) -> str:
        """What a sentence costs in a step: passes of the encoder, and of what stands beside it."""
        return " + ".join([str(len(self.views)), *self.passes_beside])

    @property
    def inputs(self) -> tuple[View, ...]:
        """Token ids that the terms read as they are, such as a decoder's targets; by itself none.

        Of each only the text and the edit are asked for: no pass through the encoder. An edit of
        the same `stream` as a view's draws what it draws. Over pairs each says by `of_anchor` of
        which text it is, the first one too.
        """
        return ()

    @property
    def texts(self) -> int:
        """How many texts of an example the plan reads: 1 for sentences."""
        return 1 + max(view.text for view in (*self.views, *self.inputs))

    @property
    def tokens_needed(self) -> int:
        """Tokens that a text must have, special ones not counted."""
        return max(view.edit.needs if view.edit else 0 for view in self.views)

    @property
    def reads_whole_texts(self) -> bool:
        """Whether texts are read whole, and not cut to the run's `max_length`."""
        return any(view.edit is not None and view.edit.whole for view in self.views)

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

    def build_classifier(self, dim: int, classes: int, seed: int) -> torch.nn.Module:
        """The head of an objective that reads labels, of so many classes; else as `build_head`."""
        return self.build_head(dim, seed)

    def build_auxiliaries(self, encoder: Any, seed: int) -> dict[str, auxiliaries.Auxiliary]:
        """What trains, or remembers, beside the encoder; by itself nothing.

        It is not shipped, unless `shipped` makes it a part of the encoder.

        They are seeded as heads are, saved with the checkpoint, synchronised over processes.

        Args:
            encoder: an `encoders.encoder.Encoder`, at its start.
            seed: of weights and draws.

        Raises:
            ValueError: the encoder cannot serve them.
        """
        return {}

    def shipped(self, built: Mapping[str, auxiliaries.Auxiliary]) -> Edit | torch.nn.Module | None:
        """How the encoder is read where it is measured in training and shipped.

        At the mask token of a template, or by the mean of what convolutions (one of the
        `auxiliaries`) make of its tokens; by itself, `None`, by its own pooling.
        """
        return None

    @abstractmethod
    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        """The weighted scalar terms, in float32 or float64. Call the objective itself instead."""

    def __call__(self, views: Views) -> dict[str, torch.Tensor]:
        """Named scalar terms; the loss is their sum. Computed in float32 or better.

        Raises:
            ValueError: views or inputs are not those of the plan, the head is another
                objective's, or there are no labels, or no teacher, where they are read.
        """
        if len(views.encoded) != len(self.views):
            raise ValueError(
                f"{type(self).__name__} plans {len(self.views)} views "
                f"({describe_views(self.views)}); got encoded of shape {tuple(views.encoded.shape)}"
            )
        expected = self.projected_views(batch=views.encoded.shape[1])
        if len(views.projected) != expected:
            raise ValueError(
                f"{type(self).__name__}'s head gives {expected} views; "
                f"got projected of shape {tuple(views.projected.shape)}"
            )
        if len(views.inputs) != len(self.inputs):
            raise ValueError(
                f"{type(self).__name__} reads the tokens of {len(self.inputs)} inputs; "
                f"got {len(views.inputs)}"
            )
        if self.reads_labels and views.labels is None:
            raise ValueError(f"{type(self).__name__} reads labels; got none")
        if self.reads_teacher and views.teacher is None:
            raise ValueError(f"{type(self).__name__} reads a teacher's scores; got none")
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

    def projected_views(self, batch: int) -> int:
        """How many views the head returns for a batch of this size."""
        return len(self.views)

    def to_json(self) -> dict[str, Any]:
        """Hyper-parameters as JSON values."""
        return to_dict(self)
