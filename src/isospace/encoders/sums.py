"""SHA256SUMS beside a model: are its weights and its tokenizer still those that were written?

Neither safetensors nor a tokenizer's files would say that a disk has turned a bit. The file is
that of GNU's sha256sum, so that `sha256sum --check SHA256SUMS` reads it too. Settings and card are
not in it: people edit them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from isospace.system.files import file_sha256

SUMS = "SHA256SUMS"
_EDITED = (
    "README.md",
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer_config.json",
)
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS of all files of a new model but those that people edit."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    lines = [
        f"{file_sha256(path)}  {path.relative_to(folder).as_posix()}\n"
        for path in files
        if path.name not in _EDITED
    ]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def damage(folder: Path) -> str | None:
    """Find a file that is not as it was written; `None` if all are, or there are no sums.

    A file that is not there is left to what loads the model: it may be one of another format.
    """
    sums = folder / SUMS
    if not sums.is_file():
        return None
    lines = sums.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, start=1):
        found = _LINE.fullmatch(line)
        if found is None or ".." in (parts := Path(found[2]).parts) or Path(found[2]).is_absolute():
            return f"{sums}, line {number}: not a SHA-256 and a file of the folder"
        path = folder.joinpath(*parts)
        try:
            if os.path.isfile(path) and file_sha256(path) != found[1]:
                return f"{path}: damaged: not what was written (its sum is not that in {SUMS})"
        except OSError as error:
            return f"{path}: cannot be read ({error.strerror})"
    return None
