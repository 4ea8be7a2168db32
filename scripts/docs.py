"""Build the documentation site into site/.

Writes the generated pages of docs/reference, draws the tables of docs/results/reproduce.md, and
runs zensical. Then formulas become MathML, which needs no script, and the one script of another
server becomes our own. Exits with 1 where a link leads nowhere.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import fields
from io import StringIO
from pathlib import Path

from latex2mathml.converter import convert

from isospace.cli import main as isospace
from isospace.commands import COMMANDS
from isospace.commands.listing import objective_row
from isospace.objectives import OBJECTIVES
from isospace.recipes import RECIPES
from isospace.system.files import write_text
from isospace.system.tables import markdown_table

ROOT = Path(__file__).parent.parent
SITE = ROOT / "site"
REPRODUCE = ROOT / "docs" / "results" / "reproduce.md"
_ROWS = re.compile(r"(?<=<!-- rows -->\n).*?(?=<!-- end rows -->)", re.DOTALL)
_SHIM = "https://unpkg.com/iframe-worker/shim"
_NO_BREAK, _JOIN = "\N{NO-BREAK SPACE}", "\N{WORD JOINER}"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_WARNING = re.compile(r"Warning: (.*)\n.*\[ (.*) \]")
_CELL = re.compile(r"(?<=>)[-+\d.,±%()* e]+(?: to [-+\d.,)*]+)?(?=</td>)")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def commands_page() -> str:
    """Return the page of the commands: the help text of each."""
    intro = (
        "# Commands\n\nThe help text of every command, as `isospace COMMAND --help` prints it. "
        "Exit status: 0 done, 1 stopped before the end, 2 bad input.\n"
    )
    return intro + "".join(
        f"\n## isospace {name}\n\n```text\n{_help(name)}\n```\n" for name in COMMANDS
    )


def _help(name: str) -> str:
    shown = StringIO()
    with redirect_stdout(shown):
        isospace([name, "--help"])
    return shown.getvalue().rstrip()


def objectives_page() -> str:
    """Return the page of the objectives: their table, then the docstring of each."""
    rows = [objective_row(name) for name in OBJECTIVES]
    for row in rows:
        paper = row.pop("paper")
        row["objective"] = f"[{row['objective']}](#{_anchor(row['objective'])})"
        row["from"] = f"[{row['from']}]({paper})"
    sections = "".join(map(_objective, OBJECTIVES))
    return (
        "# Objectives\n\nEvery objective that `isospace train` knows. "
        "Passes are those of the encoder for one text."
        f"\n\n{markdown_table(rows)}\n{sections}"
    )


def _objective(name: str) -> str:
    kind = OBJECTIVES[name]
    own = [field.name for field in fields(kind) if field.name in kind.__annotations__]
    return f"""
## {name} {{ #{_anchor(name)} }}

::: {kind.__module__}.{kind.__qualname__}
    options:
      members: {own}
      show_root_heading: false
      show_root_toc_entry: false
"""


def _anchor(objective: str) -> str:
    return objective.replace("+", "p")


def with_recipes(page: str) -> str:
    """Return the text of a page with tables of the recipes.

    The first table has the recipes of the most frequent training corpus, and the second all others.
    Ablations and larger models are left out; `isospace recipes` lists all.
    """
    rows = [
        {
            "recipe": f"`{name}`",
            "from": recipe.table,
            "published": f"{recipe.published['Avg']:.2f}",
            "`FILE`": recipe.corpus,
        }
        for name, recipe in RECIPES.items()
        if name.endswith("-base")
    ]
    corpora = [row["`FILE`"] for row in rows]
    usual = max(corpora, key=corpora.count)
    others = [row for row in rows if row["`FILE`"] != usual]
    first = [{key: row[key] for key in row if key != "`FILE`"} for row in rows if row not in others]
    tables = f"`FILE`: {usual}\n\n{markdown_table(first)}\n\n{markdown_table(others)}\n"
    return _ROWS.sub(lambda _: tables, page)


def with_mathml(page: str) -> str:
    """Return an HTML page whose formulas are MathML."""

    def formula(found: re.Match[str]) -> str:
        if found[2] == "(":
            return convert(html.unescape(found[3]))
        return f'<div class="formula">{convert(html.unescape(found[3]), display="block")}</div>'

    return _FORMULA.sub(formula, page)


def with_whole_numbers(page: str) -> str:
    """Return an HTML page whose numbers in tables are broken before a bracket alone."""

    def whole(found: re.Match[str]) -> str:
        parts = found[0].replace(" ", _NO_BREAK).replace("e-", f"e-{_JOIN}")
        return parts.replace(f"{_NO_BREAK}(", " (")

    return _CELL.sub(whole, page)


def main() -> int:
    """Build the site; return the exit status."""
    os.environ.update(COLUMNS="80", NO_COLOR="1")
    write_text(REPRODUCE, with_recipes(REPRODUCE.read_text(encoding="utf-8")))
    reference = ROOT / "docs" / "reference"
    # For the site alone: a terminal shows them as well.
    made = {
        reference / "commands.md": commands_page(),
        reference / "objectives.md": objectives_page(),
    }
    for path, page in made.items():
        path.write_text(page, encoding="utf-8")
    shutil.rmtree(SITE, ignore_errors=True)  # with pages that are no more
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    for path in made:
        path.unlink()
    if built.returncode:
        said = _COLOUR.sub("", built.stderr)
        print("\n".join(": ".join(found[::-1]) for found in _WARNING.findall(said)) or said)
    for path in SITE.rglob("*.html"):
        depth = len(path.relative_to(SITE).parents) - 1
        page = path.read_text(encoding="utf-8").replace(_SHIM, "../" * depth + "assets/worker.js")
        path.write_text(with_whole_numbers(with_mathml(page)), encoding="utf-8")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
