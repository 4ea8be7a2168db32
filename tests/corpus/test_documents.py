"""Documents of every format: what each reader makes of what it may meet."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import time
import zipfile
from pathlib import Path

import docx
import pytest
from docutils.core import publish_string
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from fpdf import FPDF
from pypdf import PdfWriter, Transformation
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject

from isospace.corpus import streams
from isospace.corpus.documents import Document, UnreadableDocument
from isospace.corpus.formats import DOCUMENT_FORMATS, ENDINGS, format_of, read_document, word
from isospace.corpus.formats.boilerplate import paragraph_boilerplate, section_boilerplate
from isospace.corpus.formats.text import txt_layout
from isospace.corpus.sources import file_source

FILES = Path(__file__).parent / "files"
needs_mandoc = pytest.mark.skipif(not shutil.which("mandoc"), reason="no mandoc here")

LOREM = (
    "The harbour of the old town is full of small boats that leave before the sun has risen. "
    "Their crews come back around noon with what they caught, and sell it on the quay. "
)


def read(content: bytes | str, format, **options) -> Document:
    content = content.encode() if isinstance(content, str) else content
    return read_document(content, format, "an id", **options)


def outline(document: Document) -> list[tuple[str, int, list[str]]]:
    return [(each.heading, each.level, list(each.paragraphs)) for each in document.sections]


def paragraphs(document: Document) -> list[str]:
    return [text for section in document.sections for text in section.paragraphs]


@pytest.mark.parametrize(
    ("path", "format"),
    [
        ("a/b.md", "markdown"),
        ("b.HTM", "html"),
        ("x.rst.gz", "rst"),
        ("ls.1", "man"),
        ("printf.3p", "man"),
        ("CA.pl.1ssl.gz", "man"),
        ("perl.1.zst", "man"),
        ("notes.txt", "text"),
        ("a.docx", "word"),
        ("README", None),
        ("a.py", None),
        ("libc.so.6", "man"),  # by its name; its content is refused
        ("v1.10", None),
    ],
)
def test_format_by_name(path, format):
    assert format_of(path) == format


def test_every_format_has_a_name_or_a_section():
    assert {*ENDINGS.values(), "man"} == set(DOCUMENT_FORMATS)


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
"""


def test_markdown():
    document = read(MARKDOWN, "markdown")
    assert document.title == "A guide"
    assert outline(document) == [
        ("", 0, ["Before any heading, code and . A wrapped line."]),
        (
            "Install",
            2,
            [
                "apples; pears",
                "The first item of this list is long enough to be a paragraph.",
                "The second one, too, has a nested list:",
                "with an item that is not short at all, but rather long",
                "Careful",
                "Some HTML here.",
                "Mind the gap between the two of them.",
                "A sentence with a note and https://example.org/x.",
            ],
        ),
    ]
    assert document.links == ("other.md", "https://example.org/x")
    assert document.left_out == {"code blocks": 1, "footnotes": 1, "tables": 1}


def test_markdown_title_is_the_first_heading_of_level_1():
    document = read("# One\n\ntext\n\n# Two\n\nmore\n", "markdown")
    assert (document.title, outline(document)) == (
        "One",
        [("", 0, ["text"]), ("Two", 1, ["more"])],
    )


@pytest.mark.parametrize(
    ("front", "title"),
    [
        ("---\ntitle: A guide\n---\n", "A guide"),
        ("---\n# of the site\nlayout: post\n\ntitle: 'A guide'\n...\n", "A guide"),
        ('+++\ntitle = "A guide"\n[menu]\nweight = 1\n+++\n', "A guide"),
        ("+++\ndraft = true\n+++\n", ""),
        ("---\ntitle: >-\n  A guide\n---\n", ""),
        ("---\n# a template\n{{ card_data }}\n---\n", ""),
        ('---\ntitle: "A #1: guide" # for all\n---\n', "A #1: guide"),
    ],
)
def test_markdown_front_matter(front, title):
    document = read(f"{front}\nThe text.\n\n---\n\nMore.\n", "markdown")
    assert (document.title, paragraphs(document)) == (title, ["The text.", "More."])


@pytest.mark.parametrize("first", ["\nThe text.", "The text.", "\n# A heading: one\n\nThe text."])
def test_markdown_that_begins_with_a_rule_is_read_from_there(first):
    document = read(f"---\n{first}\n\n---\n\nMore.\n", "markdown")
    assert paragraphs(document) == ["The text.", "More."]


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

term
   Its definition.

-a, --all   Show all of it, whatever it may be.

:nobody:`A role's text` and |version|.

.. include:: /etc/passwd
.. raw:: html

   <script>evil</script>

