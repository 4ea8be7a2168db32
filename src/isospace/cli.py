"""The command line: each command parses, calls one function, prints.

Exit status: 0 done, 1 stopped before the end, 2 bad input.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import Any

from rich.console import Console as Terminal

import isospace
from isospace.commands import COMMANDS, load_command
from isospace.commands.console import Console, NewestDisplay, ask_user
from isospace.commands.options import as_options
from isospace.commands.parser import ALL, HELP, help_text, parse
from isospace.commands.printing import print_result
from isospace.errors import Interrupted, Stopped, UserError, no_such
from isospace.system.consent import Consent, consenting, trusting_code
from isospace.system.imports import lazy_imports, run_lazy_modules, wait_passively
from isospace.system.signals import end_with_input, is_lost_peer_error, is_main_process
from isospace.system.unicode import in_one_line

_NOT_FOR_OPTIONS = (
    "torch",
    "isospace.objectives.auxiliaries",
    "isospace.objectives.decoders",
    "isospace.objectives.heads",
    "isospace.operators.similarity",
    "isospace.operators.whitening",
    "isospace.views.networks",
)
"""Modules that options do not need: torch, and modules that use it when they are imported."""


class _Warnings(logging.Handler):
    """Print warnings on the current standard error, which the display of a console redirects."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a warning; in warnings of isospace, settings become options."""
        text = self.format(record)
        if record.name.startswith("isospace"):
            text = as_options(text)
        with suppress(OSError):  # nobody reads standard error any more
            sys.stderr.write(f"{text}\n")


def _usage() -> str:
    return "\n".join(
        [
            "usage: isospace COMMAND [OPTIONS], isospace --version",
            "",
            *(f"  {command:<11} {summary}" for command, summary in COMMANDS.items()),
            "",
            f"isospace COMMAND --help shows the everyday options of a command, {ALL} all of them.",
        ]
    )


def _parse(arguments: Sequence[str]) -> Any:
    """Return a command with its options; after a help text the process ends."""
    command, *words = arguments
    if command not in COMMANDS:
        raise UserError(no_such("command", command, COMMANDS, "isospace --help"))
    with lazy_imports(*_NOT_FOR_OPTIONS):
        kind = load_command(command)
        default = kind.defaults(words) if hasattr(kind, "defaults") else None
        if not set(HELP).isdisjoint(words):
            print_result(help_text(kind, command, COMMANDS[command], words, default))
            raise SystemExit
        return parse(kind, command, words, default)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status. `argv` has the words after `isospace`."""
    wait_passively()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed, as `>&-` leaves it
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for good
    if isinstance(sys.stdout, TextIOWrapper):  # a text that the terminal cannot show is no error
        sys.stdout.reconfigure(errors="backslashreplace")
    end_with_input()
    logging.basicConfig(
        level=logging.WARNING, format="%(levelname)s %(message)s", handlers=[_Warnings()]
    )
    try:
        try:
            status = _run(arguments)
        except SystemExit as stop:
            status = int(stop.code or 0)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of the output has seen enough, such as `head`
        return 1
    except (UserError, Stopped, KeyboardInterrupt, OSError) as error:
        if is_main_process() or not isinstance(error, Interrupted):  # in all processes at once
            _say(error)
        return 2 if isinstance(error, UserError) else 1
    except RuntimeError as error:
        if not is_lost_peer_error(error):
            raise
        _say(Stopped("another process of this run stopped, so this one stops too"))
        return 1
    finally:
        _drop_unwritten()


def _run(arguments: Sequence[str]) -> int:
    """Run a command; return the exit status."""
    if not arguments or arguments[0] in HELP:
        print_result(_usage())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print_result(f"isospace {isospace.__version__}")
        return 0
    command = _parse(arguments)
    with Console(command.json):
        run_lazy_modules()
    _silence_libraries()
    consent = Consent(
        getattr(command, "api_key_env", None),
        getattr(command, "yes", False),
        ask_user(),
        arguments,
        NewestDisplay(command.json),
    )
    trusted = getattr(command, "trust_remote_code", False)
    with trusting_code(trusted), consenting(consent):
        command.run()
    return 0


def _drop_unwritten() -> None:
    """Drop output that cannot be written; otherwise Python would try again when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(error: BaseException) -> None:
    """Print a line with the reason why a command ended."""
    text = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
    if isinstance(error, UserError | Stopped):  # it may quote a file
        text = in_one_line(as_options(text))
    errors = Terminal(stderr=True, highlight=False, markup=False, emoji=False)
    errors.print(f"isospace: {text}", soft_wrap=True)


def _silence_libraries() -> None:
    """Hide the progress bars of other libraries."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if "transformers" in sys.modules:
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # type: ignore[no-untyped-call]
