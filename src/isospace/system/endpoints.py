"""OpenAI-compatible endpoints: the address that a user names, and the client for vectors.

The package `openai` handles time-outs, and retries with back-off and `Retry-After`.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from isospace.errors import UserError, first_line
from isospace.system.consent import DEFAULT_KEY, OPENAI, Consent

if TYPE_CHECKING:
    import openai

SECONDS = 120.0
"""Time in which an endpoint must answer a request."""
FIRST_RETRIES, RETRIES = 2, 8
"""Number of retries of a request before and after the first answer; a wrong port never answers."""


@dataclass(frozen=True)
class Address:
    """A model behind an endpoint, whose URL has no slash at the end."""

    url: str
    model: str

    @classmethod
    def parse(cls, value: str) -> Address:
        """Read an address such as http://localhost:8080/v1#NAME.

        >>> Address.parse("http://localhost:8080/v1/#nomic/embed")
        Address(url='http://localhost:8080/v1', model='nomic/embed')
        """
        url, _, model = value.partition("#")
        try:
            parts = urlsplit(url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname)
            parts.port  # noqa: B018 - raises if it is not a number
        except ValueError:
            known = False
        if known and ("@" in parts.netloc or parts.query):
            raise UserError(
                "`model`: an address is written into files, so it must hold no password and "
                "no key. Put the key into an environment variable, and name that with `api_key_env`"
            )
        if not known or not model:
            raise UserError(
                f"`model` {value}: expected an address and a model's name, such as "
                "http://localhost:8080/v1#NAME. In a shell, quote it"
            )
        return cls(url.rstrip("/"), model)

    @property
    def host(self) -> str:
        """Name of the machine."""
        return urlsplit(self.url).hostname or ""

    def __str__(self) -> str:
        return f"{self.url}#{self.model}"


def is_address(name: str) -> bool:
    """Return true if the name of a model is an address: http:// or https://."""
    return name.startswith(("http://", "https://"))


class Endpoint:
    """The client of a model behind an address; several threads may share it.

    Raises:
        UserError: the key is missing.
    """

    def __init__(self, address: Address, consent: Consent) -> None:
        import openai

        self.address, self._consent = address, consent
        self._key = consent.key(address.host)
        # No redirects: text goes only to the host that the user named.
        http = openai.DefaultHttpxClient(follow_redirects=False)
        self._client = openai.OpenAI(
            base_url=address.url,
            api_key=self._key or "none",
            timeout=SECONDS,
            max_retries=FIRST_RETRIES,
            http_client=http,
        )
        weakref.finalize(self, http.close)
        if address.host != OPENAI:  # both are settings for OpenAI alone
            self._client.organization = self._client.project = None

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts by one request to /embeddings, (text, dim).

        Raises:
            UserError: the request failed, or the answer is not a finite vector for each text.
        """
        import openai

        create = self._client.embeddings.with_raw_response.create
        try:
            response = create(model=self.address.model, input=list(texts), encoding_format="float")
        except openai.APIError as error:
            raise UserError(f"{self.address}: {self._in_words(error)}") from None
        self._client.max_retries = RETRIES
        try:
            content = response.http_response.json()
            return _vectors(content["data"], len(texts))
        except (ValueError, TypeError, LookupError) as error:
            raise UserError(
                f"{self.address}: expected {len(texts)} vectors from /embeddings "
                f"({type(error).__name__}: {first_line(error)[:200]})"
            ) from None

    def _in_words(self, error: openai.APIError) -> str:
        """Return the message for an error: what is wrong, and what to do."""
        import openai

        if isinstance(error, openai.APITimeoutError):
            return (
                f"no answer within {SECONDS:g} s. Is the server overloaded, or still loading "
                "the model? Answers so far are kept; run the command again"
            )
        if isinstance(error, openai.APIConnectionError):
            cause = first_line(error.__cause__ or error)  # type: ignore[arg-type]
            return f"no connection ({cause}). Is the server running, on this host and port?"
        status = getattr(error, "status_code", None)
        said = f"{status}: {self._said(error)}"
        if status in (401, 403):
            key = f"the key in {self._consent.key_env or DEFAULT_KEY}" if self._key else "no key"
            return f"refused {key} ({said}). Name the variable of a valid key by `api_key_env`"
        if status == 404:
            return (
                f"not found ({said}). Check the path, which mostly ends in /v1, and the model's "
                f"name; {self.address.url}/models lists the names"
            )
        if status is not None and (status == 429 or status >= 500):
            return (
                f"no answer after several tries ({said}). Answers so far are kept; run the command "
                "again later"
            )
        return f"refused the request ({said})"

    def _said(self, error: openai.APIError) -> str:
        """Return the endpoint's own error message, shortened and without the key."""
        body: Any = error.body
        if isinstance(body, Mapping):
            body = body.get("message") or body.get("detail") or body.get("error") or error.message
        said = re.sub(r"\s+", " ", str(body or error.message)).strip()
        if self._key:
            said = said.replace(self._key, "***")
        return said if len(said) <= 200 else f"{said[:200]} ..."


def _vectors(items: Any, count: int) -> NDArray[np.float32]:
    """Return the vectors of an answer in the order of the request, (count, dim); refuse others."""
    places = [item.get("index", place) for place, item in enumerate(items)]
    if sorted(places) != list(range(count)):
        raise ValueError(
            f"{len(items)} vectors came back, and their `index` values are not 0 to {count - 1}"
        )
    rows = [np.array(item["embedding"], np.float32).reshape(-1) for item in items]  # null is NaN
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1 or not widths[0]:
        raise ValueError(f"their widths are {widths}")
    vectors = np.stack([rows[at] for at in np.argsort(places)])
    bad = ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        raise ValueError(f"{bad.sum()} of them hold NaN or infinity, the first at {bad.argmax()}")
    return vectors
