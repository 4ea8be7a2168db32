from __future__ import annotations

import re
import sys
from textwrap import dedent

import pytest

from isospace.corpus import docstrings
from isospace.corpus.docstrings import (
    Pair,
    extract,
    installed_packages,
    read_docstrings,
    split_pairs,
)
from isospace.corpus.prose import is_prose, paragraphs, split_sentences

NUMPY_STYLE = '''
def f(x, axis):
    """
    Return the sum of all values along an axis.

    The values are added in pairs, so that the rounding error of
    the result grows with the logarithm of their number [1]_.

    Parameters
    ----------
    x : array_like, of shape (n, m)
        The values to be added, which are
        not changed.
    axis : int
        The axis that goes away.  It is counted from zero.

    See Also
    --------
    mean : The same divided by the number of values.

    Notes
    -----
    .. versionadded:: 1.2
        This text belongs to the directive and is not read.

    .. note:: The method :meth:`~package.module.Class.total` is
        an alias of this function.

    References
    ----------
    .. [1] A. Author, "The title of a paper," A Journal, 1999.

    Examples
    --------
    Add the first ten numbers that are given::

        This line is code, whatever it looks like.

    >>> f([1, 2], 0)
    This output is not a sentence.
    """
'''
GOOGLE_STYLE = '''
class C:
    r"""Applies a linear map to the incoming data.

    Args:
        size (int, optional): The number of values that come in. Must be
            positive.
        **kwargs: Are handed to the parent class as they are.

    Returns:
        The mapped data of the same shape as the input.

    ```python
    This is not read because it is inside of a fence.
    ```

    * The first item of the list.
    * The second item of the list.

    | A table has | no sentences at all. |
    """
    async def g(self):
        """Not prose: x = y[0]."""
add_docstr(C.h, r"""
h(x, *, out=None) -> Tensor

Computes the natural logarithm of every value.

The logarithm of a value that is less than zero is not a number, without any warning.
""".format(**common))
print("This is not a docstring of anything.")
'''


@pytest.mark.parametrize(
    ("source", "sentences"),
    [
        (
            NUMPY_STYLE,
            [
                "Return the sum of all values along an axis.",
                "The values are added in pairs, so that the rounding error of the result grows with "
                "the logarithm of their number.",
                "The values to be added, which are not changed.",
                "The axis that goes away.",
                "It is counted from zero.",
                "The same divided by the number of values.",
                "The method total is an alias of this function.",
            ],
        ),
        (
            GOOGLE_STYLE,
            [
                "Applies a linear map to the incoming data.",
                "The number of values that come in.",
                "Are handed to the parent class as they are.",
                "The mapped data of the same shape as the input.",
                "The first item of the list.",
                "The second item of the list.",
                "Computes the natural logarithm of every value.",
                "The logarithm of a value that is less than zero is not a number, without any "
                "warning.",
            ],
        ),
        ("def broken(:", []),
    ],
)
def test_sentences_of_a_module(source, sentences):
    assert extract(source.encode())[0] == sentences


def test_pairs_of_a_module():
    assert extract(NUMPY_STYLE.encode())[1] == [
        (
            "Return the sum of all values along an axis.",
            "The values are added in pairs, so that the rounding error of the result grows with "
            "the logarithm of their number.",
        )
    ]
    assert [summary for summary, _ in extract(GOOGLE_STYLE.encode())[1]] == [
        "Computes the natural logarithm of every value."
    ]


@pytest.mark.parametrize(
    "docstring",
    [
        "One paragraph is not a pair, however long it may be in the end.",
        "Return the rows of a table.\n\nToo short to say anything.",
        "Return the rows of a table.\n\nReturn the rows of a table, or of what can be made one.",
        "Return rows.\n\nThe summary above has too few words to be taken for a sentence of prose.",
        "Return the rows of a table.\n\n  This paragraph is indented, so it may belong to a field.",
        "Return the rows of a table.\n\nExamples\n--------\nThe rows of a small table are printed "
        "by this example of a function.",
    ],
)
def test_what_is_no_pair(docstring):
    assert docstrings.natural_pair(docstring) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "See `the guide <http://x.y>`_ or :class:`~a.B`, :func:`c.d` and ``e``.",
            "See the guide or B, c.d and e.",
        ),
        ("It is *very* **important** as shown in [2]_.", "It is very important as shown."),
        ("Two  blanks\nand a line.", "Two blanks and a line."),
        ("A star 2 * 3 * 4 stays.", "A star 2 * 3 * 4 stays."),
    ],
)
def test_markup_is_reduced_to_its_words(text, expected):
    assert paragraphs(text) == [(0, expected)]


def test_paragraphs_end_at_blank_lines_markers_and_changes_of_indentation():
    text = """\
        First paragraph
        goes on.
          Indented.
        - item
          goes on
        - item
        Not an item.

        Heading
        ~~~~~~~
        :param x: hanging
            text
        """
    assert paragraphs(dedent(text)) == [
        (0, "First paragraph goes on."),
        (2, "Indented."),
        (1, "item goes on"),
        (1, "item"),
        (0, "Not an item."),
        (1, "hanging text"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("By J. Doe et al. In Fig. A, see.", ["By J. Doe et al. In Fig. A, see."]),
        ("Version 1.2 of x.y is old. It is.", ["Version 1.2 of x.y is old.", "It is."]),
    ],
)
def test_split_sentences(text, expected):
    assert split_sentences(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "lower case at the beginning of it.",
        "No full stop at the end of it",
        "Too few words here.",
        "Too " + "many " * 60 + "words.",
        "The value of x = y is here.",
        "The call f(x) is in this sentence.",
        "Das hier ist kein englischer Satz mehr.",
        "Array int32 float64 x1 x2 of the y3.",
        "A bracket (is opened and not closed.",
        "See the page at https://example.org for it.",
    ],
)
def test_what_is_not_prose(text):
    assert not is_prose(text)


