"""Documents of every format: what each reader makes of what it may meet."""

import gzip
import io
import shutil
import sys
import zipfile
from pathlib import Path

import docx
import pytest
from docutils.core import publish_string
from docutils.parsers.rst import directives, roles
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from fpdf import FPDF

from isospace.corpus.formats import (
    UnreadableDocument,
    format_of,
    paragraph_boilerplate,
    read_document,
    section_boilerplate,
)
from isospace.corpus.reading import read_file
from isospace.corpus.sources import find_sources

FILES = Path(__file__).parent / "files"
needs_mandoc = pytest.mark.skipif(not shutil.which("mandoc"), reason="no mandoc here")

LOREM = (
    "The harbour of the old town is full of small boats that leave before the sun has risen. "
    "Their crews come back around noon with what they caught, and sell it on the quay. "
)


def read(content, format, **options):
    content = content.encode() if isinstance(content, str) else content
    return read_document(content, format, **options)


def outline(document):
    """Headings, marked with their level as in Markdown, and paragraphs."""
    found = []
    for section in document.sections:
        found += [f"{'#' * section.level} {section.heading}"] * bool(section.heading)
        found += section.paragraphs
    return found


def paragraphs(document):
    return [text for section in document.sections for text in section.paragraphs]


MARKDOWN = """---
title: "A guide"
date: 2024-01-01
---

Before *any* [heading](other.md#part), `code` and ![badge](b.png).
A wrapped line.

# A guide

| a | b |
|---|---|
| 1 | 2 |

## Install

```sh
pip install it
```

- apples
- pears

1. The first item of this list is long enough to be a paragraph.
2. The second one, too, has a nested list:
   - with an item that is not short at all, but rather long

!!! note "Careful"

<p align="center">Some <b>HTML</b> here.</p>

```{warning}
Mind the gap between the two of them.
```

A sentence with a note[^1] and <https://example.org/x>.

[^1]: The note's text.

<!-- A comment that nobody reads. -->

<video src="boats.mp4" />

The last sentence stands after a tag that nothing closes.
"""


def test_markdown():
    document = read(MARKDOWN, "markdown")
    assert document.title == "A guide"
    assert outline(document) == [
        "Before any heading, code and . A wrapped line.",
        "## Install",
        "apples; pears",
        "The first item of this list is long enough to be a paragraph.",
        "The second one, too, has a nested list:",
        "with an item that is not short at all, but rather long",
        "Careful",
        "Some HTML here.",
        "Mind the gap between the two of them.",
        "A sentence with a note and https://example.org/x.",
        "The last sentence stands after a tag that nothing closes.",
    ]
    assert document.left_out == {"code blocks": 1, "footnotes": 1, "tables": 1}


@pytest.mark.parametrize(
    ("front", "title"),
    [
        ("---\n# of the site\nlayout: post\n\ntitle: 'A guide'\n...\n", "A guide"),
        ('+++\ntitle = "A guide"\n[menu]\nweight = 1\n+++\n', "A guide"),
        ("---\ntitle: >-\n  A guide\n---\n", ""),
        ("---\n# a template\n{{ card_data }}\n---\n", ""),
        ('---\ntitle: "A #1: guide" # for all\n---\n', "A #1: guide"),
    ],
)
def test_markdown_front_matter(front, title):
    document = read(f"{front}\nThe text.\n\n---\n\nMore.\n", "markdown")
    assert (document.title, paragraphs(document)) == (title, ["The text.", "More."])


def test_a_sidebar_of_a_page_is_text_and_that_of_its_frame_is_not():
    page = "The text.\n\n.. sidebar:: A boat\n\n   It sails.\n"
    assert paragraphs(read(page, "rst")) == ["The text.", "A boat", "It sails."]
    html = publish_string(page, writer="html5").decode()
    assert paragraphs(read(html, "html")) == ["The text.", "A boat", "It sails."]
    menu, title = "<ul><li>Intro<li>Usage</ul>", "<p class=sidebar-title>Menu</p>"
    frame = [menu, "Menu", f"{title}{menu}", f"{title}<div><nav>{menu}</nav></div>"]
    html = "".join(f"<aside class=sidebar>{one}</aside>" for one in frame)
    assert paragraphs(read(f"{html}<p>The text.", "html")) == ["The text."]
    html = html.replace("aside", "div")
    assert paragraphs(read(f"{html}<p>The text.", "html")) == ["The text."]
    html = f"<aside class=sidebar>{title}<p>Two:</p>{menu}</aside><p>The text."
    assert paragraphs(read(html, "html")) == ["Menu", "Two:", "Intro; Usage", "The text."]


