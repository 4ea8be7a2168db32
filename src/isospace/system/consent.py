"""Consent of the user: to send text to an endpoint, and to run the code of models.

The key of an endpoint comes from an environment variable that the user names; it is neither written
nor logged. A file can never allow code, not even the settings of a run or of an index.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from isospace.errors import UserError
from isospace.system.progress import Logged, Progress

ASKED_FROM = 1_000_000
"""Number of tokens from which the user is asked before text is sent."""
DEFAULT_KEY = "OPENAI_API_KEY"
OPENAI = "api.openai.com"
_BYTES = 4  # bytes of UTF-8 per token, roughly, for English and for Japanese


@dataclass(frozen=True)
class Consent:
    """Consent of the user of this process. It never comes from a file.

    Attributes:
        key_env: the environment variable that holds the key. Default: OPENAI_API_KEY for
            api.openai.com, and no key for any other host.
        yes: send as much text as the command needs, without asking.
        ask: shows a question and returns the answer; `None`: the user cannot be asked.
        named: words of the command, of which one must name the endpoint; `None` in Python code.
    """

    key_env: str | None = None
    yes: bool = False
    ask: Callable[[str], bool] | None = None
    named: Sequence[str] | None = None
    progress: Progress = Logged()  # noqa: RUF009 - without state

    def require_named(self, address: str, source: str = "") -> None:
        """Refuse to send text to an endpoint that only a file names; this machine is allowed.

        `source` is the file or folder that names the endpoint, if any.
        """
        if re.match(r"https?://(localhost|127\.\d+\.\d+\.\d+|\[::1\])[:/]", address):
            return
        words = self.named if self.named is not None else [] if source else [address]
        if not any(address in word.replace("/#", "#") for word in words):
            raise UserError(
                f"{source or 'a file'} names the endpoint {address}, and no text is sent to an "
                f"endpoint that is not named in the command. Add `endpoint` '{address}'"
            )

    def key(self, host: str) -> str | None:
        """Return the key for an endpoint on a host; `None` if there is no key."""
        if self.key_env is not None:
            if not self.key_env.isidentifier():  # not shown, as it may be a key
                raise UserError("`api_key_env`: expected the name of a variable that holds the key")
            key = os.environ.get(self.key_env, "").strip()
            if not key:
                raise UserError(
                    f"`api_key_env` {self.key_env}: this variable is empty. Set it to the key"
                )
            return key
        return os.environ.get(DEFAULT_KEY) if host == OPENAI else None


_consent: ContextVar[Consent] = ContextVar("consent", default=Consent())  # noqa: B039 - frozen


def current_consent() -> Consent:
    """Return the current consent."""
    return _consent.get()


@contextmanager
def consenting(consent: Consent) -> Iterator[None]:
    """Use a consent for all endpoints that are called within the context."""
    token = _consent.set(consent)
    try:
        yield
    finally:
        _consent.reset(token)


def estimated_tokens(texts: Iterable[str]) -> int:
    """Estimate the number of tokens of texts: a token for every four bytes.

    >>> estimated_tokens(["How do I reset the device?"])
    6
    """
    return sum(len(text.encode("utf-8", "replace")) for text in texts) // _BYTES


def announce(
    address: object,
    what: str,
    tokens: int,
    progress: Progress | None = None,
    consent: Consent | None = None,
) -> None:
    """Show how much text is about to be sent, such as "41,000 texts", and ask if it is much.

    Raises:
        UserError: the user does not agree, or cannot be asked.
    """
    consent = consent or current_consent()
    cost = f"{what}, about {in_short(tokens)} tokens, to {address}"
    (progress or consent.progress).line("cost", cost)
    if tokens < ASKED_FROM or consent.yes:
        return
    if consent.ask is None:
        raise UserError(f"{cost}: nothing was sent. To send it, give `yes`")
    if not consent.ask(f"{cost}. Go on?"):
        raise UserError(f"{cost}: nothing was sent, as you decided")


def in_short(count: int) -> str:
    """Return a number of tokens as short text.

    >>> in_short(812), in_short(41_234), in_short(3_149_000)
    ('812', '41 k', '3.1 M')
    """
    if count < 1_000:
        return str(count)
    return f"{count / 1e3:.0f} k" if count < 999_500 else f"{count / 1e6:.1f} M"


SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Environment of child processes. It stops Python from importing modules from the current folder,
where a file such as random.py could hold any code."""

_trusted: ContextVar[bool] = ContextVar("trusted", default=False)


def trusts_code() -> bool:
    """Return true if a model's own code may run."""
    return _trusted.get()


@contextmanager
def trusting_code(trusted: bool = True) -> Iterator[None]:
    """Let the code of models that are loaded within the context run; false changes nothing.

    >>> with trusting_code():
    ...     trusts_code()
    True
    """
    token = _trusted.set(trusted or trusts_code())
    try:
        yield
    finally:
        _trusted.reset(token)
