"""A chat endpoint on this machine: a small app under uvicorn in a thread, with scripted answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from serving import serving
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

_number = count()
"""Tells servers apart: answers of one serve no other, whatever their ports."""
Script = Callable[[str], "str | Response"]


class ChatServer:
    """Answers of a script to the text of a request, and what was asked for."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.model = f"toy-{next(_number)}"
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.address = ""

    def answer(self, body: dict[str, Any]) -> Response:
        text = body["messages"][0]["content"]
        self.asked.append(text)
        self.bodies.append(body)
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
    """Serve a script until the block ends."""
    server = ChatServer(script)

    async def complete(request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        return await run_in_threadpool(server.answer, json.loads(await request.body()))

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    with serving(app) as address:
        server.address = f"{address}/v1#{server.model}"
        yield server