RST = """
=====
Title
=====

:Author: Somebody

.. contents::

.. toctree::

   A page <intro>
   other

First :class:`~a.b.C` and :ref:`text <label>`, ``code``, :doc:`guide` [1]_ and `a link <x.html#y>`_.

.. versionadded:: 3.4
   The thing.

.. py:function:: foo(a, b)
   :noindex:

   Return the sum of both.

   :param int a: the first number of the two that are added

.. code-block:: python
   :linenos:

   x = 1

.. jupyter-execute::

   y = x

.. only:: html or text

   What some readers see.

.. frobnicate:: Some title here

   The text of a directive that nobody knows.

Part
====

Example::

    x = 2

term : kind
   Its definition.

-a, --all   Show all of it, whatever it may be.

:nobody:`A role's text` and |version|.

.. include:: /etc/passwd
.. raw:: html

   <script>evil</script>

.. [1] The footnote.
"""


def test_rst(capfd):
    before = directives.directive, roles.role
    document = read(RST, "rst")
    assert (directives.directive, roles.role) == before
    assert capfd.readouterr() == ("", "")
    assert document.title == "Title"
    assert outline(document) == [
        "First C and text, code, guide and a link.",
        "The thing.",
        "Return the sum of both.",
        "a: the first number of the two that are added",
        "What some readers see.",
        "Some title here",
        "The text of a directive that nobody knows.",
        "## Part",
        "Example:",
        "term: Its definition.",
        "-a, --all: Show all of it, whatever it may be.",
        "A role's text and |version|.",
    ]
    assert document.left_out["code blocks"] == 3
    assert document.left_out["signatures"] == 1
    assert "root" not in str(document)
    assert "evil" not in str(document)


def test_rst_reads_no_picture(monkeypatch):
    picture = ".. image:: boats.png\n   :loading: embed\n\n"
    text = ".. topic:: Boats\n\n   All of [CIT]_ them.\n\n.. [CIT] A book.\n"
    monkeypatch.delattr(Path, "read_bytes")
    assert paragraphs(read(picture + text, "rst")) == ["Boats", "All of them."]


WRITTEN_BY_OTHERS = {
    "sphinx-rtd.html": (
        [
            "The harbour of the old town is full of small boats, see Crews and boats.moor().",
            "Boats that leave before the sun has risen carry a lamp at the mast.",
            "The quay is slippery after rain.",
            "## Mooring",
            "Added in version 2.1: The option depth.",
            "moor: Tie a boat to the quay where the water is deep enough.",
            "Parameters: boat – the boat that is tied, by its name",
            "depth – of the water in metres",
            "Returns: the number of the ring that was used",
            "Return type: int",
            "Quay: A place for boats.; rings: How many boats can be tied.",
            "Inline math \\(a+b\\) and a block:",
            "The page on crews.",
            "The harbour in the morning.",
            "Deprecated since version 2.2: Use place.",
            "Footnotes",
        ],
        {"code blocks": 2, "footnotes": 1, "formulas": 1, "navigation": 2, "tables": 1},
    ),
    "mkdocs-material.html": (
        [
            "The harbour of the old town is full of small boats, see crews.",
            "Lamps",
            "Boats that leave before the sun has risen carry a lamp at the mast.",
            "Take the ring at the end.",
            "## Mooring",
            "Tie a boat to the quay where the water is deep enough for it.",
            "Use moor.",
            "A rope of hemp holds for about three years at sea.",
            "A chain of iron is heavy.",
        ],
        {"code blocks": 1, "footnotes": 1, "navigation": 2, "tables": 1},
    ),
    "pandoc.docx": (
        [
            "The harbour of the old town is full of small boats, see crews. Boats that leave before "
            "the sun has risen carry a lamp at the mast, and nobody rows against the wind.",
            "# Mooring",
            "Tie a boat to the quay where the water is deep enough, with moor or by hand:",
            "The first of the boats that come back lies at the ring that is nearest to the market.",
            "The second one lies behind it, and its crew walks over the first.",
            "A long plank helps them.",
            "bow; mast; rudder",
            "## Rings",
            "Quay",  # a term is no part of Word's styles
            "A place where boats are tied.",
            "Bow",
            "The front of a boat, which meets the waves.",
            "The sea gives, and the sea takes.",
            "How far a rope of length reaches:",
            "# Markets",
            "The crews sell what they have caught to whoever comes, and keep the rest for themselves. "
            "Fish that nobody buys is smoked, salted or thrown to the gulls—which know the hour.",
        ],
        {"code blocks": 1, "footnotes": 1, "formulas": 1, "tables": 1},
    ),
}


