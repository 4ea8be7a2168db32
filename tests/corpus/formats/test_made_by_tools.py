"""What pandoc writes of one text, in several formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from isospace.corpus.formats import format_of, read_document

FILES = Path(__file__).parent / "files"
HARBOUR = (
    "The harbour of the old town is full of small boats, see crews. Boats that leave before the "
    "sun has risen carry a lamp at the mast, and nobody rows against the wind."
)
MOORING = [
    "Tie a boat to the quay where the water is deep enough, with moor or by hand:",
    "The first of the boats that come back lies at the ring that is nearest to the market.",
    "The second one lies behind it, and its crew walks over the first.",
    "A long plank helps them.",
    "bow; mast; rudder",
]
QUAY, BOW = "A place where boats are tied.", "The front of a boat, which meets the waves."
SEA = "The sea gives, and the sea takes."
FORMULA = "How far a rope of length"
MARKETS = (
    "The crews sell what they have caught to whoever comes, and keep the rest for themselves. Fish "
    "that nobody buys is smoked, salted or thrown to the gulls—which know the hour."
)


@pytest.mark.parametrize(
    ("name", "level", "rings"),
    [
        # What is a term is no part of GitHub's Markdown, nor of Word's styles.
        ("pandoc.md", 1, [f"Quay {QUAY}", f"Bow {BOW}", SEA, f"{FORMULA} $l$ reaches:"]),
        ("pandoc.rst", 2, [f"Quay: {QUAY}", f"Bow: {BOW}", SEA, f"{FORMULA} l reaches:"]),
        ("pandoc.docx", 1, ["Quay", QUAY, "Bow", BOW, SEA, f"{FORMULA} reaches:"]),
    ],
)
def test_what_pandoc_writes(name, level, rings):
    document = read_document((FILES / name).read_bytes(), format_of(name))
    assert document.title == "Small boats"
    assert [(one.heading, one.level, list(one.paragraphs)) for one in document.sections] == [
        ("", 0, [HARBOUR]),
        ("Mooring", level, MOORING),
        ("Rings", level + 1, rings),
        ("Markets", level, [MARKETS]),
    ]
    assert document.left_out == {"code blocks": 1, "footnotes": 1, "formulas": 1, "tables": 1}
