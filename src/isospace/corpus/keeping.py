"""Texts that a program makes, kept in a file: a stream can be read once, a training reads often."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from isospace.errors import UserError
from isospace.system.files import atomic_path, expanded


def keep_texts(texts: Iterable[str], path: Path | str) -> Path:
    r"""Write texts to a file, one after the other, unless it is there already.

    So a script that trains on what a generator gives can be run again after a kill: the file
    appears whole or not at all, what is there is the text, and the generator is not asked again.

    Args:
        texts: any number of them; nothing but the one at hand is in memory.
        path: ends in .jsonl; what `corpus` of the settings, or any command, reads.

    Returns:
        The path.

    Raises:
        UserError: another ending, or what is no text among the texts.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> keep_texts((f"Sentence {n}." for n in range(2)), f"{folder}/texts.jsonl").read_text()
        '{"text": "Sentence 0."}\n{"text": "Sentence 1."}\n'
    """
    path = expanded(path)
    if path.suffix != ".jsonl":
        raise UserError(f"{path}: expected a name that ends in .jsonl")
    if path.exists():
        return path
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts, 1):
            if not isinstance(text, str):
                raise UserError(f"text {number} is a {type(text).__name__}, expected a string")
            file.write(json.dumps({"text": text}) + "\n")
    return path
