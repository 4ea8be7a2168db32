"""Settings of `adapt`, which the command line shows as its help without importing torch."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, Strict

from isospace.config import Files, ModelAndText, Output, PrecisionChoice, TrainConfig, amount_of
from isospace.errors import UserError
from isospace.recipes import find
from isospace.system.settings import NameOrPath, PathOrText, settings

_Unit = Literal["minutes", "tokens"]


@settings
class AdaptConfig(ModelAndText):
    """Settings of one search: the text, the encoder, and the budget."""

    model: NameOrPath = "minilm"
    """The base model: minilm, a model folder, the folder of a run, or a Hub name; or an endpoint
    (http://HOST/v1#NAME) or vectors:FILE, behind which linear maps alone are tried. Its choice can
    matter more than adapting; `models` compares several."""
    models: Files = ()
    """Base models to compare instead of `model`, two or more. Each is whitened and tested on the
    same pairs; the best on validation pairs is fine-tuned."""
    budget: Annotated[tuple[PositiveFloat, _Unit], Strict(False), amount_of(_Unit)] = (
        6.0,
        "minutes",
    )
    """How much time the search may take: minutes, or tokens to train on. Tokens give the same
    result on every machine of a kind."""
    max_drop: NonNegativeFloat = 2.0
    """Largest drop on other text, in points of 100; a candidate that drops more is rejected. Give
    0.5 for a model that must serve other text too."""
    teacher: NameOrPath | None = None
    """A teacher whose ranking the fine-tuning follows: base+bm25, an encoder, a cross-encoder, or a
    file of query, passage and score. Default: no teacher; train on the pairs alone."""
    queries: PathOrText | None = None
    """A file of real or generated queries, alone or with their passages: further pairs to train on.
    Nothing is measured on them."""
    queries_only: bool = False
    """Change the vectors of queries alone. Documents keep those of `model`, bit for bit, and an
    index of them stays valid. A fine-tuned model then holds two encoders."""
    max_length: Annotated[int, Field(ge=3)] | None = None
    """Number of tokens to which training cuts each text. Default: that of the recipes `isospace
    recipes pairs` and dropout."""
    precision: PrecisionChoice = "auto"
    """Arithmetic of training. auto takes bf16 where the processor has it."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 42
    """Random seed of the training."""
    output: Output = None
    """The folder of the run. Default: a new folder in runs/, named by date and model."""

    def __post_init__(self) -> None:
        if self.queries_only and self.teacher is not None:
            raise UserError(
                "`teacher` is for fine-tuning queries and documents; leave `teacher` or "
                "`queries_only` out"
            )
        if not self.models:
            return
        if len(set(self.models)) < max(2, len(self.models)):
            raise UserError(f"`models` {' '.join(self.models)}: name two or more different models")
        for name in ("model", "queries_only", "pooling", "query_prompt", "document_prompt"):
            if getattr(self, name) != getattr(AdaptConfig, name):
                raise UserError(f"`{name}` is for one base model; leave `{name}` or `models` out")

    def training(self, recipe: str) -> TrainConfig:
        """Return the settings of a training by a recipe."""
        base = find(recipe).config
        shared = {one.name: getattr(self, one.name) for one in fields(ModelAndText)}
        return replace(
            base,
            **shared,
            max_length=self.max_length or base.max_length,
            precision=self.precision,
            seed=self.seed,
            queries=self.queries if base.views == "pairs" else None,
        )

    @classmethod
    def read(cls, path: Path) -> AdaptConfig:
        """Read the settings from the file in the folder of a run."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (UserError, ValueError, TypeError, RecursionError) as error:
            raise UserError(
                f"{path}: not the settings of adapt: {error}. If another version of isospace wrote "
                "them, run adapt again"
            ) from error
