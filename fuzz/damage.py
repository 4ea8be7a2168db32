"""Damage inside a format: a changed value of JSON, a changed member of an archive.

Files with changed bytes seldom get past the parser of their format.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from typing import Any

_ODD = (
    None, True, 0, -1, 1.5, 2**63, 10**400, 1e308, float("nan"), float("inf"), "", "a", "-1", "\0\x1b[2J\n",
    "../../etc/passwd", "/etc/passwd", "\udc80", "x" * 5000, [], {}, [[]], [None], {"": None}, {"format": -1},
    {"name": []}, [1, "a"], {"a": {"b": [0]}},
)  # fmt: skip


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Return a damaged content of about the same form."""
    for form in draw.sample((_json, _json_lines, _zip, _gzip), 4):
        # For a target of a folder, the first byte selects the file.
        for begin in (0, 1):
            if (made := form(content[begin:], draw)) is not None:
                return content[:begin] + made
    return _bytes(content, draw)


def _bytes(content: bytes, draw: random.Random) -> bytes:
    """Cut the content, change a bit or a few bytes, or repeat a part."""
    place = draw.randrange(len(content) + 1)
    end = min(len(content), place + draw.choice((1, 2, 8, 100)))
    middle = draw.choice(
        (
            b"",
            bytes(byte ^ 1 << draw.randrange(8) for byte in content[place:end]),
            draw.randbytes(end - place),
            2 * content[place:end],
            b"\xff" * 4 + content[place:end],
        )
    )
    return content[:place] + middle + (content[end:] if draw.random() < 0.8 else b"")


def _json(content: bytes, draw: random.Random) -> bytes | None:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list):
        return None
    if draw.random() < 0.02:
        return b"[" * 100_000
    for _ in range(draw.randint(1, 2)):
        value = _changed(value, draw)
    return json.dumps(value).encode()


def _json_lines(content: bytes, draw: random.Random) -> bytes | None:
    lines = content.split(b"\n")
    place = draw.randrange(len(lines))
    changed = _json(lines[place], draw)
    if changed is None:
        return None
    return b"\n".join([*lines[:place], changed, *lines[place + 1 :]])


def _changed(value: Any, draw: random.Random) -> Any:
    """Replace, remove or move one node at any depth."""
    if not isinstance(value, dict | list) or not value or draw.random() < 0.1:
        return draw.choice(_ODD)
    key: Any = draw.choice(list(value)) if isinstance(value, dict) else draw.randrange(len(value))
    act, made = draw.random(), value.copy()
    if act < 0.1:
        del made[key]
    elif act < 0.15 and isinstance(made, dict):
        made[draw.choice(("", "format", "x"))] = made.pop(key)
    elif act < 0.2:
        made[key] = value
    else:
        made[key] = _changed(value[key], draw)
    return made


def _zip(content: bytes, draw: random.Random) -> bytes | None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
    except Exception:  # zipfile raises several for damaged archives
        return None
    if not members:
        return None
    name = draw.choice(list(members))
    if draw.random() < 0.1:
        members[draw.choice(("../out", "/out", "a" * 300, "", "\udc80"))] = members.pop(name)
    else:
        members[name] = _bytes(members[name], draw)
    out = io.BytesIO()
    try:
        with zipfile.ZipFile(out, "w", draw.choice((0, 8))) as archive:
            for member, inner in members.items():
                archive.writestr(member, inner)
    except (ValueError, IndexError):  # zipfile cannot write such a name
        return None
    return out.getvalue()


def _gzip(content: bytes, draw: random.Random) -> bytes | None:
    try:
        return gzip.compress(_bytes(gzip.decompress(content), draw))
    except Exception:  # zlib's and gzip's
        return None
