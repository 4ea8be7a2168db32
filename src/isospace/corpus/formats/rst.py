"""reStructuredText: docutils converts it to HTML, which the reader of HTML reads.

Nothing is executed, and no other file is read. Unknown directives and roles, mostly from Sphinx,
keep their text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, ClassVar

from docutils import nodes, utils
from docutils.core import publish_doctree, publish_from_doctree
from docutils.parsers.rst import Directive, directives, roles
from docutils.writers.html5_polyglot import Writer

from isospace.corpus.formats import NAVIGATION, Draft, decode
from isospace.corpus.formats.html import add_html

_SETTINGS = {
    "_disable_config": True,
    "doctitle_xform": False,
    "docinfo_xform": False,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 5,
    "halt_level": 5,
    "warning_stream": "",
    "syntax_highlight": "none",
    "trim_footnote_reference_space": True,
    "input_encoding": "unicode",
    "output_encoding": "unicode",
    "embed_stylesheet": False,
    "initial_header_level": "1",
    "math_output": "MathJax",
    "line_length_limit": 1 << 30,  # a longer line makes docutils give an empty document
}
_CODE_DIRECTIVES = frozenset(
    (
        "code-block sourcecode literalinclude testcode testsetup testcleanup testoutput doctest "
        "productionlist highlight graphviz digraph graph plot ipython mermaid prompt "
        "jupyter-execute program-output argparse click"
    ).split()
)
_DROPPED_DIRECTIVES = frozenset(
    (
        "index currentmodule module py:module py:currentmodule default-domain tabularcolumns "
        "autosummary autoclass automodule autofunction automethod autodata highlightlang acks "
        "contents sectnum include raw date"
    ).split()
)
_OBJECT = re.compile(
    r"(?:\w+:)?(?:function|class|method|attribute|data|exception|classmethod|staticmethod|property|"
    r"decorator|decoratormethod|describe|opcode|cmdoption|c?macro|type|member|var|struct|enum|"
    r"enumerator|coroutinefunction|coroutinemethod|abstractmethod|pdbcommand|2to3fixer)"
)
_LOCK = Lock()  # docutils shares directives and roles across the process


def read(content: bytes, encoding: str | None) -> Draft:
    """Read reStructuredText; the title is the first heading of the highest level."""
    text = decode(content, encoding)
    draft = Draft()
    with _LOCK, _lenient():
        tree = publish_doctree(text, settings_overrides=_SETTINGS | {"draft": draft})
        _simplify(tree)
        html = publish_from_doctree(tree, writer=Writer(), settings_overrides=_SETTINGS)
    add_html(draft, html)
    return draft


def _simplify(tree: Any) -> None:
    """Remove images, author and date under the title, and types of terms; make formulas text."""
    for node in list(tree.findall()):
        above = node.parent
        is_list = isinstance(node, nodes.field_list) and tree in (above, above.parent)
        if isinstance(node, nodes.classifier) or (is_list and above.index(node) <= 1):
            above.remove(node)
    for name in tree.findall(nodes.field_name):
        name[:] = [nodes.Text(name.astext().split(" ")[-1])]
    for formula in list(tree.findall(nodes.math)):
        formula.parent.replace(formula, nodes.inline("", formula.astext()))
    for image in list(tree.findall(nodes.image)):  # the writer reads the files of some
        image.parent.remove(image)


@contextmanager
def _lenient() -> Iterator[None]:
    """Make docutils accept every directive and role inside the `with` block."""
    known_directive, known_role = directives.directive, roles.role

    def directive(name: str, *rest: Any) -> tuple[Any, list[Any]]:
        lower = name.lower()
        if _OBJECT.fullmatch(lower) or lower in _DROPPED_DIRECTIVES or lower in _CODE_DIRECTIVES:
            return _Generic, []
        found, messages = known_directive(name, *rest)
        return (found, messages) if found else (_Generic, [])

    def role(name: str, *rest: Any) -> tuple[Any, list[Any]]:
        found, messages = known_role(name, *rest)
        return (found, messages) if found else (_generic_role, [])

    directives.directive, roles.role = directive, role
    try:
        yield
    finally:
        directives.directive, roles.role = known_directive, known_role


class _Generic(Directive):  # type: ignore[misc]
    """A directive read by its name: code, a list of pages, an object, or text."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    # Any option; an empty mapping would allow none.
    option_spec: ClassVar[Any] = defaultdict(lambda: str, any=str)

    def run(self) -> list[Any]:
        name, draft = self.name.lower(), self.state.document.settings.draft
        argument = self.arguments[0] if self.arguments else ""
        if name in _CODE_DIRECTIVES:
            draft.leave_out("code blocks")
            return []
        if name in _DROPPED_DIRECTIVES:
            return []
        if name == "toctree":
            draft.leave_out(NAVIGATION)
            return []
        if name in ("versionadded", "versionchanged", "deprecated", "versionremoved"):
            argument = "".join(argument.split(maxsplit=1)[1:])
        elif name == "only":
            argument = ""  # the argument names builders
        elif _OBJECT.fullmatch(name):
            draft.leave_out("signatures")
            argument = ""
        container = nodes.container()
        if " " in argument:
            inline, _ = self.state.inline_text(argument, self.lineno)
            container += nodes.paragraph("", "", *inline)
        self.state.nested_parse(self.content, self.content_offset, container, match_titles=1)
        return [container]


def _generic_role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, *rest: Any
) -> tuple[list[Any], list[Any]]:
    """Return the words of a role: `text <target>` gives text, `~a.b` gives b."""
    text = utils.unescape(text)
    match = re.fullmatch(r"(.*?)\s*<[^<>]*>", text, re.DOTALL)
    words = (match[1] if match else text).lstrip("!")
    if words.startswith("~"):
        words = words.rpartition(".")[2].lstrip("~")
    return [nodes.inline(rawtext, words)], []