@pytest.mark.parametrize("name", WRITTEN_BY_OTHERS)
def test_files_that_other_programs_wrote(name):
    document = read((FILES / name).read_bytes(), format_of(name))
    found, left_out = WRITTEN_BY_OTHERS[name]
    assert document.title == "Small boats"
    assert outline(document) == found
    assert document.left_out == left_out


@pytest.mark.parametrize(
    ("charset", "encoding", "text"),
    [
        ("iso-8859-1", "cp1252", "I don’t know “it”…"),
        ("Shift_JIS", "cp932", "①番の髙さ"),
        ("utf-16", "utf-8", "words"),
    ],
)
def test_html_means_by_its_encoding_what_browsers_do(charset, encoding, text):
    page = f'<meta charset="{charset}"><p>{text}</p>'.encode(encoding)
    assert paragraphs(read(page, "html")) == [text]


MAN_PAGE = r"""'\" t
.TH FROB 1 2024 "pack 1" "User Commands"
.SH NAME
frob, defrob \- turn caf\('es in\%to bars
.SH SYNOPSIS
.B frob
[\fIFILE\fR]
.SH DESCRIPTION
It is \fBbold\fR and \(lqquoted\(rq; see
.BR ls (1).
.TP
.B \-a
Do \fIall\fR of it, without leaving anything out.
.IP \(bu 2
A bullet with a text that is as long as a paragraph.
.nf
code here
.fi
.SS Details
.TS
l l.
a	b
.TE
After the table stands
.UR https://example.org/frob
a page
.UE .
.SH "SEE ALSO"
.BR ls (1),
.BR printf (3)
.SH COPYRIGHT
Copyright \(co 2024 Somebody.
"""


@needs_mandoc
def test_man():
    document = read(MAN_PAGE, "man")
    assert document.title == "frob, defrob - turn cafés into bars"
    assert outline(document) == [
        "# DESCRIPTION",
        "It is bold and “quoted”; see ls(1).",
        "-a: Do all of it, without leaving anything out.",
        "A bullet with a text that is as long as a paragraph.",
        "## Details",
        "After the table stands a page.",
    ]
    kinds = ("code blocks", "licences", "lists of references", "synopses", "tables")
    assert document.left_out == dict.fromkeys(kinds, 1)


MDOC = r"""
.Dd January 1, 2024
.Dt FROB 1
.Os
.Sh NAME
.Nm frob
.Nd turn things into others
.Sh DESCRIPTION
The
.Nm
utility reads
.Ar file
.Pq see Xr ls 1 .
.Bl -tag -width Ds
.It Fl b , Fl c
Take others.
.El
.Bd -literal
code
.Ed
"""


@needs_mandoc
def test_mdoc():
    document = read(MDOC, "man")
    assert document.title == "frob - turn things into others"
    text = ["The frob utility reads file (see ls(1)).", "-b, -c: Take others."]
    assert paragraphs(document) == text
    assert document.left_out["code blocks"] == 1


@needs_mandoc
def test_mandoc_reads_no_file_that_a_page_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("Nobody reads this.\n")
    for path in ("secret", str(tmp_path / "secret"), "../secret"):
        document = read(f".TH A 1\n.SH DESCRIPTION\nIt begins.\n.so {path}\nIt ends.\n", "man")
        assert "Nobody" not in str(document)


TEXT = """A Title Here
============

The well-
known harbour is co-
operative and long-
lived. They cooperate; cooperative boats.

INTRODUCTION

- the first of the items is so long that it has
  a second line
- the second one

+------+------+
|  a   |  --  |
+------+------+

Not Underlined

Last.
"""


def test_plain_text():
    document = read(TEXT, "text")
    assert document.title == "A Title Here"
    assert outline(document) == [
        "The well-known harbour is cooperative and long-lived. They cooperate; cooperative boats.",
        "## INTRODUCTION",
        "the first of the items is so long that it has a second line",
        "the second one",
        "Not Underlined",
        "Last.",
    ]
    assert document.left_out == {"tables and drawings": 1}
    # As Sphinx writes text: its first heading has stars.
    starred = read("Title\n*****\n\nText.\n\nPart\n====\n\nMore.\n\nIn it\n-----\n\nEnd.\n", "text")
    assert outline(starred) == ["Text.", "## Part", "More.", "### In it", "End."]


def write(pdf, text, font="Times", style="", size=11):
    """Write a paragraph; stars make words of it bold."""
    pdf.set_font(font, style, size)
    pdf.multi_cell(0, 5, text, align="L", markdown=True, new_x="LMARGIN", new_y="NEXT")


