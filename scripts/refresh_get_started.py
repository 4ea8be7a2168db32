"""Run the commands of docs/get-started, and refresh the outputs that its pages show.

A block ```console holds commands, each after "$ ", and what they print. A line "[...]" stands for
lines that are left out. A block ```text quotes lines that earlier commands printed. Commands of
isospace are run, all of them in one temporary folder, from the first page to the last; other
commands but assignments are not. A table of a page whose first heading is empty shows rows and
columns of a table that some command printed.

A shown line is stale if the commands print no line of its form any more; numbers may differ. The
script names stale lines and ends with 1: mend them by hand.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PAGES = Path(__file__).parent.parent / "docs" / "get-started"
ORDER = ("install.md", "first-search.md", "first-report.md")
GAP = "[...]"
Run = Callable[[str], list[str] | None]
"""What runs a command: the lines that it prints, or `None` if it is not run."""
_BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
_QUOTED = re.compile(r"(?<=```text\n).*?(?=```)", re.DOTALL)
_TABLE = re.compile(r"^\|  \|.*\n\|[-|]+\|\n(?:\|.*\n)+", re.MULTILINE)
_LABEL = re.compile(r"(other text|load it|test pairs|base model|\S+)\s+\S")
_LONGEST = 130  # characters of a cell


def main() -> int:
    """Refresh every page; return 1 if a line is stale."""
    stale = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ".venv").symlink_to(sys.prefix)
        shell, printed = Shell(Path(folder)), list[str]()
        for name in ORDER:
            page = PAGES / name
            text, lost = refreshed(page.read_text(encoding="utf-8"), shell, printed)
            page.write_text(text, encoding="utf-8")
            stale += [f"{name}: {line}" for line in lost]
    sys.stderr.write("".join(f"stale: {line}\n" for line in stale))
    return 1 if stale else 0


class Shell:
    """Runs the commands of pages in a folder, with the variables that they set."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._variables = folder, list[str]()

    def __call__(self, command: str) -> list[str] | None:
        """Return the lines that a command prints; `None` if it is not run."""
        if re.match(r"\w+=", command):
            self._variables.append(command)
        if not command.startswith("isospace "):
            return None
        sys.stderr.write(f"$ {command}\n")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", "\n".join([*self._variables, command])],
            cwd=self._folder,
            env=os.environ | {"PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )
        here = done.stdout.replace(f"{self._folder}/", "").replace(str(Path.home()), "/home/me")
        return here.splitlines()


def refreshed(page: str, run: Run, printed: list[str]) -> tuple[str, list[str]]:
    """Return a page with new outputs, and its stale lines.

    Args:
        page: its text.
        run: what runs a command.
        printed: what earlier commands printed; lines of this page's commands are added.
    """
    stale: list[str] = []

    def block(found: re.Match[str]) -> str:
        lines: list[str] = []
        for command, shown in commands(found[0]):
            lines.append(f"$ {command}")
            output = run(command)
            if output is None:
                lines += shown
                continue
            printed.extend(output)
            new, lost = aligned(shown, output)
            lines += new
            stale.extend(lost)
        return "".join(f"{line}\n" for line in lines)

    def quoted(found: re.Match[str]) -> str:
        new, lost = aligned(found[0].splitlines(), printed)
        stale.extend(lost)
        return "".join(f"{line}\n" for line in new)

    def table(found: re.Match[str]) -> str:
        text, lost = table_of(found[0], printed)
        stale.extend(lost)
        return text

    parts = re.split(r"(^```.*?^```)", _BLOCK.sub(block, page), flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [_TABLE.sub(table, part) for part in parts[::2]]
    return _QUOTED.sub(quoted, "".join(parts)), stale


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a block and the lines that it is shown to print."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def aligned(shown: Sequence[str], output: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the newest lines in the form of those that are shown, and those without one."""
    found, stale, place = [], [], 0
    for number, line in enumerate(shown):
        if line in (GAP, ""):
            found.append(line)
            continue
        same = (i for i in range(place, len(output)) if form(output, i) == form(shown, number))
        here = next(same, None)
        if here is None:
            stale.append(line)
            found.append(line)
        else:
            found.append(shortened(output[here]) if line.startswith("| ") else output[here])
            place = here + 1
    return found, stale


def form(lines: Sequence[str], place: int) -> str:
    """Return what of a line may not change: its label, headings, or the number of its cells.

    >>> form(["verdict   Adapted: +4.53 points"], 0), form(["| 1 | 0.734 | a text |"], 0)
    ('verdict', '3 cells')
    """
    line = lines[place]
    below = "".join(lines[place + 1 : place + 2])
    if line.startswith("| ") and not below.startswith("|-"):
        cells = _cells(line, "|")
        return cells[1] if cells[0] in ("ok", "--") else f"{len(cells)} cells"  # of doctor
    label = _LABEL.match(line)
    return label[1] if label and not line.startswith("|") else line


def shortened(row: str) -> str:
    """Return a row without the folder of the packages, its long texts cut."""
    cells = re.sub(r"[^\s|]*/site-packages", GAP, row).split(" | ")
    cut = (c if len(c) <= _LONGEST else f"{c[:_LONGEST].rsplit(' ', 1)[0]} {GAP}" for c in cells)
    ended = " | ".join(cut)
    return ended if ended.endswith("|") else f"{ended} |"


def table_of(table: str, printed: Sequence[str]) -> tuple[str, list[str]]:
    """Return a page's table with the newest cells, and its stale lines."""
    head, rule, *rows = table.splitlines()
    columns = _cells(head, "|")
    for names, *drawn in reversed([*_drawn(printed)]):
        if not set(columns) <= set(names):
            continue
        newest = {cells[0]: dict(zip(names, cells, strict=True)) for cells in drawn}
        found, stale = [head, rule], []
        for row in rows:
            cells = newest.get(_cells(row, "|")[0])
            found.append(f"| {' | '.join(cells[column] for column in columns)} |" if cells else row)
            stale += [] if cells else [f"row {row}"]
        return "".join(f"{line}\n" for line in found), stale
    return table, [head]


def _drawn(printed: Sequence[str]) -> Iterator[list[list[str]]]:
    """Yield the tables that the console draws with lines."""
    for line in printed:
        if line.startswith("┃"):
            drawn = [_cells(line, "┃")]
        elif line.startswith("│"):
            drawn.append(_cells(line, "│"))
        elif line.startswith("└"):
            yield drawn


def _cells(line: str, border: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip(border).split(border)]


if __name__ == "__main__":
    sys.exit(main())
