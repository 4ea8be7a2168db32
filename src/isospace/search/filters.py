"""Filters: SQL conditions on the columns of an index, and errors about invalid filters."""

from __future__ import annotations

import re
from collections.abc import Mapping

from isospace.errors import UserError
from isospace.search.columns import ColumnType, in_words

_NOISE = re.compile(
    r"^(lance error: )?(LanceError\(\w+\): |Invalid input, |Schema error: |Query Execution error: "
    r"|Error resolving filter expression (?s:.*?)\n\): |Invalid user input: "
    r"|Error applying filter expression to batch: |Arrow error: |Compute error: )*"
)
_NO_CODE = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*.*?\*/""", re.DOTALL)
"""Quoted parts and comments of an SQL condition, in which parentheses are only text."""


def condition_of(where: str | None, columns: Mapping[str, ColumnType]) -> str | None:
    """Return a filter in parentheses, since LanceDB ignores an end that it cannot parse.

    Without them, it would read `year > 3 ADN kind = 'a'` as `year > 3`.

    Raises:
        UserError: the filter is empty, or closes a parenthesis that it did not open.
    """
    if where is None:
        return None
    if not where.strip():
        raise UserError("the filter is empty. Give an SQL condition, such as id = 'a'")
    depth = 0
    for sign in _code(where):
        depth += (sign == "(") - (sign == ")")
        if depth < 0:  # it would close the added parenthesis
            raise bad_filter(where, "a closing parenthesis has no opening one", columns)
    return f"({where}\n)"  # on a line of its own: the filter may end in a comment


def bad_filter(where: str, reason: str, columns: Mapping[str, ColumnType]) -> UserError:
    """Return the error for an invalid filter."""
    if ")" not in _code(where):  # the parenthesis in the message is the added one
        reason = reason.replace("found: )", "found: EOF").replace("Expected: ),", "Expected: EOF,")
    return UserError(
        f"filter {where!r} ({reason}): give an SQL condition on the columns "
        f"{in_words(columns)}, such as id = 'a'"
    )


def reason_of(error: Exception) -> str:
    """Return LanceDB's error as one line, without its source files and inner layers."""
    text = re.split(r", /\S+\.rs:\d+| Valid fields are ", _NOISE.sub("", str(error)))[0]
    text = re.sub(r"(\s|~~+)+", " ", text).strip() or type(error).__name__
    if parser := re.search(r"\(sql parser error: (.*)\)", text):
        text = parser[1]
    return text.rstrip(".")[:300]


def _code(where: str) -> str:
    """Return an SQL condition without its quoted parts and comments."""
    return _NO_CODE.sub(" ", where)
