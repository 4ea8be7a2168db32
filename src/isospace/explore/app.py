"""The pages of `explore` as a Starlette application, with a server for this machine only."""

from __future__ import annotations

import re
import socket
from functools import cached_property
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import uvicorn
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from isospace.errors import UserError
from isospace.evaluation.geometry import NEIGHBOURS
from isospace.explore.session import (
    LONGEST,
    LONGEST_SHOWN,
    MOST_NEIGHBOURS,
    MOST_SENTENCES,
    Session,
)
from isospace.report.write import space_of, templates

HOST = "127.0.0.1"
_WORD = re.compile(r"(\w+)")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}
_FILES = {"explore.css": "text/css", "icon.svg": "image/svg+xml"}


class Pages:
    """Responses to the requests.

    The coroutines do not await while a model computes, so one request at a time uses the models.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._templates = templates("isospace.explore")
        # A tie can give half a rank: 1,204 and 2.5.
        rank = "{:,.12g}".format
        self._templates.filters.update(marked=marked, shade=shade, cosine=cosine, rank=rank)

    async def neighbours(self, request: Request) -> Response:
        """Answer with a text box, and after a query with its nearest texts by each model."""
        query, k = request.query_params.get("q"), request.query_params.get("k", str(NEIGHBOURS))
        neighbours, error = None, ""
        if query is not None:
            try:
                neighbours = self._session.neighbours(
                    query, int(k) if re.fullmatch(r"\d{1,9}", k) else 0
                )
            except UserError as refused:
                error = str(refused)
        return self._page("neighbours.html", error, query=query or "", k=k, neighbours=neighbours)

    async def similarities(self, request: Request) -> Response:
        """Answer with a box for sentences, and a heat map of their cosines for each model."""
        result, error = None, ""
        text = "\n".join(self._session.suggestion)
        try:
            if request.method == "POST":
                body = (await request.body()).decode("utf-8", "replace")
                text = parse_qs(body).get("sentences", [""])[0]
            if request.method == "POST" or len(self._session.suggestion) > 1:
                result = self._session.similarities(text)
        except UserError as refused:
            error = str(refused)
        return self._page("similarities.html", error, text=text, result=result)

    async def geometry(self, request: Request) -> Response:
        """Answer with measures and singular values, computed at the first request."""
        return self._page("geometry.html", geometry=self._geometry)

    @cached_property
    def _geometry(self) -> dict[str, Any] | None:
        return geometry_of(self._session)

    async def file(self, request: Request) -> Response:
        """Answer with a file that the pages need."""
        name = request.url.path.removeprefix("/")
        text = self._templates.get_template(name).render()
        return Response(text, media_type=_FILES[name], headers=_HEADERS)

    async def refusal(self, request: Request, refused: Any) -> Response:
        """Answer a request for a page that does not exist, or by a wrong method."""
        status = HTTPStatus(refused.status_code)
        return self._page("error.html", f"{status.phrase}.", status)

    def _page(
        self, template: str, error: str = "", status: int = 400, **content: Any
    ) -> HTMLResponse:
        page = self._templates.get_template(template).render(
            session=self._session,
            page=template,
            error=error,
            longest=LONGEST,
            most_neighbours=MOST_NEIGHBOURS,
            most_sentences=MOST_SENTENCES,
            **content,
        )
        return HTMLResponse(page, status if error else 200, headers=_HEADERS)


def geometry_of(session: Session) -> dict[str, Any] | None:
    """Measure and draw the space of each model, for geometry.html; `None` for too few texts."""
    spaces = {f"{model.letter}: {model.name}": model.sample for model in session.models}
    return space_of(spaces, "spectra", "Line chart: singular values")


def make_app(session: Session) -> Starlette:
    """Make the application; it answers only its own pages, under the names of this machine.

    Another name in a request's Host header means DNS rebinding: a foreign page made its own name
    point to this machine, to read our pages.
    """
    pages = Pages(session)
    routes = [
        Route("/", pages.neighbours),
        Route("/similarities", pages.similarities, methods=["GET", "POST"]),
        Route("/geometry", pages.geometry),
        *(Route(f"/{name}", pages.file) for name in _FILES),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])],
        exception_handlers={HTTPException: pages.refusal},
    )


def listen(port: int) -> socket.socket:
    """Open a socket that only this machine can reach; port 0 takes any free port."""
    if not 0 <= port < 1 << 16:
        raise UserError(f"`port` {port}: expected 1 to 65535, or 0 for any that is free")
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise UserError(
            f"`port` {port}: {HOST}:{port} cannot be used ({error}); give another"
        ) from error


def make_server(session: Session) -> uvicorn.Server:
    """Make the server; its `run(sockets=[listen(port)])` answers until Ctrl-C."""
    config = uvicorn.Config(
        make_app(session), log_level="warning", lifespan="off", ws="none", server_header=False
    )
    return uvicorn.Server(config)


def marked(text: str, query: str) -> list[tuple[str, bool]]:
    """Split a cut text into pieces, each with true if it is a word of the query, in any case.

    >>> marked("A dog runs.", "The dogs of a DOG")
    [('A', False), (' ', False), ('dog', True), (' ', False), ('runs', False), ('.', False)]
    """
    words = {word.casefold() for word in _WORD.findall(query)} - ENGLISH_STOP_WORDS
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
    return [(piece, piece.casefold() in words) for piece in _WORD.split(shown) if piece]


def shade(value: float) -> str:
    """Return the CSS classes of a cell of the heat map: its tenths, and `below` if negative.

    >>> shade(0.72), shade(-0.31)
    ('c7', 'c3 below')
    """
    tenths = min(10, round(abs(float(value)) * 10))
    return f"c{tenths} below" if value < 0 and tenths else f"c{tenths}"


def cosine(value: float) -> str:
    """Return a cosine as text with two decimals, without a negative zero.

    >>> cosine(-0.001), cosine(0.734)
    ('0.00', '0.73')
    """
    return f"{np.round(value, 2) + 0.0:.2f}"
