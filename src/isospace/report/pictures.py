"""A picture on a page."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class Picture:
    """A picture and its words."""

    title: str
    caption: str
    svg: Markup
