"""Settings of `whiten`; the command line shows them as its help, so heavy imports are avoided."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field

from isospace.config import CorpusConfig, Files
from isospace.encoders.pooling import PoolingName
from isospace.errors import UserError
from isospace.operators.fitted_whitening import Whitening
from isospace.system.settings import NameOrPath, PathOrText, settings

Power = float | Literal["flow"] | None
"""Strength of the whitening; `None`: the unchanged model, not even centred."""

POWERS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Powers that `auto` tries with single texts, besides the unchanged model."""
PAIR_POWERS = (0.25, 0.5, 0.75, 1.0)
"""Powers that `auto` tries with pairs, besides the unchanged model."""
By = Literal["pairs", "texts"]


@settings
class WhitenConfig:
    """Settings of the whitening of a model.

    Raises:
        UserError: a setting has an invalid value; the message names the setting.
    """

    model: NameOrPath = "minilm"
    """The base model: minilm, a model folder, the folder of a run, a Hub name, glove:FILE for word
    vectors, http://HOST/v1#NAME for an endpoint, or vectors:FILE for vectors in Parquet."""
    text: CorpusConfig = field(default_factory=CorpusConfig)
    """The text to fit on, and how it is cleaned."""
    by: By | None = None
    """Which covariance whitens: that of the differences within pairs, or that of single texts.
    Default: pairs, where the corpus has 100 of them."""
    power: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = "auto"
    """How far to whiten: 0 centres the vectors, 1 whitens them fully. auto tries several and keeps
    the one with the highest validation MRR, or the base model."""
    whitening: Whitening = field(default_factory=Whitening)
    """Which whitening, and how the covariance is estimated."""
    sentences: Annotated[int, Field(ge=2)] | None = None
    """Number of texts or pairs to fit on, spread over the corpus. Default: all texts, or at most
    6,000 pairs."""
    pooling: PoolingName | None = None
    """How token vectors become one sentence vector. Default: the model's own pooling."""
    query_prompt: str | None = None
    """Text put before every query, such as "query: "; "" for none. Default: the model's own query
    prompt, if it has one."""
    document_prompt: str | None = None
    """Text put before every document, given in the same way. Default: the model's own document,
    passage or corpus prompt."""
    pairs: PathOrText | None = None
    """A file of two columns, query and answer, whose rows are the test pairs. Default: pairs of
    held-out text."""
    data: NameOrPath | None = None
    """Folder with the STS sets in SentEval's layout, or hub. Default: ISOSPACE_DATA, if it is
    set."""
    other_text: Files = ()
    """Other text, in files or folders, for the other-domain check. isospace also checks its own two
    small sets, and the STS sets of `data`."""
    output: PathOrText | None = None
    """The folder to write the model to."""

    def __post_init__(self) -> None:
        if self.whitening.kind == "flow" and self.power not in ("auto", 1):
            raise UserError(
                f"`power` {self.power}: a flow goes all the way or not at all; give 1, or auto"
            )
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
