"""The help of a command: the everyday options with examples, or all options in groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple, get_type_hints

import tyro

from isospace.commands.options import COMMON, MARKERS

ALL = "--help-all"
WORDS = ("-h", "--help", ALL)
"""The words that ask for help."""


@dataclass(frozen=True)
class Everyday:
    """Everyday part of a command with many options: the examples and options that --help shows."""

    examples: tuple[str, ...]
    options: str


EVERYDAY = {
    "adapt": Everyday(
        ("isospace adapt docs/", "isospace adapt docs/ --budget 30 minutes --output runs/docs"),
        "corpus model models budget max_drop other_text queries queries_only pairs columns output "
        "resume json",
    ),
    "ask": Everyday(
        (
            "isospace ask docs/ --llm 'http://localhost:11434/v1#NAME' -o queries.jsonl",
            "isospace adapt docs/ --queries queries.jsonl",
        ),
        "corpus llm count model like output api_key_env yes json",
    ),
    "train": Everyday(
        (
            "isospace train --corpus notes.txt",
            "isospace train --corpus docs/ --recipe pairs --budget 10 minutes simcse",
        ),
        "corpus model recipe budget batch_size learning_rate pairs seed output resume json",
    ),
    "compare": Everyday(
        (
            "isospace compare simcse vicreg --corpus docs/ --output runs/which",
            "isospace compare --recipe simcse-bert-base whitenedcse-bert-base --corpus wiki.txt "
            "--output runs/papers",
        ),
        "candidates recipe corpus model seeds budget baselines verdict_on data jobs output json",
    ),
    "whiten": Everyday(
        (
            "isospace whiten minilm --corpus docs/ --output whitened",
            "isospace whiten minilm --corpus docs/ --by texts --power 0.5 --output whitened",
        ),
        "model corpus by power dim pairs other_text output json",
    ),
    "distill": Everyday(
        (
            "isospace distill runs/manuals -o twin",
            "isospace distill runs/manuals --queries-only -o queries",
        ),
        "model queries_only corpus title_column seed output json",
    ),
}
"""Command -> its everyday options, in the order of its help."""

_TITLES = {"config": "main", "text": "text", "reading": "reading", "whitening": "whitening"}
"""Field with nested settings -> title of their group."""


def show_help(kind: type[Any], command: str, summary: str, words: Sequence[str], base: Any) -> None:
    """Print the help of a command, a dataclass, and end the process.

    `summary` describes the command, and `words` follow it. The values of `base` are the defaults;
    `None`: those of the dataclass.
    """
    from isospace.objectives import OBJECTIVES  # imports torch, but not for a help text

    everyday = EVERYDAY.get(command)
    asked = [word for word in words if word not in WORDS]
    description = [summary]
    if everyday is not None:
        description.append("\n".join(f"  {example}" for example in everyday.examples))
    of_objective = command == "train" and not set(words).isdisjoint(OBJECTIVES)
    found = list(_fields(kind, base))
    if everyday is None or ALL in words or of_objective:
        inherited = [part for part in COMMON if issubclass(kind, part)]
        common = {one.name for part in inherited for one in fields(part)}
        found = [
            one._replace(group="common") if not one.group and one.name in common else one
            for one in found
        ]
        found.sort(key=lambda one: one.group == "common")
        shown = _grouped(kind.__name__, found)
    else:
        asked = []
        first = {one.name: one for one in reversed(found)}
        shown = _dataclass(kind.__name__, [first[name] for name in everyday.options.split()])
        description.append(f"All options: isospace {command} {ALL}")
        if command == "train":
            description.append(
                "Objectives: isospace objectives; options of one: isospace train OBJECTIVE --help"
            )
    tyro.cli(
        shown,
        prog=f"isospace {command}",
        description="\n\n".join(description),
        args=[*asked, "--help"],
        config=(*MARKERS, tyro.conf.FlagCreatePairsOff),
    )


class _Field(NamedTuple):
    """A field of a help text."""

    group: str
    name: str
    annotation: Any
    field: Any


def _fields(kind: type[Any], base: Any, group: str = "") -> Iterator[_Field]:
    types = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        if base is not None:
            value = getattr(base, one.name)
        else:
            value = one.default if one.default_factory is MISSING else one.default_factory()
        annotation = types[one.name]
        if one.name in _TITLES and value is MISSING:
            yield from _fields(annotation, None, _TITLES[one.name])
            continue
        if one.name in _TITLES and is_dataclass(value):
            yield from _fields(type(value), value, _TITLES[one.name])
            continue
        if value is None or value == () or isinstance(value, bool):  # such a default says nothing
            annotation = Annotated[annotation, tyro.conf.arg(help_behavior_hint="")]
        shown: Any = field(metadata=one.metadata)
        if value is not MISSING:
            # A default factory works for mutable values too.
            shown = field(default_factory=partial(_same, value), metadata=one.metadata)
        yield _Field(group, one.name, annotation, shown)


def _same(value: Any) -> Any:
    return value


def _dataclass(name: str, found: Sequence[_Field]) -> type[Any]:
    return make_dataclass(
        name, [(one.name, one.annotation, one.field) for one in found], kw_only=True
    )


def _grouped(name: str, found: Sequence[_Field]) -> type[Any]:
    """Return a dataclass with a dataclass for each group of fields."""
    parts = []
    for title in dict.fromkeys(one.group for one in found if one.group):
        part = _dataclass(title, [one for one in found if one.group == title])
        part.__doc__ = ""
        parts.append(_Field("", title, part, field(default_factory=part)))
    return _dataclass(name, [*(one for one in found if not one.group), *parts])
