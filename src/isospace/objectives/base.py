"""What every objective is: a frozen dataclass of hyper-parameters that maps views to loss terms."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import torch
from pydantic import PositiveInt, Strict

from isospace.errors import UserError
from isospace.objectives.edits import Edit, Template
from isospace.objectives.perturbations import Perturbation
from isospace.operators import similarity
from isospace.system.settings import settings, to_dict

if TYPE_CHECKING:
    from isospace.objectives.companions import Companion, Convolutions

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


Read = Literal["pooled", "mask", "tokens"]


@dataclass(frozen=True)
class View:
    """One encoding of the batch: which text, changed how, by which network under which noise.

    Attributes:
        dropout: the rate in the network; `None` is its own, 0.0 is a clean pass.
        text: which text of an example: 0 the sentence itself (the anchor), 1 its paired positive
            (of labelled pairs the second text), 2 its hard negative; behind them what is mined.
            Lines of text have text 0 only.
        edit: of the tokens, before they are encoded.
        perturb: of their embeddings, before the first layer.
        by: "encoder", or the name of a companion that encodes (`companions.Network`).
        read: the pooled vector, the state at the mask token, or the states of all tokens.
        of_anchor: over pairs of texts, whether it is of the anchor's text, as the first view of a
            plan always is; by itself of the positive's. Without pairs both are the one text.
    """

    dropout: float | None = None
    text: int = 0
    edit: Edit | None = None
    perturb: Perturbation | None = None
    by: str = "encoder"
    read: Read = "pooled"
    of_anchor: bool = False

    @property
    def changes_embeddings(self) -> bool:
        """Whether the embedding layer has to do what it does not do by itself."""
        return self.perturb is not None or (self.edit is not None and self.edit.moves)


@dataclass(frozen=True, eq=False)
class TokenStates:
    """The tokens of one view.

    Attributes:
        states: (batch, length, dim), zero at the padding.
        mask: (batch, length), 1 for tokens.
    """

    states: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True, eq=False)
class TokenIds:
    """The tokens of one input, as its edit gives them.

    Attributes:
        ids: (batch, length) token ids, or `NO_TARGET` of an edit that gives what is to be guessed.
        mask: (batch, length), 1 for tokens.
    """

    ids: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True, eq=False)
class Views:
    """What an objective sees; views first, always.

    Attributes:
        encoded: (view, batch, dim), one vector a sentence, in the order of the plan.
        projected: (view', batch, dim'), what the head made of it.
        tokens: place in the plan -> states, of the views of which all tokens are read; these are
            in `encoded` with the mean of their tokens.
        companions: name -> what `Objective.build_companions` made.
        inputs: the token ids of `Objective.inputs`, the one way by which terms see any.
        labels: (batch,) int64, the number of each example's class; `None` where examples have no
            labels.
        candidates: (candidate, batch, dim'), texts of the corpus that were mined for each example,
            after the head; `None` where none were.
        teacher: (batch, batch + candidates) a teacher's scores of the second texts for each first
            text, then of its own candidates; NaN for what it does not score. `None` without one.
        paired: whether the views are of two texts that belong together, as `View.of_anchor` says,
            and not all of one.

    Raises:
        ValueError: not three axes, fewer than 2 sentences, unequal batches, not floating point,
            labels that are not whole numbers, or a teacher's scores of other texts.
    """

    encoded: torch.Tensor
    projected: torch.Tensor
    tokens: Mapping[int, TokenStates] = field(default_factory=dict)
    companions: Mapping[str, Companion] = field(default_factory=dict)
    inputs: tuple[TokenIds, ...] = ()
    labels: torch.Tensor | None = None
    candidates: torch.Tensor | None = None
    teacher: torch.Tensor | None = None
    paired: bool = False

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
        labels = self.labels
        if labels is not None and (
            labels.dtype != torch.int64 or labels.shape != self.encoded.shape[1:2]
        ):
            raise ValueError(
                f"labels: expected a whole number for each of {self.encoded.shape[1]} examples; "
                f"got {labels.dtype} of shape {tuple(labels.shape)}"
            )
        batch = self.encoded.shape[1]
        expected = (batch, batch + (0 if self.candidates is None else len(self.candidates)))
        if self.teacher is not None and self.teacher.shape != expected:
            raise ValueError(
                f"teacher: expected scores of shape {expected}; got {tuple(self.teacher.shape)}"
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
    passes_beside: ClassVar[tuple[str, ...]] = ()
    """Passes of companions that the terms make, such as "1 decoder"."""
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

    def build_companions(self, encoder: Any, seed: int) -> dict[str, Companion]:
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

    def shipped(self, companions: Mapping[str, Companion]) -> Template | Convolutions | None:
        """How the encoder is read where it is measured in training and shipped.

        At the mask token of a template, or by the mean of what convolutions (one of the
        `companions`) make of its tokens; by itself, `None`, by its own pooling.
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
                f"{type(self).__name__} plans {len(self.views)} views ({describe(self.views)}); "
                f"got encoded of shape {tuple(views.encoded.shape)}"
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


def describe(plan: Sequence[View]) -> str:
    """Views in words, those that read alike counted together.

    >>> describe([View(), View(), View(dropout=0.0)])
    '2 dropout + 1 clean'
    """
    return " + ".join(f"{n} {view}" for view, n in Counter(map(_describe, plan)).items())


def _describe(view: View) -> str:
    rate = "dropout" if view.dropout is None else f"dropout {view.dropout:g}"
    words = "clean" if view.dropout == 0.0 else rate
    words += ("", " of the second text", " of the third text")[view.text]
    words += "".join(f" {change}" for change in (view.edit, view.perturb) if change is not None)
    words += {"pooled": "", "mask": " at the mask", "tokens": " of all tokens"}[view.read]
    return words + ("" if view.by == "encoder" else f" by the {view.by} network")