def made_pairs(count: int) -> list[Pair]:
    """Pairs of which none nearly repeats another."""

    def words(text: str, i: int) -> str:
        return " ".join(f"{text}{chr(97 + i // 26**k % 26)}{chr(97 + k)}" for k in range(3))

    return [(words("s", i), words("d", i)) for i in range(count)]


def in_modules(pairs: list[Pair], size: int = 10) -> list[tuple[str, Pair]]:
    return [(f"package/m{i // size}.py", pair) for i, pair in enumerate(pairs)]


def test_split_pairs_drops_repeats_and_does_not_depend_on_order():
    pairs = in_modules(made_pairs(450))
    repeats = [
        ("other.py", (pairs[0][1][0], "another description")),
        ("other.py", (pairs[1][1][0].upper() + "!", "a third description")),
        ("other.py", ("another summary", pairs[2][1][1])),
        ("other.py", pairs[3][1]),
    ]
    split = split_pairs([*pairs, *repeats])
    assert split == split_pairs([*repeats, *reversed(pairs)])
    assert len(split.dev) <= 150
    everything = [*split.dev, *split.test]
    for side in (0, 1):
        texts = [re.sub(r"\W", "", pair[side].casefold()) for pair in everything]
        assert len(set(texts)) == 450


def test_no_module_chooses_and_judges():
    pairs = in_modules(made_pairs(600))
    split = split_pairs(pairs)
    assert split.split
    assert split.unit == "modules"
    assert (len(split.dev), len(split.test)) == (200, 400)
    assert not set(split.dev_groups) & set(split.test_groups)
    module = {pair: name for name, pair in pairs}
    assert [module[pair] for pair in split.dev] == split.dev_groups
    assert [module[pair] for pair in split.test] == split.test_groups


def test_few_pairs_choose_and_judge():
    split = split_pairs(in_modules(made_pairs(399)))
    assert not split.split
    assert split.dev == split.test
    assert (len(split.dev), len(set(split.dev_groups))) == (399, 40)


def test_dev_and_test_have_their_full_size(monkeypatch):
    monkeypatch.setattr(docstrings, "DEV_PAIRS", 50)
    monkeypatch.setattr(docstrings, "TEST_PAIRS", 70)
    split = split_pairs(in_modules(made_pairs(600)))
    assert (len(split.dev), len(split.test)) == (50, 70)


def test_no_pair_has_an_excluded_text_or_nearly_one():
    pairs = made_pairs(20)
    exclude = (pairs[3][0].upper(), f"{pairs[4][1]}!", pairs[5][1], "something else altogether")
    split = split_pairs(in_modules(pairs), exclude)
    assert set(split.test) == {pair for i, pair in enumerate(pairs) if i not in (3, 4, 5)}


def test_a_package_is_read_without_import_and_without_tests(tmp_path, monkeypatch):
    package = tmp_path / "some_package"
    (package / "tests").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError")
    (package / "b.py").write_text(GOOGLE_STYLE)
    (package / "a.py").write_text(NUMPY_STYLE)
    (package / ".#a.py").symlink_to("somebody@somewhere.123")  # an editor's lock
    (package / "tests" / "c.py").write_text('"""The tests are not read by anybody."""')
    monkeypatch.syspath_prepend(tmp_path)
    texts, pairs = read_docstrings(["some_package"])
    expected = [extract(source.encode()) for source in (NUMPY_STYLE, GOOGLE_STYLE)]
    assert texts == [*expected[0][0], *expected[1][0]]
    modules = [("some_package/a.py", pair) for pair in expected[0][1]]
    assert pairs == split_pairs([*modules, *(("some_package/b.py", p) for p in expected[1][1])])
    assert pairs.test
    assert "some_package" not in sys.modules


def test_a_real_package_gives_prose_and_pairs():
    assert "numpy" in installed_packages()
    texts, pairs = read_docstrings(["numpy", "python"])
    distinct = set(texts)
    assert len(distinct) > 4000
    assert sum("array" in sentence for sentence in distinct) > 500
    assert not [sentence for sentence in distinct if ">>>" in sentence or "----" in sentence]
    modules = {*pairs.dev_groups, *pairs.test_groups}
    assert {module.partition("/")[0] for module in modules if "numpy" in module} == {"numpy"}
    assert "asyncio/base_events.py" in modules
    assert len(pairs.dev) > 50
    assert len(pairs.test) > 100
    assert not set(pairs.dev_groups) & set(pairs.test_groups)


def test_a_package_that_is_missing_is_left_out(monkeypatch):
    monkeypatch.setitem(docstrings.DISTRIBUTIONS, "no_such_package", "no-such-package")
    versions = installed_packages()
    assert "no_such_package" not in versions
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
