"""Search the paragraphs of a folder of Markdown and text files by meaning.

    python search_your_documents.py manuals/ "how do I reset the password?"

`isospace index` and `isospace search` do this on disk, for collections of any size. They also read
HTML, reStructuredText, PDF and Word.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import isospace


def paragraphs(folder: Path) -> list[str]:
    """Return the paragraphs of all Markdown and text files in a folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in (".md", ".txt")]
    texts = [path.read_text(encoding="utf-8") for path in files]
    return [part.strip() for text in texts for part in text.split("\n\n") if part.strip()]


if __name__ == "__main__":
    parser = ArgumentParser(description="Search the paragraphs of a folder by meaning.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("question")
    parser.add_argument("--model", default="minilm", help="a model folder, a run or a Hub name")
    arguments = parser.parse_args()

    model = isospace.load(arguments.model)
    index = model.index(paragraphs(arguments.folder))
    for hit in index.search(arguments.question, k=5):
        print(f"{hit.score:.2f}  {hit.text}\n")
