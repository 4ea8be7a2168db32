"""Plain BM25 as a library: what it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isospace.evaluation.bm25 import bm25_terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Unter\u00adneh\u00admen", ["unternehmen"]),
        ("zero\u200bwidth word\u2060joiner Auf\u200clage", ["zerowidth", "wordjoiner", "auflage"]),
        ("e\ufb03cient Ｃａｆｅ\u0301 ｶﾞｽ", ["efficient", "café", "ガス"]),
        ("don\u02bct don’t don't", ["don", "t"] * 3),
        ("हिन्\u200dदी हिन्दी", ["हिन्दी", "हिन्दी"]),
        ("می\u200cخواهم می خواهم", ["می", "خواهم"] * 2),
        ("ភាសា\u200bនេះ", bm25_terms("ភាសានេះ")),
    ],
)
def test_words_are_those_that_a_reader_sees(text, expected):
    assert bm25_terms(text) == expected


def test_an_installed_jax_is_not_touched_and_can_be_imported_afterwards(tmp_path: Path) -> None:
    """Where JAX is used it takes most of a GPU, which is for the encoder."""
    package = tmp_path / "jax"
    package.mkdir()
    (package / "__init__.py").write_text("print('imported')")
    (package / "lax.py").write_text("def top_k(*_): raise SystemExit('it computes')")
    code = (
        "from isospace.evaluation.bm25 import BM25\n"
        "print(BM25(['a cat', 'a dog']).scores(['cat'])[0].argmax())\n"
        "import jax"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["0", "imported"]
