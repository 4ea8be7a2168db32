"""What `whiten` is asked for. Nothing heavy is imported: the command line shows it as its help."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field

from isospace.config import CorpusConfig, Files
from isospace.encoders.pooling import PoolingName
from isospace.errors import UserError
from isospace.operators.fitted_whitening import Whitening
from isospace.system.settings import NameOrPath, PathOrText, refuse_idle, settings

Power = float | Literal["flow"] | None
"""How far vectors are whitened; `None` is the model as it is, not even centred."""

POWERS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
"""What `auto` tries by single texts, besides the model as it is."""
PAIR_POWERS = (0.25, 0.5, 0.75, 1.0)
"""What `auto` tries by pairs, besides the model as it is."""
By = Literal["pairs", "texts"]


@settings
class WhitenConfig:
    """One whitening of one model.

    Raises:
        UserError: a value that a setting cannot have; the message names the setting.
    """

    model: NameOrPath = "minilm"
    """minilm, a model folder, the folder of a run, a Hub name, or glove:FILE for word vectors."""
    text: CorpusConfig = field(default_factory=CorpusConfig)
    """The text to fit on, and how it is cleaned."""
    by: By | None = None
    """Which covariance whitens: pairs is that of the differences between texts of the corpus that
    belong together, texts that of single texts. Default: pairs where the corpus has 100 of them."""
    power: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = "auto"
    """How far to whiten: 0 only centres the vectors, 1 whitens them fully. auto tries several, and
    takes the one by which most pairs of held-out texts find each other, or leaves the model as it
    is. A flow knows 1 and auto only."""
    whitening: Whitening = field(default_factory=Whitening)
    """Which whitening, and how the covariance is estimated."""
    sentences: Annotated[int, Field(ge=2)] | None = None
    """Fit on so many sentences or pairs, spread evenly over the text; default: all sentences, or at
    most 6,000 pairs."""
    pooling: PoolingName | None = None
    """How the vectors of tokens become one of the sentence; default: as the model does it."""
    query_prompt: str | None = None
    """Put before the first text of every pair, such as "query: ", or the name of one of the
    encoder's own prompts; "" for none. Default: the encoder's own query prompt, if it has one."""
    document_prompt: str | None = None
    """Put before the sentences to fit on and before the second text of every pair, in the same way.
    Default: the encoder's own document, passage or corpus prompt."""
    pairs: PathOrText | None = None
    """A file of two columns, texts that belong together, on which the verdict is reached; default:
    natural pairs of the held-out text, or else halves of its sentences."""
    data: NameOrPath | None = None
    """Folder with the STS sets in SentEval's layout, or hub; default: ISOSPACE_DATA, if set."""
    other_text: Files = ()
    """Other text, read as a corpus is by default: what happens to its held-out pairs is said beside
    the verdict, with small sets that isospace brings along and STS (`data`)."""
    output: PathOrText | None = None
    """The folder to write the model to."""

    def __post_init__(self) -> None:
        if self.whitening.kind == "flow" and self.power not in ("auto", 1):
            raise UserError(
                f"`power` {self.power}: a flow goes all the way or not at all; give 1, or auto"
            )
        if self.power == 0:
            refuse_idle(self.whitening, "a `power` above 0", "shrinkage")

        if self.by == "pairs" and (reason := self.why_not_pairs):
            raise UserError(f"`by` pairs: {reason}; leave it out, or give `by` texts")

    @property
    def why_not_pairs(self) -> str | None:
        """Why these settings whiten by single texts alone; `None` where pairs can."""
        if self.whitening.kind != "pca":
            return f"`kind` {self.whitening.kind} is fitted on single texts"
        if self.whitening.remove:
            return "`remove` counts directions in which single texts vary most"
        return None

    def powers(self, by: By) -> list[Power]:
        """What is tried; a model that is asked for in another shape cannot stay as it is."""
        if self.whitening.kind == "flow":
            return [None, "flow"] if self.power == "auto" else ["flow"]
        if self.power != "auto":
            return [self.power]
        reshaped = self.whitening.dim is not None or self.whitening.remove > 0
        powers = PAIR_POWERS if by == "pairs" else POWERS
        return [*powers] if reshaped else [None, *powers]
