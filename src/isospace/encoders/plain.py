"""Plain Hugging Face models, which do not say how vectors are made of their hidden states.

What isospace exports says it in config.json, under a key of its own, and beside it the prompts. Of
other models it is assumed, and said.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

from isospace.encoders.encoder import Encoder
from isospace.encoders.pooling import PoolingName
from isospace.errors import UserError
from isospace.system.quiet import warn_once
from isospace.system.settings import adapter
from isospace.system.typed_json import first_problem

KEY = "isospace"
"""The key in config.json of what isospace says; that of the prompts is their own."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Making:
    """How a model makes vectors.

    Attributes:
        pooling: name in `POOLINGS`.
        max_length: longest input in tokens; `None`: no limit is known.
        normalised: whether vectors have length 1.
        prompts: name -> text, as `SentenceTransformer.prompts`.
        default_prompt_name: of the prompt of texts without a side.
    """

    pooling: PoolingName
    max_length: int | None
    normalised: bool
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None


def take_making(model: SentenceTransformer, source: str) -> Making | None:
    """Take out of a model's configuration what an export wrote there; `None` where it did not.

    Raises:
        UserError: somebody has changed it to what has no meaning.
    """
    config = getattr(getattr(model[0], "model", None), "config", None)
    settings: dict[str, Any] = {} if config is None else vars(config)
    if KEY not in settings:
        return None
    content = {KEY: settings.pop(KEY)}
    for name in ("prompts", "default_prompt_name"):
        if name in settings:
            content[name] = settings.pop(name)
    try:
        anything: Any = Making
        making: Making = adapter(anything).validate_python({**content.pop(KEY), **content})
        return making
    except (ValidationError, TypeError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else error
        raise UserError(
            f"{source}: config.json, {KEY}: {problem}. Export the model again"
        ) from error


def follow(model: SentenceTransformer, making: Making) -> None:
    """Have a plain model make vectors as an export says, but for the pooling."""
    if making.max_length is not None:
        model.max_seq_length = making.max_length
    if making.normalised:
        model.append(Normalize())
    model.prompts = dict(making.prompts)
    model.default_prompt_name = making.default_prompt_name


def pooling_of(
    encoder: Encoder, making: Making | None, given: PoolingName | None
) -> PoolingName | None:
    """Choose the pooling of a plain model, and log what is assumed where nothing says it.

    Args:
        encoder: the model, with sentence-transformers' own pooling.
        making: what the model says of itself.
        given: the pooling that the user gave.

    Returns:
        The pooling; `None` for the one that the encoder has.
    """
    if making is not None:
        return given or making.pooling
    chosen = given
    if given is None and encoder.pooling == "mean" and encoder.is_causal:
        chosen = "lasttoken"  # no earlier state has seen the whole text
    parts = [] if given is not None else [f"pooling {chosen or encoder.pooling}"]
    if encoder.max_length is not None:
        parts.append(f"texts cut to {encoder.max_length} tokens")
    parts += ["no prompts of its own", "no normalisation"]
    warn_once(
        logger,
        f"{encoder.source}: a plain Hugging Face model does not say how it makes vectors. Assumed: "
        f"{', '.join(parts)}. If it was trained otherwise, give `pooling`, `query_prompt` or "
        "`document_prompt`; export with `to` st writes a folder that says them",
    )
    return chosen
