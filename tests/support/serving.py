"""Endpoints on this machine, and other apps: under uvicorn, in a thread of the tests."""

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from isospace.encoders.encoder import Encoder

Script = Callable[[str], "str | Response"]
"""Answers the text of a request; a `Response` is sent as it is."""
Change = Callable[[list[dict[str, Any]]], Any]
"""Changes the items of a good answer; a `Response` is sent as it is."""
_number = count()
"""Tells servers apart: answers of one serve no other, whatever their ports."""


@contextmanager
def serving(app: Starlette) -> Iterator[str]:
    """Run an app on a free port inside the block, and give its address."""
    config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        running(uvicorn.Server(config), listener) as port,
    ):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def running(server: uvicorn.Server, listener: socket.socket) -> Iterator[int]:
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


class ChatServer:
    """Answers of a script to the text of a request, and what was asked for."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.model = f"toy-{next(_number)}"
        self.asked: list[str] = []
        self.address = ""
        route = Route("/v1/chat/completions", self._complete, methods=["POST"])
        self.app = Starlette(routes=[route])

    async def _complete(self, request: Request) -> Response:
        asked = await request.json()
        return await run_in_threadpool(self._answer, asked["messages"][0]["content"])

    def _answer(self, text: str) -> Response:
        self.asked.append(text)
        answer = self.script(text)
        return answer if isinstance(answer, Response) else said(answer)


def said(text: str | None, **message: Any) -> Response:
    """An answer of a language model, as the API writes it."""
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text, **message},
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return JSONResponse(
        {"id": "1", "object": "chat.completion", "created": 0, "model": "toy"}
        | {"choices": [choice], "usage": usage}
    )


@contextmanager
def chatting(script: Script) -> Iterator[ChatServer]:
    server = ChatServer(script)
    with serving(server.app) as address:
        server.address = f"{address}/v1#{server.model}"
        yield server


class EmbeddingServer:
    """OpenAI's /v1/embeddings, as many servers speak it; a test can spoil its answers."""

    def __init__(self, encoder: Encoder) -> None:
        self.url = ""
        self.sent: Counter[str] = Counter()
        self.headers: dict[str, str] = {}
        self.spoil: list[Change] = []
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
    server = EmbeddingServer(encoder)
    with serving(server.app) as address:
        server.url = f"{address}/v1"
        yield server