def a_pdf(**encryption):
    class Report(FPDF):
        def header(self):
            self.set_font("Helvetica", "", 9)
            self.cell(0, 8, "Annual report of the harbour", new_x="LMARGIN", new_y="NEXT")

        def footer(self):
            self.set_y(-15)
            self.set_font("Helvetica", "", 9)
            self.cell(0, 8, f"Page {self.page_no()} of 3")

    pdf = Report()
    pdf.set_title("The harbour")
    for chapter in ("Boats", "Crews", "Markets"):
        pdf.add_page()
        write(pdf, chapter, "Helvetica", "B", 18)
        pdf.ln(4)
        write(pdf, f"{chapter} are many. {LOREM}")
        pdf.ln(4)
        write(pdf, f"{chapter} stand in a hyphen-\nated word of the {chapter}.")
    if encryption:
        pdf.set_encryption(**encryption)
    return bytes(pdf.output())


def test_pdf():
    document = read(a_pdf(), "pdf")
    assert document.title == "The harbour"
    wanted = []
    for chapter in ("Boats", "Crews", "Markets"):
        last = f"{chapter} stand in a hyphenated word of the {chapter}."
        wanted += [f"# {chapter}", f"{chapter} are many. {LOREM.strip()}", last]
    assert outline(document) == wanted
    assert document.left_out == {"page headers and footers": 6}


@pytest.mark.parametrize(("title", "gap"), [("", 0), ("The harbour", 4)])
def test_pdf_with_bold_headings_of_the_size_of_the_text(title, gap):
    pdf = FPDF()
    pdf.set_title("(anonymous)")  # as reportlab does where there is none
    pdf.add_page()
    if title:
        write(pdf, title, style="B")
        pdf.ln(4)
    for chapter in ("1. Boats", "Crews and what they catch", "Markets"):
        pdf.ln(gap)
        write(pdf, chapter, style="B")
        write(pdf, f"{LOREM}{LOREM}")
    write(pdf, f"**{LOREM.strip()}** {LOREM}")
    write(pdf, "Nothing of it is sold after dark.", style="B")
    document = read(bytes(pdf.output()), "pdf")
    assert document.title == (title or "1. Boats")
    headings = ["1. Boats", "Crews and what they catch", "Markets"][0 if title else 1 :]
    found = [text for text in outline(document) if text.startswith("#")]
    assert found == [f"## {heading}" for heading in headings]
    assert document.sections[0].paragraphs[0].startswith("The harbour of the old town is full")
    assert paragraphs(document)[-1].endswith("Nothing of it is sold after dark.")


def test_pdf_without_text_or_with_a_password():
    empty = FPDF()
    empty.add_page()
    with pytest.raises(UnreadableDocument, match="no text"):
        read(bytes(empty.output()), "pdf")
    with pytest.raises(UnreadableDocument, match="encrypted"):
        read(a_pdf(owner_password="b", user_password="a"), "pdf")


def test_a_format_whose_library_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    monkeypatch.delitem(sys.modules, "isospace.corpus.formats.pdf", raising=False)
    with pytest.raises(UnreadableDocument, match="needs pypdf; install it: pip install 'isospace"):
        read(b"%PDF", "pdf")


def saved(file):
    content = io.BytesIO()
    file.save(content)
    return content.getvalue()


