"""Settings of an encoder: precision, pooling, and the prompts before queries and documents.

Classes of settings import this module, so it does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from isospace.system.settings import settings

Precision = Literal["float32", "bf16"]
PoolingName = Literal["cls", "mean", "first_last", "embedding_last", "last2", "lasttoken"]


POOLINGS: dict[PoolingName, tuple[tuple[int, ...], Literal["cls", "mean", "lasttoken"]]] = {
    "cls": ((-1,), "cls"),
    "mean": ((-1,), "mean"),
    "first_last": ((1, -1), "mean"),
    "embedding_last": ((0, -1), "mean"),
    "last2": ((-2, -1), "mean"),
    "lasttoken": ((-1,), "lasttoken"),
}
"""Pooling -> the layers whose mean is pooled, and the tokens: the first, the mean, or the last.

Layers are indices into `hidden_states` of transformers, where 0 is the embedding layer and L the
last of L layers; negative: from L. Papers use "first-last average" for two poolings: SimCSE and
WhitenedCSE average layers 1 and L, SCD and SimCSE++ average layers 0 and L.
"""


@settings
class EncoderSettings:
    """Settings that make a model an encoder; `None`: as the model itself says."""

    _: KW_ONLY
    pooling: PoolingName | None = None
    """How token vectors become one vector of the text. Default: the model's own pooling."""
    query_prompt: str | None = None
    """Put before every query, such as "query: "; "" for none. Default: the model's own query
    prompt."""
    document_prompt: str | None = None
    """Put before every document, in the same way. Default: the model's own document, passage or
    corpus prompt."""


Side = Literal["query", "document"]
"""Side of a text in search: queries find documents. Texts compared with each other have no side."""
SIDES: tuple[Side | None, ...] = (None, "query", "document")

NAMES: dict[Side, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}
"""Names that encoders use for the prompts of a side; the first non-empty prompt counts."""


@dataclass(frozen=True)
class Prompts:
    """The prompts of queries, of documents, and of texts without a side.

    `default_route` is the side whose modules encode texts without a side (`Router`).
    """

    plain: str = ""
    query: str = ""
    document: str = ""
    default_route: Side | None = None

    @classmethod
    def of_model(cls, prompts: Mapping[str, str | None], default: str | None) -> Prompts:
        """Return the prompts of a model, by the rules of sentence-transformers.

        But an empty `document` prompt does not hide a `passage` prompt. `default` names the prompt
        of texts without a side.

        >>> Prompts.of_model({"query": "query: ", "document": "", "passage": "passage: "}, None)
        Prompts(plain='', query='query: ', document='passage: ', default_route=None)
        """
        query, document = (
            next((text for name in names if (text := prompts.get(name))), "")
            for names in NAMES.values()
        )
        return cls(prompts.get(default or "") or "", query, document)

    def for_side(self, side: Side | None) -> str:
        """Return the prompt of a side; `None`: texts without a side."""
        return {None: self.plain, "query": self.query, "document": self.document}[side]

    def with_text(self, side: Side | None, text: str) -> Prompts:
        """Return a copy of the prompts with a new text for a side."""
        changed: dict[str, Any] = {side or "plain": text}
        return replace(self, **changed)

    @property
    def routed(self) -> bool:
        """True if queries and documents have different modules (`Router`)."""
        return self.default_route is not None

    def way(self, side: Side | None) -> tuple[str, bool]:
        """Return a key of how a side is encoded; sides with equal keys have equal vectors."""
        return self.for_side(side), self.routed and (side or self.default_route) == "query"

    @property
    def sides(self) -> tuple[Side | None, ...]:
        """The sides with different vectors; of sides with equal vectors, the first of `SIDES`."""
        return tuple({self.way(side): side for side in reversed(SIDES)}.values())

    @property
    def summary(self) -> str | None:
        """The prompts in a line; `None` without any.

        >>> Prompts(query="query: ").summary
        "queries 'query: ', documents ''"
        """
        if not any((self.plain, self.query, self.document)):
            return None
        parts = [f"queries {self.query!r}", f"documents {self.document!r}"]
        return ", ".join(parts + ([f"other texts {self.plain!r}"] if self.plain else []))


def side_of(text: int, texts: int) -> Side:
    """Return the side of a text of a training example: the first of several is the query.

    >>> side_of(0, 1), side_of(0, 2), side_of(1, 2)
    ('document', 'query', 'document')
    """
    return "query" if text == 0 and texts > 1 else "document"
