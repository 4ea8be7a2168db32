"""The macros of mdoc(7), in which BSD writes its man pages.

A line is one macro whose arguments may name further ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isospace.corpus.formats.man import Page

_ENCLOSED = {
    **{"Dq": "“”", "Qq": '""', "Sq": "‘’", "Pq": "()", "Bq": "[]", "Brq": "{}", "Aq": "<>"},
    **{"Op": "[]", "Ql": "‘’", "Fo": "()"},
}
_OPENED = {"Do": "“", "Qo": '"', "So": "‘", "Po": "(", "Bo": "[", "Bro": "{", "Ao": "<", "Oo": "["}
_CLOSED = {"Dc": "”", "Qc": '"', "Sc": "’", "Pc": ")", "Bc": "]", "Brc": "}", "Ac": ">", "Oc": "]"}
_WORDS = frozenset(
    (
        "Ar Pa Cm Ev Dv Em Sy Li Ic Va Vt Fa Fn Ft Er Tn Ad An Cd No Ms In Lk Mt Sx Eo Ec Xo Xc "
        "Fc Bk Ek Lb Nm Nd Fl Xr St Ns Ap Pf Bx Fx Nx Ox Dx Bsx Ux At Rv Ex Ud Bt Db Hf Tg Es En"
    ).split()
)
_SYSTEMS = {"Bx": "BSD", "Fx": "FreeBSD", "Nx": "NetBSD", "Ox": "OpenBSD", "Dx": "DragonFly"} | {
    **{"Bsx": "BSD/OS", "Ux": "UNIX", "At": "AT&T UNIX"}
}
_INLINE = _WORDS | _ENCLOSED.keys() | _OPENED.keys() | _CLOSED.keys()
_BLOCKS = frozenset("Dd Dt Os Sh Ss Pp Lp Bl It El Bd Ed D1 Dl Rs Re Sm".split())
MACROS = _INLINE | _BLOCKS | frozenset(f"%{letter}" for letter in "ABCDIJNOPQRTUV")
"""What an mdoc page may call."""

_CLOSING = frozenset(".,:;)]?!")
_OPENING = frozenset("([")
_STANDARDS = (
    ("-p", "POSIX"),
    ("-xpg", "X/Open"),
    ("-susv", "Single UNIX Specification"),
    ("-ansiC", "ANSI C"),
    ("-isoC", "ISO C"),
    ("-iso", "ISO"),
)
_GLUE = "\0"  # no space here


class Mdoc:
    """The state of an mdoc page.

    Args:
        page: what the macros speak to.
    """

    def __init__(self, page: Page) -> None:
        self.begun = False
        self._page = page
        self._name = ""  # of the program, which .Nm says without arguments
        self._columns = 0  # depth of lists in a table, which is left out
        self._lists: list[bool] = []  # of each open list: whether its items have terms
        self._spaced = True  # whether the words of a line stand apart (.Sm)
        self._reference = False  # a bibliographic entry, which is left out

    def line(self, macro: str, words: list[str]) -> None:
        """One line."""
        self.begun = True
        if macro == "El" and self._lists:
            self._lists.pop()
            self._columns = max(self._columns - 1, 0)
            self._end_paragraph()
        elif macro == "Bl":
            self._page.end()
            self._begin_list(words)
        elif self._columns:
            self._page.draft.leave_out("tables", 0, " ".join(words))
        elif macro in ("Rs", "Re"):
            self._reference = macro == "Rs"
            if self._reference:
                self._page.draft.leave_out("bibliographic references")
        elif self._reference or macro.startswith("%"):
            pass
        elif macro == "Sm":
            self._spaced = "off" not in words
            if self._spaced:
                self._page.text("")
        elif macro in _BLOCKS:
            self._block(macro, words)
        else:
            self._inline_line([macro, *words])

    def _block(self, macro: str, words: list[str]) -> None:
        if macro == "Dt" and len(words) > 1:
            self._page.named(f"{words[0].lower()}({words[1]})")
        elif macro in ("Sh", "Ss"):
            self._page.section(self.words(words), 1 if macro == "Sh" else 2)
        elif macro in ("Pp", "Lp"):
            self._end_paragraph()
        elif macro == "It":
            self._page.begin_item()
            if self._lists and self._lists[-1]:
                self._page.term(self.words(words))
        elif macro == "Bd" and ("-literal" in words or "-unfilled" in words):
            self._page.code("Ed")
        elif macro == "Ed":
            self._page.end_code()
        elif macro in ("D1", "Dl"):
            self._page.draft.leave_out("code blocks", text=" ".join(words))

    def _begin_list(self, words: list[str]) -> None:
        self._lists.append(bool({"-tag", "-hang", "-ohang", "-inset", "-diag"} & {*words}))
        if self._columns:
            self._columns += 1
        elif "-column" in words:
            self._columns = 1
            self._page.draft.leave_out("tables")

    def _end_paragraph(self) -> None:
        if self._lists:
            self._page.end()
        else:
            self._page.end_list()

    def _inline_line(self, words: list[str]) -> None:
        if words[0] == "Nd":
            words = ["-", *words[1:]]
        if words[0] in ("Nm", "Fn", "Fo") and len(words) > 1 and not self._name:
            self._name = words[1]
        text = self.words(words)
        if text:
            self._page.text(text, glue=not self._spaced)

    def words(self, words: list[str]) -> str:
        """What the arguments of a line say, the macros among them expanded."""
        parts: list[str] = []
        rest = list(words)
        while rest:
            parts += self._next(rest)
        text = (
            (" " if self._spaced else "")
            .join(parts)
            .replace(f" {_GLUE}", _GLUE)
            .replace(f"{_GLUE} ", _GLUE)
        )
        return text.replace(_GLUE, "").strip()

    def _next(self, rest: list[str]) -> list[str]:
        """The words of one argument, or of one macro and what belongs to it."""
        word = rest.pop(0)
        if word in _ENCLOSED:
            return self._enclosed(_ENCLOSED[word], rest)
        if word in _OPENED:
            return [_OPENED[word] + _GLUE]
        if word in _CLOSED:
            return [_GLUE + _CLOSED[word]]
        if word in _CLOSING:
            return [_GLUE + word]
        if word in _OPENING:
            return [word + _GLUE]
        if word in _SYSTEMS:
            return [_SYSTEMS[word]]
        if word in _WORDS:
            return self._expanded(word, rest)
        return [word]

    def _expanded(self, macro: str, rest: list[str]) -> list[str]:
        """What a macro is, taking from the rest what belongs to it."""
        if macro in ("Ns", "Ap"):
            return [_GLUE if macro == "Ns" else f"{_GLUE}'{_GLUE}"]
        if macro == "Xr" and len(rest) > 1:
            name, section = rest.pop(0), rest.pop(0)
            return [f"{name}({section})"]
        if macro == "St" and rest:
            return [_standard(rest.pop(0))]
        if macro == "Pf" and rest:
            return [rest.pop(0) + _GLUE]
        if macro == "Fl":
            return [f"-{flag}" for flag in self._plain(rest)] or ["-"]
        if macro == "Fn" and rest:
            name = rest.pop(0)
            self._plain(rest)  # the arguments' types
            return [f"{name}()"]
        if macro == "Nm" and (not rest or rest[0] in _INLINE or rest[0] in _CLOSING):
            return [self._name] if self._name else []
        if macro in ("Lk", "Mt") and rest:
            target = rest.pop(0)
            if macro == "Lk":
                self._page.draft.link(target)
            return self._plain(rest) or [target]
        return []

    def _plain(self, rest: list[str]) -> list[str]:
        """The arguments up to the next macro or sign."""
        taken = []
        while rest and rest[0] not in _INLINE and rest[0] not in _CLOSING:
            taken.append(rest.pop(0))
        return taken

    def _enclosed(self, signs: str, rest: list[str]) -> list[str]:
        """All that is left of the line, between two signs; what closes the line stays outside."""
        after: list[str] = []
        while rest and rest[-1] in _CLOSING:
            after.insert(0, _GLUE + rest.pop())
        inner = self.words(rest)
        rest.clear()
        return [signs[0] + inner + signs[1], *after]


def _standard(name: str) -> str:
    return next((said for begin, said in _STANDARDS if name.startswith(begin)), name)
