"""Files that other tools made, and those of the packages here: what is read of them, and what not.

PDF and Word files that the tests make themselves are in `test_documents.py`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from prompted import load_again

from isospace.corpus.documents import Document
from isospace.corpus.formats import format_of, read_document

FILES = Path(__file__).parent / "files"
needs_mandoc = pytest.mark.skipif(not shutil.which("mandoc"), reason="no mandoc here")
CREWS = (
    "The crews sell what they have caught to whoever comes, and keep the rest for themselves. Fish "
    "that nobody buys is smoked, salted or thrown to the gulls"
)


def read(name: str) -> Document:
    format = format_of(name)
    assert format is not None
    return read_document((FILES / name).read_bytes(), format, name)


def outline(document: Document) -> list[tuple[str, int, list[str]]]:
    return [(each.heading, each.level, list(each.paragraphs)) for each in document.sections]


def paragraphs(document: Document) -> list[str]:
    return [text for section in document.sections for text in section.paragraphs]


# Of pandoc, one text in every format


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
IN_ONE = [MOORING[0], MOORING[1], " ".join(MOORING[2:4]), MOORING[4]]
RINGS = [
    "Quay: A place where boats are tied.",
    "Bow: The front of a boat, which meets the waves.",
    "The sea gives, and the sea takes.",
    "How far a rope of length l reaches:",
]
NO_TERMS = [text.replace(":", "", 1) for text in RINGS[:2]] + RINGS[2:]
MARKETS = [f"{CREWS}—which know the hour."]
ALL_LEFT_OUT = {"code blocks": 1, "footnotes": 1, "formulas": 1, "tables": 1}


@pytest.mark.parametrize(
    ("name", "level", "mooring", "rings"),
    [
        # What is a term is no part of GitHub's Markdown, nor of Word's styles.
        ("pandoc.md", 1, IN_ONE, [*NO_TERMS[:3], "How far a rope of length $l$ reaches:"]),
        ("pandoc.rst", 2, MOORING, RINGS),
        ("pandoc.html", 1, MOORING, RINGS),
        (
            "pandoc.docx",
            1,
            MOORING,
            [
                *("Quay", "A place where boats are tied."),
                *("Bow", "The front of a boat, which meets the waves."),
                *("The sea gives, and the sea takes.", "How far a rope of length reaches:"),
            ],
        ),
    ],
)
def test_what_pandoc_writes(name, level, mooring, rings):
    document = read(name)
    assert document.title == "Small boats"
    assert outline(document) == [
        ("", 0, [HARBOUR]),
        ("Mooring", level, mooring),
        ("Rings", level + 1, rings),
        ("Markets", level, MARKETS),
    ]
    assert document.links == ("crews.md",)
    assert document.left_out == ALL_LEFT_OUT


@needs_mandoc
def test_a_man_page_of_pandoc():
    document = read("pandoc.7")
    assert document.title == "Small boats(7)"  # as there is no NAME
    assert outline(document)[:3] == [
        ("", 0, [f"{HARBOUR}[1]"]),
        ("Mooring", 1, MOORING),
        ("Rings", 2, [*RINGS, r"$$r = \sqrt{l^2 - h^2}$$"]),
    ]
    assert document.left_out == {"code blocks": 1, "tables": 1}


# Of sentence-transformers and docutils, made now


def test_a_model_card_of_sentence_transformers(toy_model, tmp_path):
    load_again(toy_model).save_pretrained(str(tmp_path / "model"))
    card = (tmp_path / "model" / "README.md").read_bytes()
    document = read_document(card, "markdown", "card")
    assert document.title == "SentenceTransformer"
    assert card.startswith(b"---\ntags:")  # front matter without a title
    sections = {heading: (level, below) for heading, level, below in outline(document)}
    assert sections[""][1][0].startswith("This is a sentence-transformers model trained. It maps")
    assert sections["Model Details"] == (2, [])
    level, below = sections["Model Description"]
    assert (level, below[0]) == (3, "Model Type: Sentence Transformer")
    assert sections["Full Model Architecture"] == (3, [])
    assert document.left_out == {"code blocks": 3}
    assert "foreseeable" in card.decode()  # in comments
    assert "foreseeable" not in repr(document)
