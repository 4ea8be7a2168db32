"""Files that other tools made, and those of the packages here: what is read of them, and what not.

PDF and Word files that the tests make themselves are in `test_documents.py`.
"""

from __future__ import annotations

import importlib.metadata
import random
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from docutils.core import publish_string
from markdown_it import MarkdownIt
from prompted import load_again
from selectolax.lexbor import LexborHTMLParser

from isospace.corpus.documents import Document
from isospace.corpus.formats import format_of, read_document
from isospace.corpus.formats.text import txt_layout

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


def test_plain_text_of_pandoc_has_no_headings_and_no_code_that_could_be_told():
    assert txt_layout((FILES / "pandoc.txt").read_text(encoding="utf-8")) == "paragraphs"
    document = read("pandoc.txt")
    assert (document.title, document.links) == ("", ())
    [(heading, level, found)] = outline(document)
    assert (heading, level) == ("", 0)
    assert found == [
        "Small boats",
        f"{HARBOUR}[1]",
        "Mooring",
        MOORING[0],
        'boats.moor("Anna", depth=2)',
        *MOORING[1:],
        "Rings",
        *NO_TERMS,
        "Markets",
        *MARKETS,
        "[1] A green one to starboard.",
    ]
    assert document.left_out == {"tables and drawings": 2}  # of formulas most is no letters


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


def test_text_of_sphinx():
    """Its title is underlined with stars, and its table of contents ends where a section begins."""
    assert txt_layout((FILES / "sphinx.txt").read_text(encoding="utf-8")) == "paragraphs"
    document = read("sphinx.txt")
    assert document.title == "Small boats"
    sections = {heading: (level, below) for heading, level, below in outline(document)}
    assert {heading: level for heading, (level, _) in sections.items()} == {
        "": 0,
        "Mooring": 2,
        "Rings": 3,
        "Markets": 2,
    }
    assert sections["Mooring"][1][:3] == [
        "Added in version 2.1: The option *depth*.",
        "boats.moor(boat, depth=2)",
        "Tie a boat to the quay where the water is deep enough for it.",
    ]
    assert MOORING[1] in sections["Mooring"][1]
    assert sections["Rings"][1][0] == "Quay A place where boats are tied."
    assert sections["Markets"][1][0] == f"{CREWS}."
    assert document.left_out == {"navigation": 3, "tables and drawings": 1}


def test_the_source_of_that_text():
    document = read("boats.rst")
    assert document.title == "Small boats"
    assert [(heading, level) for heading, level, _ in outline(document)] == [
        ("", 0),
        ("Mooring", 2),
        ("Rings", 3),
        ("Markets", 2),
    ]
    assert document.links == ("crews.html",)
    assert document.left_out == {**ALL_LEFT_OUT, "images": 1, "signatures": 1}


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


def descriptions(kind: str) -> list[tuple[str, str]]:
    """Name and text of some packages, as their authors and their tools wrote it."""
    found = {}
    for package in importlib.metadata.distributions():
        about = package.metadata
        if (about["Description-Content-Type"] or "").split(";")[0].strip() == kind:
            found[package.name] = str(about.get_payload() or about["Description"] or "")
    chosen = sorted((name, text) for name, text in found.items() if text.strip())
    return random.Random(0).sample(chosen, min(25, len(chosen)))


def shown(text: str, format: str) -> LexborHTMLParser:
    """The page that the format's own library makes of a text."""
    if format == "markdown":
        return LexborHTMLParser(MarkdownIt("commonmark").enable("table").render(text))
    settings = {
        "output_encoding": "unicode",
        "embed_stylesheet": False,
        "report_level": 5,
        "file_insertion_enabled": False,
        "doctitle_xform": False,
        "_disable_config": True,
    }
    html = publish_string(text, writer="html5", settings_overrides=settings)
    return LexborHTMLParser(html)


@pytest.mark.parametrize(("kind", "format"), [("text/markdown", "markdown"), ("text/x-rst", "rst")])
def test_descriptions_of_packages_are_read_as_they_are_shown(kind, format):
    packages = descriptions(kind)
    assert len(packages) >= 5
    for name, text in packages:
        document, page = read_document(text.encode(), format, name), shown(text, format)
        assert page.body is not None
        found = Counter(words(" ".join([document.title, *paragraphs(document)])))
        assert sum(found.values()) >= 5, name
        # A word may be marked in part, and two texts may follow each other without a blank.
        both = Counter(words(page.body.text())) | Counter(words(page.body.text(separator=" ")))
        assert not found - both, name
        headings = [" ".join(words(heading.text())) for heading in page.css("h1,h2,h3,h4,h5,h6")]
        ours = [each.heading for each in document.sections if each.heading]
        remaining = iter(headings)  # in this order; sections of licences and contents are not ours
        assert all(" ".join(words(heading)) in remaining for heading in ours), name
        left_out = document.left_out
        assert left_out.get("code blocks", 0) == len(page.css("pre")), name
        assert left_out.get("tables", 0) == len(page.css("table")), name


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


needs_groff = pytest.mark.skipif(not shutil.which("groff"), reason="no groff here")


def rendered(page: bytes) -> bytes:
    """As `man` shows it, in lines of 78 columns with hyphens."""
    groff = ["groff", "-Kutf8", "-t", "-mandoc", "-Tutf8", "-P-cbou", "-rLL=78n"]
    return subprocess.run(groff, input=page, capture_output=True, check=True).stdout


BOXED = b""".TH BOATS 7
.SH NAME
boats \\- moor small boats
.in 0
\\l'70n'
.SH ATTRIBUTES
.TS
allbox;
l l.
quay	rings
north	12
south	7
.TE
.sp 1
In the above table rings are of iron, and whoever ties a boat to one of them leaves room for others.
"""


@needs_groff
def test_a_table_ends_where_its_box_does_and_a_rule_is_no_heading():
    text = rendered(BOXED).decode()
    assert "┘\n       In the above table" in text  # no line between them
    assert "\n______" in text
    document = read_document(text.encode(), "text", "boats")
    assert document.title == "boats - moor small boats"
    [(heading, _, found)] = outline(document)
    assert heading == "ATTRIBUTES"
    assert found == [BOXED.decode().splitlines()[-1]]


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium here")
def test_a_page_that_a_browser_prints(tmp_path):
    options = "--headless=new --no-sandbox --disable-gpu --no-pdf-header-footer".split()
    printed = tmp_path / "printed.pdf"
    page = (FILES / "pandoc.html").as_uri()
    command = ["chromium", *options, f"--user-data-dir={tmp_path}", f"--print-to-pdf={printed}"]
    subprocess.run([*command, page], capture_output=True, check=True, timeout=120)
    document = read_document(printed.read_bytes(), "pdf", "printed")
    assert document.title == "Small boats"
    headings = [(each.heading, each.level) for each in document.sections if each.heading]
    assert {("Mooring", 1), ("Rings", 2), ("Markets", 1)} <= set(headings)
    found = " ".join(paragraphs(document))
    assert all(text in found for text in (*MOORING, HARBOUR, *MARKETS))
