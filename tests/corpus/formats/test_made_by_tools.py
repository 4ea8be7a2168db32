"""Files that other tools made, and those of the packages here: what is read of them, and what not.

PDF and Word files that the tests make themselves are in `test_documents.py`.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from docutils.core import publish_string
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


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


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


# Of Sphinx


def test_what_sphinx_quickstart_writes():
    document = read("sphinx-quickstart.rst")
    assert document.title == "Boats documentation"
    said = "Add your content using reStructuredText syntax. See the reStructuredText documentation for details."
    assert outline(document) == [("", 0, [said])]
    assert document.left_out == {"navigation": 1}


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


@needs_mandoc
def test_a_man_page_of_docutils_has_what_the_rst_has():
    source = (FILES / "pandoc.rst").read_text(encoding="utf-8")
    settings = {"output_encoding": "unicode", "report_level": 5, "_disable_config": True}
    page = publish_string(source, writer="manpage", settings_overrides=settings)
    document, original = read_document(page.encode(), "man", "boats"), read("pandoc.rst")
    assert document.title == "Small boats"
    headings = [(heading.casefold(), level) for heading, level, _ in outline(document)]
    assert headings == [("", 0), ("mooring", 1), ("rings", 2), ("markets", 1)]
    assert document.left_out == {"code blocks": 2, "tables": 1}  # of formulas it makes code
    missing = Counter(words(" ".join(paragraphs(original))))
    missing -= Counter(words(" ".join(paragraphs(document))))
    assert not missing


# What the packages here say of themselves


# Of groff and of a browser, where they are


@needs_mandoc
def test_a_page_in_mdoc():
    document = read("ssh-copy-id.1")
    assert document.title == (
        "ssh-copy-id - use locally available keys to authorise logins on a remote machine"
    )
    assert [each.heading for each in document.sections] == ["DESCRIPTION", "EXAMPLES"]
    described, examples = (each.paragraphs for each in document.sections)
    assert described[0].startswith("ssh-copy-id is a script that uses ssh(1) to log into a remote")
    assert described[0].endswith("and using its ‘set ssh pka-dsa key ...’ command instead.")
    assert described[2].startswith(
        "-i identity_file: Use only the key(s) contained in identity_file (rather than looking for"
    )
    assert "-h, -?: Print Usage summary" in described
    assert examples[0].endswith("using the -A option to allow agent forwarding:")
    assert document.links == ("ssh(1)", "ssh-agent(1)", "sshd(8)")
    assert document.left_out == {"code blocks": 6, "lists of references": 1, "synopses": 1}


TERMS = rb""".TH CHAGE 1
.SH OPTIONS
The options are:
.PP
\fB\-d\fR, \fB\-\-lastday\fR\ \&\fIDAY\fR
.RS 4
Set the day on which the password was last changed\&.
.sp
The date may be a number of days, too\&.
.RE
.PP
\fB\-l\fR
.RS 4
Show what is known of the account, of its password and of both their ends\&.
.RE
.PP
What follows is no term of it:
.RS 4
A paragraph that is further in, and longer than what is joined in a list\&.
.RE
"""


@needs_mandoc
def test_terms_as_docbook_and_asciidoc_write_them():
    assert paragraphs(read_document(TERMS, "man", "chage")) == [
        "The options are:",
        "-d, --lastday DAY: Set the day on which the password was last changed.",
        "The date may be a number of days, too.",
        "-l: Show what is known of the account, of its password and of both their ends.",
        "What follows is no term of it:",
        "A paragraph that is further in, and longer than what is joined in a list.",
    ]
