"""Apps under uvicorn, in a thread of the tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette


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