def test_word_with_tracked_changes_content_controls_a_text_box_and_a_list():
    file = docx.Document()
    file.add_heading("The harbour", 0)
    paragraph = file.add_paragraph("The boat is ")
    of_word = nsdecls("w")
    for name, part in (
        ("ins", "<w:r><w:t>new</w:t></w:r>"),
        ("del", "<w:r><w:delText>old</w:delText></w:r>"),
        ("moveFrom", "<w:r><w:t>gone</w:t></w:r>"),
        ("sdt", "<w:sdtContent><w:r><w:t> and red.</w:t></w:r></w:sdtContent>"),
        ("r", "<w:pict><w:txbxContent><w:p><w:r><w:t>Beside.</w:t></w:r></w:p></w:txbxContent></w:pict>"),
    ):  # fmt: skip
        paragraph._p.append(parse_xml(f"<w:{name} {of_word}>{part}</w:{name}>"))
    control = "<w:sdtContent><w:p><w:r><w:t>It sails well.</w:t></w:r></w:p></w:sdtContent>"
    paragraph._p.addnext(parse_xml(f"<w:sdt {of_word}>{control}</w:sdt>"))
    for item in ("one", "two"):
        file.add_paragraph(item, style="List Bullet")
    document = read(saved(file), "word")
    assert paragraphs(document) == ["The boat is new and red.", "It sails well.", "one; two"]
    assert (document.title, document.left_out) == ("The harbour", {"text boxes": 1})


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("text", b"caf\xe9 text\n"),
        ("man", b"\x00\x01\x02"),
        ("man", b"no macro at all\n"),
        ("pdf", b"%PDF-1.4 and nothing more"),
        ("pdf", a_pdf()[:900]),
        ("word", b"PK\x03\x04 broken"),
        ("html", b"<div>" * 20_000 + b"deep"),
    ],
)
def test_what_cannot_be_read_says_why(format, content):
    with pytest.raises(UnreadableDocument, match=r"^It (is|has|cannot) "):
        read(content, format)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("© 2024, Somebody. All rights reserved.", "licences"),
        ("Last updated on Jan 3, 2024.", "navigation"),
        ("Copyright law protects the authors of software in most countries.", None),
        ("The next page shows how to edit this file with an editor.", None),
        ("(c) 2024 Somebody", "licences"),
        ("(c) the processing is necessary for compliance with an obligation;", None),
    ],
)
def test_boilerplate(text, kind):
    assert paragraph_boilerplate(text) == kind


def test_sections_of_boilerplate_are_left_out_and_counted():
    text = "# T\n\n## Contents\n\n- a\n- b\n\n## Use\n\nIt.\n\n## License\n\nMIT\n\n### More\n\nText.\n"
    document = read(text, "markdown")
    assert outline(document) == ["## Use", "It."]
    assert document.left_out == {"licences": 2, "navigation": 1}
    assert section_boilerplate("Licence servers") is None


NEWSLETTER = f"""<html><head><title>News of the harbour</title></head><body>
<table width="100%"><tr><td align="center"><table width="600">
<tr><td><a href="/">View in the browser</a></td></tr>
<tr><td><img src="logo.png"></td><td><h1>A new quay</h1><p>{LOREM}</p></td></tr>
<tr><td><table><tr><th>Boats</th><th>Crews</th></tr><tr><td>3</td><td>9</td></tr></table></td></tr>
<tr><td><table><tr><td><h2>Boats</h2></td></tr><tr><td>Boats are many.<br>{LOREM}</td></tr></table>
</td></tr></table></td></tr></table></body></html>"""


def test_html_whose_layout_is_a_table_is_read():
    lorem = LOREM.strip()
    news = read(NEWSLETTER, "html")
    assert news.title == "A new quay"
    assert outline(news) == ["View in the browser", lorem, "## Boats", f"Boats are many. {lorem}"]
    assert news.left_out == {"tables": 1}


def word_table(*rows):
    document = docx.Document()
    for row, texts in zip(document.add_table(len(rows), 2).rows, rows, strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    return saved(document)


def test_word_whose_layout_is_a_table_is_read():
    lorem = LOREM.strip()
    letter = read(word_table(("To the crews", lorem), ("", f"Boats are many. {lorem}")), "word")
    assert letter.title == ""
    assert paragraphs(letter) == ["To the crews", lorem, f"Boats are many. {lorem}"]


@pytest.mark.parametrize(
    ("format", "content", "besides"),
    [
        ("markdown", "| a |\n|-|\n| 3 |\n\n```\nsail()\n```\n", " besides code blocks, tables"),
        ("markdown", "# A\n\n## B\n\n## C\n", " besides headings"),
        ("text", "====  ====\nboat  3\n====  ====\n", " besides tables and drawings"),
        ("word", word_table(("boats", "3")), " besides tables"),
        ("html", "<html><head><title>App</title></head><body><script>run()</script>", ""),
    ],
)
def test_a_document_without_other_text_is_refused(format, content, besides):
    with pytest.raises(UnreadableDocument, match=rf"^It has no text{besides}\.$"):
        read(content, format)


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("isospace.system.files.SMALL_UNPACKED", 1000)
    (tmp_path / "a.docx").write_bytes(saved(docx.Document()))
    with zipfile.ZipFile(tmp_path / "a.docx", "a", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("word/media/image1.png", bytes(20_000_000))
    (tmp_path / "a.md.gz").write_bytes(gzip.compress(b"a " * 1_000_000))
    for name, way_out in (("a.docx", "save it again in a word"), ("a.md.gz", "unpack it yourself")):
        with pytest.raises(UnreadableDocument, match=f"200 times as large.* {way_out}"):
            read_file(find_sources([str(tmp_path / name)], tmp_path, "utf-8")[0])
