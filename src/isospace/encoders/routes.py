"""Encoders whose queries pass other modules than their documents do.

Such a model ends with sentence-transformers' `Router`, which has a list of modules for the route
"query" and another for "document". Texts without a side take the route of documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Router
from torch import nn

from isospace.encoders.prompts import Prompts, Side
from isospace.errors import UserError

_ROUTES = {"query", "document"}


def router_of(model: SentenceTransformer, source: str) -> Router | None:
    """Return the router that ends a model; `None` where all texts pass the same modules.

    Raises:
        UserError: a router at another place, or with other routes.
    """
    routers = [module for module in model if isinstance(module, Router)]
    if not routers:
        return None
    last = routers[-1]
    if (
        len(routers) == 1
        and last is model[-1]
        and last.sub_modules.keys() == _ROUTES
        and last.default_route == "document"
        and not last.route_mappings
    ):
        return last
    raise UserError(
        f"{source}: isospace reads a Router only as the last module, with the routes query and "
        "document, where document is the default route. Give another model"
    )


def modules_of(model: SentenceTransformer, side: Side | None) -> list[nn.Module]:
    """Return the modules that a text of a side passes, in order."""
    return list(_passed(model, "document" if side is None else side))


def _passed(model: SentenceTransformer, route: Side) -> Iterator[nn.Module]:
    for module in model:
        if isinstance(module, Router):
            yield from cast(nn.Sequential, module.sub_modules[route])
        else:
            yield module


def require_one_way(prompts: Prompts, source: str, what: str) -> None:
    """Refuse an encoder whose queries pass other modules than its documents.

    Args:
        prompts: of the encoder.
        source: where it came from, for the message.
        what: needs one way for all texts.
    """
    if prompts.routed:
        raise UserError(
            f"{source}: maps queries alone (Router), and {what} needs the same modules for all "
            "texts. Give the base model that it was made of"
        )
