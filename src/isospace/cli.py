"""The command line: each verb parses, calls one function, prints.

Exit status: 0 done, 1 stopped before the end, 2 bad input.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Any

import tyro
from rich.console import Console as Terminal
from transformers.utils.logging import disable_progress_bar

from isospace.errors import Stopped, UserError
from isospace.recipes import find
from isospace.system.signals import end_with_input
from isospace.verbs import VERBS
from isospace.verbs.options import as_options
from isospace.verbs.printing import print_result
from isospace.verbs.train import DEFAULT_RECIPE, Compare, Train

_MARKERS = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)


def _train_default(arguments: Sequence[str]) -> Train:
    """The defaults of `train`: those of the recipe that the arguments name."""
    name = DEFAULT_RECIPE
    for position, word in enumerate(arguments):
        if word == "--recipe":
            name = "".join(arguments[position + 1 : position + 2])
        elif word.startswith("--recipe="):
            name = word.removeprefix("--recipe=")
    config = find(name).config
    return Train(config=config, objective=config.objective, recipe=name)


def _usage() -> str:
    lines = [f"  {verb:<11} {(kind.__doc__ or '').splitlines()[0]}" for verb, kind in VERBS.items()]
    return "\n".join(
        [
            "usage: isospace VERB [OPTIONS]",
            "",
            *lines,
            "",
            "isospace VERB --help lists the options of a verb.",
        ]
    )


def _parse(arguments: Sequence[str]) -> Callable[[], int]:
    verb, *rest = arguments
    if verb not in VERBS:
        raise UserError(f"{verb}: no such verb; expected one of {', '.join(VERBS)}")
    kind = VERBS[verb]
    kwargs: dict[str, Any] = {}
    if kind is Train:
        kwargs["default"] = _train_default(rest)
    elif kind is Compare:
        kwargs["default"] = Compare(tyro.MISSING, find(DEFAULT_RECIPE).config)
    try:
        parsed = tyro.cli(kind, prog=f"isospace {verb}", args=rest, config=_MARKERS, **kwargs)
    except ValueError as error:  # an objective's own check of its hyper-parameters
        raise UserError(str(error)) from error
    run: Callable[[], int] = parsed.run
    return run


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb.

    Args:
        argv: the words after `isospace`; default: those of this process.

    Returns:
        The exit status: 0 done, 1 stopped before the end, 2 bad input.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, TextIOWrapper):  # a text that the terminal cannot show is no error
        sys.stdout.reconfigure(errors="backslashreplace")
    end_with_input()
    disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.basicConfig(
        level=logging.WARNING, format="%(levelname)s %(message)s", stream=sys.stderr
    )
    if not arguments or arguments[0] in ("-h", "--help"):
        print_result(_usage())
        return 0 if arguments else 2
    errors = Terminal(stderr=True, highlight=False, markup=False, emoji=False)
    try:
        return _parse(arguments)()
    except UserError as error:
        errors.print(f"isospace: {as_options(str(error))}", soft_wrap=True)
        return 2
    except Stopped as error:
        errors.print(f"isospace: {as_options(str(error))}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        errors.print("isospace: interrupted")
        return 1
    except OSError as error:  # a full disk, a folder that cannot be written
        errors.print(f"isospace: {error}", soft_wrap=True)
        return 1
    except SystemExit as stop:
        return int(stop.code or 0)


if __name__ == "__main__":
    sys.exit(main())
