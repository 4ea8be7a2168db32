"""Settings of `distill`; the command line shows them as its help, so heavy imports are avoided."""

from __future__ import annotations

from dataclasses import field

from isospace.config import CorpusConfig
from isospace.system.settings import NameOrPath, PathOrText, settings


@settings
class DistillConfig:
    """Settings of a static twin of an encoder.

    Raises:
        UserError: a setting has an invalid value; the message names the setting.
    """

    model: NameOrPath = "minilm"
    """The encoder to replace: the folder of a run of adapt or train, which names its corpus; or any
    other model, with `corpus`."""
    text: CorpusConfig = field(default_factory=CorpusConfig)
    """The corpus that the twin is for. Default: that of the run."""
    queries_only: bool = False
    """Make a twin for queries alone, for an index of the encoder's own vectors. Documents keep the
    encoder."""
    seed: int = 0
    """Seed of the order of the training pairs."""
    output: PathOrText | None = None
    """The folder to write the twin to."""
