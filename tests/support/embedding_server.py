"""An embedding endpoint: a Starlette app around a local encoder, run by uvicorn in a thread.

It speaks OpenAI's /v1/embeddings as vLLM, TEI, llama.cpp, Ollama and the hosted services do.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from serving import serving
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from isospace.encoders.encoder import Encoder

Answer = Callable[[list[dict[str, Any]]], Any]
"""Changes the items of a good answer; a `Response` is sent as it is."""


class EmbeddingServer:
    """A server whose answers a test can spoil."""

    def __init__(self, encoder: Encoder) -> None:
        self.url = ""
        self.sent: Counter[str] = Counter()
        self.headers: dict[str, str] = {}
        self.spoil: list[Answer] = []
        self.delay = 0.0
        self._encoder = encoder
        self.app = Starlette(routes=[Route("/v1/embeddings", self._embeddings, methods=["POST"])])

    async def _embeddings(self, request: Request) -> Response:
        asked = await request.json()
        self.headers = dict(request.headers)
        await asyncio.sleep(self.delay)
        if asked["model"] != "toy":
            return refusal(404, f"The model `{asked['model']}` does not exist")
        vectors = self._encoder.embed(asked["input"])
        items: Any = [
            {"object": "embedding", "index": place, "embedding": vector.tolist()}
            for place, vector in enumerate(vectors)
        ]
        items.reverse()  # `index` tells the order, and servers may use it
        if self.spoil:
            items = self.spoil.pop(0)(items)
        if isinstance(items, Response):
            return items
        self.sent.update(asked["input"])
        # Starlette's own JSON refuses NaN, which some servers send.
        return Response(json.dumps({"object": "list", "data": items, "model": "toy"}))


def refusal(status: int, message: str, **headers: str) -> JSONResponse:
    """An error as OpenAI's API gives it."""
    return JSONResponse({"error": {"message": message}}, status, headers=headers)


@contextmanager
def served(encoder: Encoder) -> Iterator[EmbeddingServer]:
    """A server on a free port of this machine."""
    server = EmbeddingServer(encoder)
    with serving(server.app) as address:
        server.url = f"{address}/v1"
        yield server
