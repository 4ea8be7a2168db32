"""Make the files of pandoc: python tests/corpus/formats/make_files.py

Needs pypandoc_binary, which the tests do not.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

FILES = Path(__file__).parent / "files"
FORMATS = {"pandoc.md": "gfm", "pandoc.rst": "rst", "pandoc.txt": "plain", "pandoc.docx": "docx"}
"""File -> how pandoc writes it."""


def main() -> None:
    import pypandoc

    for name, format in FORMATS.items():
        command = [pypandoc.get_pandoc_path(), "boats.md", "--standalone", f"--to={format}"]
        subprocess.run([*command, f"--output={name}"], cwd=FILES, check=True)


if __name__ == "__main__":
    main()
