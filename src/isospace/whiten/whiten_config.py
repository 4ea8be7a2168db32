"""Settings of `whiten`; the command line shows them as its help, so heavy imports are avoided."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field

from isospace.config import FirstModel, ModelAndText, Output
from isospace.errors import UserError
from isospace.operators.fitted_whitening import Whitening
from isospace.system.settings import refuse_idle, settings

Power = float | Literal["flow"] | None
"""Strength of the whitening; `None`: the unchanged model, not even centred."""

POWERS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Powers that `auto` tries with single texts, besides the unchanged model."""
PAIR_POWERS = (0.25, 0.5, 0.75, 1.0)
"""Powers that `auto` tries with pairs, besides the unchanged model."""
By = Literal["pairs", "texts"]


@settings
class WhitenConfig(ModelAndText):
    """Settings of the whitening of a model."""

    model: FirstModel = "minilm"
    """The base model: minilm, a model folder, the folder of a run, a Hub name, glove:FILE for word
    vectors, http://HOST/v1#NAME for an endpoint, or vectors:FILE for vectors in Parquet."""
    by: By | None = None
    """Which covariance whitens: that of the differences within pairs, or that of single texts.
    Default: pairs, where the corpus has 100 of them."""
    power: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = "auto"
    """How far to whiten: 0 centres the vectors, 1 whitens them fully. auto tries several and keeps
    the one with the highest validation MRR, or the base model."""
    whitening: Whitening = field(default_factory=Whitening)
    """Which whitening, and how the covariance is estimated."""
    sentences: Annotated[int, Field(ge=2)] | None = None
    """Largest number of pairs or texts to fit on, spread over the corpus. Default: 3,000 pairs, or
    6,000 single texts; all texts for a flow. They are cut to 64 tokens."""
    output: Output = None
    """The folder to write the model to."""

    def __post_init__(self) -> None:
        if self.whitening.kind == "flow" and self.power not in ("auto", 1):
            raise UserError(
                f"`power` {self.power}: a flow goes all the way or not at all; give 1, or auto"
            )
        if self.whitening.kind == "flow":
            refuse_idle(self.whitening, "`kind` pca or zca", "shrinkage")
        if self.power == 0:
            refuse_idle(self.whitening, "a `power` above 0", "shrinkage")
        if self.by == "pairs" and (reason := self.why_not_pairs):
            raise UserError(f"`by` pairs: {reason}; leave it out, or give `by` texts")

    @property
    def why_not_pairs(self) -> str | None:
        """The reason why these settings need single texts; `None` if pairs are possible."""
        if self.whitening.kind != "pca":
            return f"`kind` {self.whitening.kind} is fitted on single texts"
        return None

    def powers(self, by: By) -> list[Power]:
        """Return the powers to try.

        With another width, the unchanged model is not an option.
        """
        if self.whitening.kind == "flow":
            return [None, "flow"] if self.power == "auto" else ["flow"]
        if self.power != "auto":
            return [self.power]
        powers = PAIR_POWERS if by == "pairs" else POWERS
        return [None, *powers] if self.whitening.dim is None else [*powers]
