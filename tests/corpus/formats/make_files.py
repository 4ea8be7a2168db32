"""Make the files of other tools: python tests/corpus/formats/make_files.py

Needs sphinx and pypandoc_binary, which the tests do not.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

FILES = Path(__file__).parent / "files"
PANDOC = {
    "pandoc.md": ("--to=gfm",),
    "pandoc.rst": ("--to=rst",),
    "pandoc.txt": ("--to=plain",),
    "pandoc.html": ("--to=html",),
    "pandoc.7": ("--to=man", "--variable=section:7"),
    "pandoc.docx": ("--to=docx",),
}
"""File -> how pandoc writes it."""


def run(command: Sequence[str], folder: Path = FILES) -> None:
    print(*command)
    subprocess.run(command, cwd=folder, check=True)


def main() -> None:
    import pypandoc

    for name, options in PANDOC.items():
        run([pypandoc.get_pandoc_path(), "boats.md", "--standalone", *options, f"--output={name}"])
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        quickstart = "--quiet --project=Boats --author=Anna -v 1 --no-makefile --no-batchfile ."
        run([_beside("sphinx-quickstart"), *quickstart.split()], folder)
        (FILES / "sphinx-quickstart.rst").write_bytes((folder / "index.rst").read_bytes())
        (folder / "index.rst").write_bytes((FILES / "boats.rst").read_bytes())
        run([_beside("sphinx-build"), "--quiet", "--builder=text", ".", "out"], folder)
        (FILES / "sphinx.txt").write_bytes((folder / "out" / "index.txt").read_bytes())


def _beside(tool: str) -> str:
    return str(Path(sys.executable).with_name(tool))


if __name__ == "__main__":
    main()
