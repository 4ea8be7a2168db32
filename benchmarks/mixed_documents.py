"""A folder of mixed documents, copied from the packages of this machine.

    python benchmarks/mixed_documents.py FOLDER [--count 200] [--language de]

Man pages, HTML and text from /usr/share, Markdown and reStructuredText from the installed Python
packages, evenly spaced among all files; with --language only man pages in that language. isospace
reads man pages by mandoc (Debian's package mandoc). The documents differ between machines, so use
them for trials and not for tables.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

MAN, DOC = Path("/usr/share/man"), Path("/usr/share/doc")
SMALLEST = 1_000
"""Bytes; shorter files say little."""
_KINDS = {"text/markdown": ".md", "text/x-rst": ".rst"}


def main() -> None:
    """Copy them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--language", help="of man pages, such as de or ja")
    options = parser.parse_args()
    if options.language:
        kinds = [_files(MAN / options.language, "man*/*.gz")]
    else:
        kinds = [
            _files(MAN, "man[1578]/*.gz"),
            _files(DOC, "**/*.html"),
            _files(DOC, "**/*.txt"),
        ]
    found = 0
    for files in kinds:
        for file in _evenly(files, options.count // (len(kinds) + (not options.language))):
            place = options.folder / file.parent.name / file.name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
            found += 1
    if not options.language:
        for name, text in _evenly(list(_descriptions()), options.count - found):
            place = options.folder / "python" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
            found += 1
    print(f"{found} documents are in {options.folder}")


def _files(folder: Path, pattern: str) -> list[Path]:
    """Files of some size; of links to one file the first."""
    files = {path.resolve(): path for path in sorted(folder.glob(pattern), reverse=True)}
    return sorted(path for real, path in files.items() if _large(real))


def _large(path: Path) -> bool:
    return path.is_file() and path.stat().st_size >= SMALLEST


def _descriptions() -> Iterator[tuple[str, str]]:
    """Name and text of what each installed Python package says of itself."""
    for package in sorted(importlib.metadata.distributions(), key=lambda one: one.name):
        about = package.metadata
        ending = _KINDS.get((about["Description-Content-Type"] or "").split(";")[0])
        text = about.get_payload() or about["Description"]
        if ending and text and len(text) >= SMALLEST:
            yield package.name + ending, text


def _evenly(found: Sequence, count: int) -> list:
    """As many of these from end to end."""
    size = min(len(found), count)
    return [found[i * len(found) // size] for i in range(size)]


if __name__ == "__main__":
    main()