.. [1] The footnote.
"""


def test_rst(capfd):
    document = read(RST, "rst")
    assert capfd.readouterr() == ("", "")
    assert document.title == "Title"
    assert outline(document) == [
        (
            "",
            0,
            [
                "First C and text, code, guide and a link.",
                "The thing.",
                "Return the sum of both.",
                "a: the first number of the two that are added",
                "What some readers see.",
                "Some title here",
                "The text of a directive that nobody knows.",
            ],
        ),
        (
            "Part",
            2,
            [
                "Example:",
                "term: Its definition.",
                "-a, --all: Show all of it, whatever it may be.",
                "A role's text and |version|.",
            ],
        ),
    ]
    assert document.links == ("intro", "other", "guide", "x.html")
    assert document.left_out["code blocks"] == 3
    assert document.left_out["signatures"] == 1
    assert "root" not in str(document)
    assert "evil" not in str(document)


def test_rst_with_a_line_of_any_length():
    text = " ".join(["word"] * 2500)
    assert paragraphs(read(f"Before it.\n\n{text}\n\nAfter it.\n", "rst")) == [
        "Before it.",
        text,
        "After it.",
    ]


def test_rst_leaves_docutils_as_it_was():
    read(".. frobnicate::\n\n   text\n", "rst")
    html = publish_string(
        ".. frobnicate::\n\n   text\n",
        writer="html5",
        settings_overrides={"report_level": 5, "output_encoding": "unicode"},
    )
    assert "<p>text</p>" not in html


def test_html_of_docutils_has_what_the_rst_has():
    source = "Title\n=====\n\nA paragraph with `a link <x.html>`_.\n\n::\n\n  code\n\nPart\n----\n\nMore of it.\n\nPart 2\n------\n\n- one\n- two\n"
    settings = {"doctitle_xform": True, "embed_stylesheet": False, "output_encoding": "unicode"}
    html = publish_string(source, writer="html5", settings_overrides=settings)
    document, original = read(html, "html"), read(source, "rst")
    assert document.title == original.title == "Title"
    assert paragraphs(document) == paragraphs(original)
    assert document.links == original.links == ("x.html",)
    assert document.left_out == original.left_out == {"code blocks": 1}


def test_html_of_texinfo():
    document = read((FILES / "thread-safety.html").read_bytes(), "html")
    assert document.title.startswith("Thread Safety (libffi")
    (section,) = document.sections[-1:]
    assert (section.heading, section.level) == ("2.7 Thread Safety", 3)
    assert section.paragraphs[0].startswith("libffi is not completely thread-safe. However, many")
    assert len(section.paragraphs) == 4
    assert document.left_out["navigation"] == 1


@pytest.mark.parametrize("theme", ["alabaster", "rtd"])
def test_html_of_sphinx(theme):
    document = read((FILES / f"sphinx-{theme}.html").read_bytes(), "html")
    assert document.title == "Small boats"
    assert outline(document) == [
        (
            "",
            0,
            [
                "The harbour of the old town is full of small boats, see Crews and boats.moor().",
                "Boats that leave before the sun has risen carry a lamp at the mast.",
                "The quay is slippery after rain.",
            ],
        ),
        (
            "Mooring",
            2,
            [
                "Added in version 2.1: The option depth.",
                "moor: Tie a boat to the quay where the water is deep enough.",
                "Parameters: boat – the boat that is tied, by its name",
                "depth – of the water in metres",
                "Returns: the number of the ring that was used",
                "Return type: int",
                "Quay: A place for boats.; rings: How many boats can be tied.",
                r"Inline math \(a+b\) and a block:",
                "The page on crews.",
                "The harbour in the morning.",
                "Deprecated since version 2.2: Use place.",
                "Footnotes",
            ],
        ),
    ]
    assert document.links == ("crews.html",)
    assert document.left_out == {
        "code blocks": 2,
        "footnotes": 1,
        "formulas": 1,
        "navigation": 2,
        "tables": 1,
    }


def test_html_of_mkdocs():
    document = read((FILES / "mkdocs-material.html").read_bytes(), "html")
    assert document.title == "Small boats"
    assert outline(document) == [
        (
            "",
            0,
            [
                "The harbour of the old town is full of small boats, see crews.",
                "Lamps",
                "Boats that leave before the sun has risen carry a lamp at the mast.",
                "Take the ring at the end.",
            ],
        ),
        (
            "Mooring",
            2,
            [
                "Tie a boat to the quay where the water is deep enough for it.",
                "Use moor.",
                "A rope of hemp holds for about three years at sea.",
                "A chain of iron is heavy.",
            ],
        ),
    ]
    assert document.links == ("crews/",)
    assert document.left_out["footnotes"] == 1


def test_html_of_javadoc():
    document = read((FILES / "javadoc.html").read_bytes(), "html")
    assert document.title == "Class Quay"
    assert [each for each in outline(document) if each[2]] == [
        (
            "",
            0,
            [
                "A place for boats. It has rings of iron, to which boats are tied.",
                "A quay without rings is a String.",
            ],
        ),
        ("rings", 3, ["How many boats can be tied to it at the same time."]),
        ("Quay", 3, ["Makes a quay.", "Parameters: rings - how many boats can be tied"]),
        (
            "moor",
            3,
            [
                "Ties a boat to the quay where the water is deep enough.",
                "Parameters: boat - the boat that is tied, by its name",
                "Returns: the number of the ring that was used",
                "Throws: IllegalStateException - if all of the rings are taken by others",
            ],
        ),
    ]
    assert document.left_out["signatures"] == 5


HTML = """<html><head><title>Page &#8212; Project</title></head><body>
<nav>Home <a href="index.html">x</a></nav><div class="related">next</div>
<div role="main"><h1>Page<a class="headerlink" href="#p">¶</a></h1>
<p>One&nbsp;<em>two</em><br>three <a href="a%20b.html#c">link</a> <a href="#here">here</a>.</p>
bare text<div class="highlight"><pre>code</pre></div>
<dl class="py function"><dt class="sig"><span class="descname">foo</span>(a, b)</dt>
<dd><p>Return the sum of a and b, both of which are numbers.</p></dd></dl>
<table><tr><td>cell</td></tr></table><script>x()</script>
</div><footer>Built with Sphinx</footer></body></html>"""


SPHINX = """<main><h1>Library</h1><div class="modindex-jumpbox"><a href="#c">c</a> | d</div>
<dl><dt class="sig"><span class="descname">range</span>(stop)</dt>
<dt class="sig"><span class="descname">range</span>(start, stop)</dt>
<dd><p>Rather than being a function, it is an immutable sequence type of numbers.</p></dd></dl>
<dl class="field-list"><dt>Author:</dt><dd><p>The one who has written all of this, and
more.</p></dd></dl> </main>"""


def test_html_of_sphinx_names_what_it_describes_once():
    document = read(SPHINX, "html")
    assert paragraphs(document) == [
        "range: Rather than being a function, it is an immutable sequence type of numbers.",
        "Author: The one who has written all of this, and more.",
    ]
    assert document.left_out == {"navigation": 1}


def test_html_main_content():
    document = read(HTML, "html")
    assert document.title == "Page"
    assert paragraphs(document) == [
        "One two three link here.",
        "bare text",
        "foo: Return the sum of a and b, both of which are numbers.",
    ]
    assert document.links == ("a%20b.html",)
    assert document.left_out == {"code blocks": 1, "tables": 1}


POSTS = """<body><h1>Blog</h1><p>What it is about.</p>
<article><h2>One</h2><p>The first post.</p><article><p>A comment.</p></article></article>
{}<footer>Built</footer></body>"""


def test_html_of_several_articles_is_all_of_them():
    second = "<article><h2>Two</h2><p>The second post.</p></article>"
    assert paragraphs(read(POSTS.format(second), "html")) == [
        "What it is about.",
        "The first post.",
        "A comment.",
        "The second post.",
    ]
    assert paragraphs(read(POSTS.format(""), "html")) == ["The first post.", "A comment."]


def test_html_in_a_form_is_read_without_its_controls():
    document = read(
        """<form id="aspnetForm"><input type="hidden" value="x"><h1>Page</h1><p>The text.</p>
        <fieldset><legend>Order</legend><label>How many</label>
        <select><option>1</option></select><textarea>none</textarea><button>Send</button></fieldset>
        A last word.</form>""",
        "html",
    )
    assert (document.title, paragraphs(document)) == ("Page", ["The text.", "A last word."])


def test_html_terms_that_nothing_describes_stand_alone():
    page = "<dl><dt>Bow</dt><dd>The front.</dd><dt>Mast</dt></dl><p>Another paragraph.</p>"
    assert paragraphs(read(page, "html")) == ["Bow: The front.; Mast", "Another paragraph."]


def test_html_says_its_encoding():
    page = '<meta charset="iso-8859-1"><title>x</title><p>déjà vu</p>'.encode("latin-1")
    assert paragraphs(read(page, "html")) == ["déjà vu"]


@pytest.mark.parametrize(
    ("charset", "encoding", "text"),
    [
        ("iso-8859-1", "cp1252", "I don’t know “it”…"),
        ("US-ASCII", "cp1252", "I don’t know “it”…"),
        ("Shift_JIS", "cp932", "①番の髙さ"),
        ("x-sjis", "cp932", "①番の髙さ"),
        ("gb2312", "gbk", "镕基的朱先生"),
        ("euc-kr", "cp949", "똠방각하"),
        ("utf-16", "utf-8", "words"),
    ],
)
def test_html_means_by_its_encoding_what_browsers_do(charset, encoding, text):
    page = f'<meta charset="{charset}"><p>{text}</p>'.encode(encoding)
    assert paragraphs(read(page, "html")) == [text]


MAN_PAGE = r"""'\" t
.\" a comment
.TH FROB 1 2024 "pack 1" "User Commands"
.de Sp
.if n .sp
..
.ie \n(.g .ds Aq \(aq
.el       .ds Aq '
.if t \{\
.  ds x printed
.\}
.SH NAME
frob, defrob \- turn caf\('es in\%to bars
.SH SYNOPSIS
.B frob
[\fIFILE\fR]
.SH DESCRIPTION
It\*(Aqs \fBbold\fR, \f[I]italic\f[], \s-1SMALL\s0 and \(lqquoted\(rq; see
.BR ls (1),
which goes \c
on.\" rest
.Sp
A back\e\-slash \[u00E9].
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
        (
            "DESCRIPTION",
            1,
            [
                "It's bold, italic, SMALL and “quoted”; see ls(1), which goes on.",
                "A back\\-slash é.",
                "-a: Do all of it, without leaving anything out.",
                "A bullet with a text that is as long as a paragraph.",
            ],
        ),
        ("Details", 2, ["After the table stands a page."]),
    ]
    assert document.links == ("https://example.org/frob", "ls(1)", "printf(3)")
    assert document.left_out == {
        "code blocks": 1,
        "licences": 1,
        "lists of references": 1,
        "synopses": 1,
        "tables": 1,
    }


MDOC = r"""
.Dd January 1, 2024
.Dt FROB 1
.Os
.Sh NAME
.Nm frob
.Nd turn things into others
.Sh SYNOPSIS
.Nm
.Op Fl a
.Sh DESCRIPTION
The
.Nm
utility reads
.Ar file
.Pq see Xr ls 1 ,
and
.Dq Li writes
it.
.Pp
.Bl -tag -width Ds
.It Fl a Ns Ar x
Take all of them, however many there may be in it.
.It Fl b , Fl c
Take others.
.El
.Bd -literal
code
.Ed
.Sh SEE ALSO
.Xr ls 1 ,
.Xr cat 1
"""


@needs_mandoc
def test_mdoc():
    document = read(MDOC, "man")
    assert document.title == "frob - turn things into others"
    assert paragraphs(document) == [
        "The frob utility reads file (see ls(1)), and “writes” it.",
        "-ax: Take all of them, however many there may be in it.",
        "-b, -c: Take others.",
    ]
    assert document.links == ("ls(1)", "cat(1)")
    assert document.left_out["code blocks"] == 1


@needs_mandoc
def test_mandoc_reads_no_file_that_a_page_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("Nobody reads this.\n")
    for path in ("secret", str(tmp_path / "secret"), "../secret"):
        document = read(f".TH A 1\n.SH DESCRIPTION\nIt begins.\n.so {path}\nIt ends.\n", "man")
        assert "Nobody" not in str(document)


def test_man_pages_need_mandoc(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnreadableDocument, match="apt install mandoc"):
        read(MAN_PAGE, "man")


def test_a_page_that_is_another():
    document = read(".so man3/printf.3\n", "man")
    assert (document.links, paragraphs(document)) == (("printf(3)",), [])


WRAPPED = """FROB(1)                          User Commands                         FROB(1)

NAME
       frob - turn things into others

SYNOPSIS
       frob [FILE]

DESCRIPTION
       The harbour of the old town is full of small boats that leave before the
       sun  has  risen.   Their crews come back around noon with what they have
       caught, and sell it on the quay to whoever comes, as is custom in every‐
       where else.

       -a, --all
              Do it with all the files that are found in the folder, whatever it
              is that they hold.

       -b     Do others.

SEE ALSO
       ls(1), cat(1)

pack 1                            January 2024                         FROB(1)
"""


def test_a_rendered_man_page_in_a_text_file():
    assert txt_layout(WRAPPED) == "paragraphs"
    bold = WRAPPED.replace("NAME\n", "N\bNA\bAM\bME\bE\n")
    document = read(bold, "text")
    assert document.title == "frob - turn things into others"
    assert outline(document) == [
        (
            "DESCRIPTION",
            2,
            [
                "The harbour of the old town is full of small boats that leave before the sun has "
                "risen. Their crews come back around noon with what they have caught, and sell it "
                "on the quay to whoever comes, as is custom in everywhere else.",
                "-a, --all Do it with all the files that are found in the folder, whatever it is "
                "that they hold.",
                "-b Do others.",
            ],
        )
    ]
    assert document.links == ("ls(1)", "cat(1)")
    assert document.left_out["page headers and footers"] == 2


HEADED = """Notes of the Harbour
====================

Since last year
---------------

* The boats that leave early in the morning
  come back around noon, if the weather
  is what it was when the people of
  the town set out.

* The crews are small.

  They sell on the quay what they have caught
  to whoever comes there before the
  market has opened, and they keep
  the rest for themselves.
"""


@pytest.mark.parametrize(
    ("sample", "layout"),
    [
        ("a man is playing a guitar\na cat\ntwo dogs run over a field of grass\n" * 9, "lines"),
        ("One sentence here.\nA second one, which is somewhat longer.\nA third.\n" * 9, "lines"),
        (f"{'One long paragraph. ' * 9}\n\n{'Another one. It goes on. ' * 9}\n", "paragraphs"),
        ("One sentence.\n\nAnother one after a blank line.\n\nA third.\n", "lines"),
        ("the cat number one sat on a mat there\nthe cat number two sat\n" * 40, "lines"),
        ("吾輩は猫である。\n名前はまだ無い。\nどこで生れたかとんと見当がつかぬ。\n" * 5, "lines"),
        ("", "lines"),
        (HEADED, "paragraphs"),
        (HEADED.split("\n\n", 2)[2], "paragraphs"),
        ("Notes of v2.9\n=============\n\nThis release has the fix of v2.7\n", "paragraphs"),
        ("One sentence.\nA second one is longer.\n\nA third on other things\n" * 9, "lines"),
        ("a man plays with Ann\n\nTwo dogs\na cat is on the roof of the old house\n" * 9, "lines"),
        ("The boats of the old harbour leave,\nand come back with the evening tide\n\n", "lines"),
        ("What is missing\n===============\nmilk\nbread from the baker\nApples\n", "lines"),
        ("- the milk\n- a loaf of bread from Ann\n- apples\n\n- and some salt\n" * 9, "lines"),
        ("名前はまだ無い\n----------\n吾輩は猫である\nここは駅です\n\n雨が降る\n" * 5, "lines"),
    ],
)
def test_layout_of_text(sample, layout):
    assert txt_layout(sample) == layout


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


def test_no_rule_is_text():
    document = read(f"A longer title\n====\n\n{HEADED}\nThe last.\n----\nOf all.\n", "text")
    assert document.title == "A longer title"
    assert [heading for heading, *_ in outline(document)][-1] == "Since last year"
    assert paragraphs(document)[-1] == "The last. Of all."
    assert "----" not in repr(document)


def test_plain_text():
    document = read(TEXT, "text")
    assert document.title == "A Title Here"
    assert outline(document) == [
        (
            "",
            0,
            [
                "The well-known harbour is cooperative and long-lived. They cooperate; "
                "cooperative boats."
            ],
        ),
        (
            "INTRODUCTION",
            2,
            [
                "the first of the items is so long that it has a second line",
                "the second one",
                "Not Underlined",
                "Last.",
            ],
        ),
    ]
    assert document.left_out == {"tables and drawings": 1}


def test_a_word_of_one_letter_is_no_bullet():
    text = "A pesca depende sempre do mar e\no vento muda, e por isso\no trabalho se organiza.\n"
    assert paragraphs(read(text, "text")) == [" ".join(text.split())]
    text = "   o  The first of the items of an RFC, which is long.\n   o  The second one.\n"
    assert paragraphs(read(text, "text")) == [
        "The first of the items of an RFC, which is long.",
        "The second one.",
    ]


def test_a_long_paragraph_takes_no_longer_a_line():
    text = "The boats leave the harbour early, and\nnobody likes to row against the wind.\n" * 1000
    began = time.process_time()
    assert paragraphs(read(text, "text")) == [" ".join(text.split())]
    assert time.process_time() - began < 5


def test_headings_of_plain_text_have_a_line_below_or_two():
    text = "=======\n Title\n=======\nWords.\n\n----\nPart\n----\n\nMore words.\n\n-----\n-----\n"
    document = read(text, "text")
    assert document.title == "Title"
    assert outline(document) == [("", 0, ["Words."]), ("Part", 2, ["More words."])]


@pytest.mark.parametrize(
    "text", ["မြန်မာဘာသာစကားသည် ရုံးသုံးဘာသာစကား ဖြစ်သည်။", "क्या तुम्हें मेरी चिट्ठी मिली थी?"]
)
def test_vowels_that_are_marks_make_no_drawing(text):
    assert paragraphs(read(text, "text")) == [text]


def a_pdf(**encryption: str) -> bytes:
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
        pdf.set_font("Helvetica", "B", 18)
        pdf.cell(0, 12, chapter, new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("Times", "", 11)
        pdf.multi_cell(0, 5, f"{chapter} are many. {LOREM}", new_x="LMARGIN", new_y="NEXT")
        pdf.ln(4)
        pdf.multi_cell(
            0, 5, f"{chapter} stand in a hyphen-\nated word of the {chapter}.", align="L"
        )
    if encryption:
        pdf.set_encryption(**encryption)
    return bytes(pdf.output())


def test_pdf():
    document = read(a_pdf(), "pdf")
    assert document.title == "The harbour"
    assert [(each.heading, each.level) for each in document.sections if each.heading] == [
        ("Boats", 1),
        ("Crews", 1),
        ("Markets", 1),
    ]
    last = document.sections[-1]
    assert list(last.paragraphs) == [
        f"Markets are many. {LOREM.strip()}",
        "Markets stand in a hyphenated word of the Markets.",
    ]
    assert document.left_out == {"page headers and footers": 6}


def test_ligatures_and_soft_hyphens_of_a_pdf_are_letters():
    """pdfTeX without glyphtounicode names the glyphs /ffi, /ff, ..., and no character for them."""
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Times", "", 11)
    for line in ("The e\x01cient o\x01ce su\x02ered a \x03re in its Unter\xad", "nehmen at night."):
        pdf.cell(0, 5, line, new_x="LMARGIN", new_y="NEXT")
    written = PdfWriter(clone_from=io.BytesIO(bytes(pdf.output())))
    [font] = written.pages[0]["/Resources"]["/Font"].values()
    names = [NumberObject(1), *map(NameObject, ("/ffi", "/ff", "/fi"))]
    font.get_object()[NameObject("/Encoding")] = DictionaryObject(
        {
            NameObject("/BaseEncoding"): NameObject("/WinAnsiEncoding"),
            NameObject("/Differences"): ArrayObject(names),
        }
    )
    content = io.BytesIO()
    written.write(content)
    assert paragraphs(read(content.getvalue(), "pdf")) == [
        "The efficient office suffered a fire in its Unternehmen at night."
    ]


def turned_pdf(scale: float) -> bytes:
    turned = PdfWriter(clone_from=io.BytesIO(a_pdf()))
    for page in turned.pages:
        page.add_transformation(Transformation().scale(scale).rotate(90).translate(842, 0))
    content = io.BytesIO()
    turned.write(content)
    return content.getvalue()


def test_pdf_that_was_turned_on_its_side_or_is_tiny():
    document = read(turned_pdf(1.0), "pdf")
    texts = [*paragraphs(document), *(section.heading for section in document.sections)]
    assert "Boats are many." in " ".join(texts)
    # Of tiny text nobody knows what is a heading.
    with pytest.raises(UnreadableDocument, match="no text besides headings"):
        read(turned_pdf(0.001), "pdf")


@pytest.mark.parametrize("gap", [0, 4])
@pytest.mark.parametrize("title", ["", "The harbour"])
def test_pdf_with_bold_headings_of_the_size_of_the_text(title, gap):
    pdf = FPDF()
    pdf.set_title("(anonymous)")  # as reportlab does where there is none
    pdf.add_page()
    if title:
        pdf.set_font("Times", "B", 11)
        pdf.multi_cell(0, 5, title, new_x="LMARGIN", new_y="NEXT")
        pdf.ln(4)
    for chapter in ("1. Boats", "Crews and what they catch", "Markets"):
        pdf.ln(gap)
        pdf.set_font("Times", "B", 11)
        pdf.multi_cell(0, 5, chapter, new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("Times", "", 11)
        text = f"{LOREM}{LOREM}"
        pdf.multi_cell(0, 5, text, align="L", new_x="LMARGIN", new_y="NEXT", markdown=True)
    pdf.multi_cell(0, 5, f"**{LOREM.strip()}** {LOREM}", align="L", markdown=True, new_x="LMARGIN")
    pdf.set_font("Times", "B", 11)
    pdf.multi_cell(0, 5, "Nothing of it is sold after dark.", new_x="LMARGIN", new_y="NEXT")
    document = read(bytes(pdf.output()), "pdf")
    first = [] if title else ["1. Boats"]
    assert document.title == (title or "1. Boats")
    headings = [("1. Boats", 2), ("Crews and what they catch", 2), ("Markets", 2)][len(first) :]
    assert [(each.heading, each.level) for each in document.sections if each.heading] == headings
    assert document.sections[0].paragraphs[0].startswith("The harbour of the old town is full")
    assert paragraphs(document)[-1].endswith("Nothing of it is sold after dark.")


def test_pdf_that_is_mostly_bold_has_no_headings_by_weight():
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Times", "B", 11)
    for chapter in ("Boats", "Crews"):
        pdf.multi_cell(0, 5, chapter, new_x="LMARGIN", new_y="NEXT")
        pdf.ln(4)
        pdf.multi_cell(0, 5, LOREM, new_x="LMARGIN", new_y="NEXT")
        pdf.ln(4)
    document = read(bytes(pdf.output()), "pdf")
    assert not any(each.heading for each in document.sections)


def test_pdf_without_text_or_with_a_password():
    empty = FPDF()
    empty.add_page()
    with pytest.raises(UnreadableDocument, match="no text"):
        read(bytes(empty.output()), "pdf")
    with pytest.raises(UnreadableDocument, match="encrypted"):
        read(a_pdf(owner_password="b", user_password="a"), "pdf")


def test_word():
    file = docx.Document()
    file.add_heading("The harbour", 0)
    file.add_paragraph("Before any heading.")
    file.add_heading("Boats", 1)
    file.add_paragraph(LOREM)
    for item in ("one", "two"):
        file.add_paragraph(item, style="List Bullet")
    file.add_table(2, 2)
    file.add_heading("Small ones", 2)
    file.add_paragraph("The last of them.")
    out = io.BytesIO()
    file.save(out)
    document = read(out.getvalue(), "word")
    assert document.title == "The harbour"
    assert outline(document) == [
        ("", 0, ["Before any heading."]),
        ("Boats", 1, [LOREM.strip(), "one; two"]),
        ("Small ones", 2, ["The last of them."]),
    ]
    assert document.left_out == {"tables": 1}


def test_word_with_tracked_changes_content_controls_and_a_text_box():
    file = docx.Document()
    paragraph = file.add_paragraph("The boat is ")
    of_word = nsdecls("w")
    for part in (
        f"<w:ins {of_word}><w:r><w:t>new</w:t></w:r></w:ins>",
        f"<w:del {of_word}><w:r><w:delText>old</w:delText></w:r></w:del>",
        f"<w:moveFrom {of_word}><w:r><w:t>gone</w:t></w:r></w:moveFrom>",
        f"<w:sdt {of_word}><w:sdtContent><w:r><w:t> and red.</w:t></w:r></w:sdtContent></w:sdt>",
        f"<w:r {of_word}><w:pict><w:txbxContent><w:p><w:r><w:t>Beside it.</w:t></w:r></w:p>"
        "</w:txbxContent></w:pict></w:r>",
    ):
        paragraph._p.append(parse_xml(part))
    paragraph._p.addnext(
        parse_xml(
            f"<w:sdt {of_word}><w:sdtContent><w:p><w:r><w:t>It sails well.</w:t></w:r></w:p>"
            "</w:sdtContent></w:sdt>"
        )
    )
    file.add_paragraph("So it is.")
    out = io.BytesIO()
    file.save(out)
    document = read(out.getvalue(), "word")
    assert paragraphs(document) == ["The boat is new and red.", "It sails well.", "So it is."]
    assert document.left_out == {"text boxes": 1}


@pytest.mark.parametrize(
    ("format", "content"),
    [
        *((format, b"caf\xe9 text\n") for format in ("markdown", "html", "rst", "text")),
        *((format, b"\x00\x01\x02") for format in ("markdown", "html", "rst", "text", "man")),
        ("man", b"no macro at all\n"),
        ("pdf", b"%PDF-1.4 and nothing more"),
        ("pdf", b""),
        ("pdf", a_pdf()[:900]),
        ("word", b"PK\x03\x04 broken"),
        ("word", b""),
        ("html", b"<div>" * 20_000 + b"deep"),
    ],
)
def test_what_cannot_be_read_says_why(format, content):
    with pytest.raises(UnreadableDocument, match=r"^(It|Its elements) (is|has|cannot|are)"):
        read(content, format)


def test_an_encoding_that_is_named():
    assert paragraphs(read("déjà vu".encode("latin-1"), "text", encoding="latin-1")) == ["déjà vu"]
    assert paragraphs(read("déjà vu".encode("utf-16"), "markdown")) == ["déjà vu"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Permission is hereby granted, free of charge, to any person.", "licences"),
        ("Copyright (c) 2001-2024 The Project Developers.", "licences"),
        ("© 2024, Somebody. All rights reserved.", "licences"),
        ("License GPLv3+: GNU GPL version 3 or later.", "licences"),
        ("Edit this page", "navigation"),
        ("Last updated on Jan 3, 2024.", "navigation"),
        ("Created using Sphinx 7.2.", "navigation"),
        ("Copyright law protects the authors of software in most countries.", None),
        ("The next page shows how to edit this file with an editor.", None),
        ("This licence server counts how many users there are.", None),
        ("(c) 2024 Somebody", "licences"),
        ("(C) Copyright the authors of the page", "licences"),
        ("(c) the processing is necessary for compliance with an obligation;", None),
        ("(c) by means of a written notice to the other party.", None),
        ("GNU General Public License, version 2, June 1991", "licences"),
        ("The GNU General Public License is one of many.", None),
    ],
)
def test_boilerplate(text, kind):
    assert paragraph_boilerplate(text) == kind


def test_sections_of_boilerplate_are_left_out_and_counted():
    text = "# T\n\n## Contents\n\n- a\n- b\n\n## Use\n\nIt.\n\n## License\n\nMIT\n\n### More\n\nText.\n"
    document = read(text, "markdown")
    assert outline(document) == [("Use", 2, ["It."])]
    assert document.left_out == {"licences": 2, "navigation": 1}
    assert section_boilerplate("Licence servers") is None


@pytest.mark.parametrize(
    "head", ["GNU GENERAL PUBLIC LICENSE\n", "  Apache License\n  Version 2.0, January 2004\n"]
)
def test_a_file_that_begins_with_the_head_of_a_licence_is_one(head):
    text = "Preamble\n\nYou may convey it.\n\nTERMS AND CONDITIONS\n\nTo convey is to give.\n"
    with pytest.raises(UnreadableDocument, match=r"It has no text besides licences\."):
        read(f"{head}\n{text}", "text")


def test_a_licence_ends_with_its_section():
    text = "Words.\n\nGNU GENERAL PUBLIC LICENSE\n\nPreamble\n\nYou may.\n\nUSE\n\nMore words.\n"
    assert paragraphs(read(text, "text")) == ["Words.", "More words."]
    text = "# Tool\n\nApache License, Version 2.0\n\nIt.\n\n## Mozilla Public License v2.0\n\nYou.\n\n## Use\n\nRun it."
    document = read(text, "markdown")
    assert outline(document) == [("", 0, ["It."]), ("Use", 2, ["Run it."])]
    assert document.left_out == {"licences": 2}


def test_archives_that_would_fill_the_memory_are_not_unpacked(tmp_path, monkeypatch):
    for module in (streams, word):
        monkeypatch.setattr(module, "LARGEST", 1 << 20)
    path = tmp_path / "big.md.gz"
    path.write_bytes(gzip.compress(b"a" * (2 << 20)))
    with pytest.raises(UnreadableDocument, match="1 MB"):
        streams.read_bytes(file_source(path, documents=True))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"a" * (2 << 20))
    with pytest.raises(UnreadableDocument, match="1 MB"):
        read(out.getvalue(), "word")


def test_members_of_an_archive_stay_in_it(tmp_path, monkeypatch):
    """Nothing is unpacked onto the disk, whatever a member is called."""
    monkeypatch.chdir(tmp_path)
    file = docx.Document()
    file.add_paragraph(LOREM)
    out = io.BytesIO()
    file.save(out)
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("../escaped.txt", "out")
        archive.writestr("/escaped.txt", "out")
    assert paragraphs(read(out.getvalue(), "word")) == [LOREM.strip()]
    assert list(tmp_path.parent.glob("**/escaped.txt")) == []


def test_entities_of_word_documents_are_not_followed(tmp_path):
    """Neither a file of this machine, nor a text that doubles and doubles."""
    (tmp_path / "secret.txt").write_text("a secret of this machine")
    file = docx.Document()
    file.add_paragraph("HERE and more")
    out, attack = io.BytesIO(), io.BytesIO()
    file.save(out)
    doubled = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    declared = (
        f'<!DOCTYPE d [<!ENTITY x SYSTEM "file://{tmp_path}/secret.txt">'
        f'<!ENTITY e0 "lol">{doubled}]>'
    )
    with zipfile.ZipFile(out) as source, zipfile.ZipFile(attack, "w") as archive:
        for name in source.namelist():
            content = source.read(name).decode("latin-1")
            if name == "word/document.xml":
                content = content.replace("?>", f"?>{declared}", 1).replace("HERE", "&x;&e11;")
            archive.writestr(name, content.encode("latin-1"))
    try:
        found = "".join(paragraphs(read(attack.getvalue(), "word")))
    except UnreadableDocument as error:
        found = str(error)
    assert "secret of" not in found
    assert "lollol" not in found


def test_a_word_document_whose_styles_are_none_is_refused():
    file = docx.Document()
    file.add_paragraph(LOREM)
    out, broken = io.BytesIO(), io.BytesIO()
    file.save(out)
    with zipfile.ZipFile(out) as source, zipfile.ZipFile(broken, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            if name == "[Content_Types].xml":
                content = content.replace(b"wordprocessingml.styles+xml", b"unknown")
            archive.writestr(name, content)
    with pytest.raises(UnreadableDocument, match=r"Word document.*AttributeError"):
        read(broken.getvalue(), "word")


NEWSLETTER = f"""<html><head><title>News of the harbour</title></head><body>
<table width="100%"><tr><td align="center"><table width="600">
<tr><td><a href="/">View in the browser</a></td></tr>
<tr><td><img src="logo.png"></td><td><h1>A new quay</h1><p>{LOREM}</p></td></tr>
<tr><td><table><tr><th>Boats</th><th>Crews</th></tr><tr><td>3</td><td>9</td></tr></table></td></tr>
<tr><td><table><tr><td><h2>Boats</h2></td></tr><tr><td>Boats are many.<br>{LOREM}</td></tr></table>
</td></tr></table></td></tr></table></body></html>"""
FORUM = f"""<html><body><h1>How do I moor?</h1>
<table><tr><td>anna</td><td>How do I moor a boat here? {LOREM}</td></tr></table>
<table><tr><td>bert</td><td>You ask the master of the harbour. {LOREM}</td></tr></table>
<p>Three readers</p></body></html>"""
MANUAL = f"""<html><body><table border=0><tr>
<td><a href=a.html>Boats</a> <a href=b.html>Crews</a> <a href=c.html>Markets</a></td>
<td><h1>Manual</h1><h2>Crews</h2><p>Crews are small.</p><p>{LOREM}</p>
<table><tr><td>1</td><td>boat</td></tr><tr><td>2</td><td>crew</td></tr></table>
</td></tr></table></body></html>"""


def test_html_whose_layout_is_a_table_is_read():
    lorem = LOREM.strip()
    news = read(NEWSLETTER, "html")
    assert news.title == "A new quay"
    assert outline(news) == [
        ("", 0, ["View in the browser", lorem]),
        ("Boats", 2, [f"Boats are many. {lorem}"]),
    ]
    assert news.left_out == {"tables": 1}
    assert paragraphs(read(FORUM, "html")) == [
        "anna", f"How do I moor a boat here? {lorem}",
        "bert", f"You ask the master of the harbour. {lorem}",
        "Three readers",
    ]  # fmt: skip
    headed = "<table><tr><th>Author</th><th>Message</th></tr>" + FORUM.partition("<table>")[2]
    assert paragraphs(read(headed, "html"))[:3] == ["Author", "Message", "anna"]
    manual = read(MANUAL, "html")
    assert outline(manual) == [("Crews", 2, ["Crews are small.", lorem])]
    assert manual.left_out == {"navigation": 1, "tables": 1}


@pytest.mark.parametrize(
    "table",
    [
        "<tr><th>Option</th><th>Meaning</th></tr><tr><td>-a</td><td>{lorem}</td></tr>",
        "<tr><td>12</td><td>boats</td></tr><tr><td>7</td><td>crews</td></tr>",
        "<caption>Prices</caption><tr><td>{lorem}</td></tr>",
    ],
)
def test_html_tables_of_data_are_left_out(table):
    table = f"<table>{table.format(lorem=LOREM)}</table>"
    document = read(f"<html><body><p>{LOREM}</p>{table}</body></html>", "html")
    assert paragraphs(document) == [LOREM.strip()]
    assert document.left_out == {"tables": 1}
    # Beside as much text, a table of long cells is one of data too.
    document = read(f"<html><body><p>{LOREM * 3}</p><table><tr><td>{LOREM}", "html")
    assert document.left_out == {"tables": 1}


def word_of(*parts: str | list[list[str]], boxed: bool = False) -> bytes:
    """Paragraphs and tables; the last part stands in a text box, where one is asked for."""
    document = docx.Document()
    for part in parts:
        if isinstance(part, str):
            document.add_paragraph(part)
        else:
            table = document.add_table(len(part), len(part[0]))
            for row, cells in zip(table.rows, part, strict=True):
                for cell, text in zip(row.cells, cells, strict=True):
                    cell.text = text
    if boxed:
        box = f"<w:txbxContent><w:p><w:r><w:t>{LOREM * 20}</w:t></w:r></w:p></w:txbxContent>"
        run = parse_xml(f"<w:r {nsdecls('w')}><w:pict>{box}</w:pict></w:r>")
        document.paragraphs[-1]._p.append(run)
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


def test_word_whose_layout_is_a_table_is_read():
    lorem = LOREM.strip()
    letter = word_of("The harbour", [["To the crews", lorem], ["", f"Boats are many. {lorem}"]])
    assert paragraphs(read(letter, "word")) == [
        "The harbour", "To the crews", lorem, f"Boats are many. {lorem}",
    ]  # fmt: skip
    data = [["boats", "3"], ["crews", "9"]]
    assert read(word_of(lorem, data), "word").left_out == {"tables": 1}
    assert read(word_of(lorem * 3, [["Boats", lorem]]), "word").left_out == {"tables": 1}


def repeated_pdf(body: str) -> bytes:
    pdf = FPDF()
    pdf.set_font("Helvetica")
    for number in range(3):
        pdf.add_page()
        pdf.cell(text="Minutes of the harbour", new_x="LMARGIN", new_y="NEXT")
        if number == 0 and body:
            pdf.multi_cell(0, text=body)
    return bytes(pdf.output())


DATA = [[f"boat {number}", f"{number * 7}", "small"] for number in range(80)]
ROWS = "".join(f"<tr><td>{a}</td><td>{b}</td><td>{c}</td></tr>" for a, b, c in DATA)
CODE = "".join(f"    sail({number})\n" for number in range(90))
LOST = {
    "html": f"<html><body>{{}}<table>{ROWS}</table></body></html>",
    "html, code": f"<html><body>{{}}<pre>{CODE}</pre></body></html>",
    "markdown": "{}\n\n| a | b | c |\n|-|-|-|\n" + "".join(f"| {' | '.join(r)} |\n" for r in DATA),
    "markdown, code": "{}\n\n```\n" + CODE + "```\n",
    "rst": "{}\n\n.. list-table::\n\n" + "".join(
        f"   * - {a}\n     - {b}\n     - {c}\n" for a, b, c in DATA
    ),
    "rst, code": "{}\n\n::\n\n" + CODE,
    "man": ".TH BOATS 1\n.SH DESCRIPTION\n{}\n.TS\nl l l.\n" + "".join("\t".join(r) + "\n" for r in DATA) + ".TE\n",
    "man, code": ".TH BOATS 1\n.SH DESCRIPTION\n{}\n.nf\n" + CODE + ".fi\n",
    "text": "{}\n\n====  ====\n" + "".join(f"{'  '.join(r)}\n" for r in DATA) + "====  ====\n",
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=needs_mandoc if "man" in name else ()) for name in LOST]
    + ["word", "word, boxed"],
)
def test_a_document_that_loses_its_text_is_refused_or_warned_of(name):
    format = name.partition(",")[0]

    def content(text: str) -> bytes:
        if format != "word":
            return LOST[name].format(text).encode()
        return word_of(text, boxed=True) if "boxed" in name else word_of(text, DATA)

    with pytest.raises(UnreadableDocument, match=r"^It has no text besides [\w, ]+\.$"):
        read(content(""), format)
    few = "Boats are many."
    hardly = read(content(few), format)
    assert paragraphs(hardly) == [few]
    assert re.fullmatch(r"Only 13 of [\d,]+ letters .*: [\w, ]+\.", hardly.warning)
    assert read(content(LOREM * 2), format).warning == ""


def test_a_pdf_that_repeats_one_line_is_refused():
    with pytest.raises(UnreadableDocument, match="no text besides page headers and footers"):
        read(repeated_pdf(""), "pdf")
    assert read(repeated_pdf(LOREM), "pdf").warning == ""


def test_what_has_no_paragraph_is_refused_and_a_page_that_names_others_is_not():
    for content in ("<html><head><title>App</title></head><body><script>run()</script>", "<p>"):
        with pytest.raises(UnreadableDocument, match="It has no text"):
            read(content, "html")
    with pytest.raises(UnreadableDocument, match="It has no text besides headings"):
        read("# A\n\n## B\n\n## C\n", "markdown")
    assert read(".so man1/gzip.1\n", "man").links == ("gzip(1)",)
    assert read("Contents\n========\n\n.. toctree::\n\n   a\n   b\n", "rst").links == (
        "a",
        "b",
    )
