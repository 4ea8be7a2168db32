"""Endpoints on this machine, and other apps: under uvicorn, in a thread of the tests."""

import asyncio
import json
import socket
import threading
from collections import Counter
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


@contextmanager
def serving(app):
    """Run an app on a free port inside the block, and give its address."""
    config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        running(uvicorn.Server(config), listener) as port,
    ):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def running(server, listener):
    """Run a server on a socket inside the block, and give its port."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


class EmbeddingServer:
    """OpenAI's /v1/embeddings, as many servers speak it.

    A function in `spoil` changes the items of a good answer, or replaces them by a `Response`.
    """

    def __init__(self, encoder):
        self.url = ""
        self.sent = Counter()
        self.headers = {}
        self.spoil = []
        self.delay = 0.0
        self._encoder = encoder
        self.app = Starlette(routes=[Route("/v1/embeddings", self._embeddings, methods=["POST"])])

    async def _embeddings(self, request):
        asked = await request.json()
        self.headers = dict(request.headers)
        await asyncio.sleep(self.delay)
        if asked["model"] != "toy":
            return refusal(404, f"The model `{asked['model']}` does not exist")
        vectors = self._encoder.embed(asked["input"])
        items = [
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


def refusal(status, message, **headers):
    """An error as OpenAI's API gives it."""
    return JSONResponse({"error": {"message": message}}, status, headers=headers)


@contextmanager
def served(encoder):
    server = EmbeddingServer(encoder)
    with serving(server.app) as address:
        server.url = f"{address}/v1"
        yield server
