import random
import re
import sys

import pytest
from toy import sentences

from isospace.config import CorpusConfig
from isospace.corpus import docstrings
from isospace.corpus.corpus import load_corpus
from isospace.corpus.docstrings import (
    docstring_sentences,
    extract,
    is_prose,
    modules_of,
    natural_pair,
    prose_sentences,
    read_docstrings,
    sections,
    split_pairs,
    without_references,
)
from isospace.corpus.formats import Document, Section
from isospace.corpus.relations import RELATIONS
from isospace.errors import UserError

NUMPY_STYLE = '''
def f(x, axis):
    """
    Return the sum of all values along an axis.

    The values are added in pairs, so that the error
    grows with their number [1]_.

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


def test_docstrings_of_a_module():
    [numpy_style] = extract(NUMPY_STYLE.encode(), "package/sub/a.py")
    assert (numpy_style.title, numpy_style.group) == ("f", "package/sub/a.py")
    first = "Return the sum of all values along an axis."
    second = "The values are added in pairs, so that the error grows with their number."
    values = "The values to be added, which are not changed."
    assert [one for one in numpy_style.sections if one.paragraphs] == [
        Section("", 0, (first, second)),
        Section("Parameters", 1, (values, "The axis that goes away. It is counted from zero.")),
        Section("See Also", 1, ("The same divided by the number of values.",)),
        Section("Notes", 1, ("The method total is an alias of this function.",)),
    ]
    [google_style, called] = extract(GOOGLE_STYLE.encode(), "b.py")
    assert (google_style.title, called.title) == ("C", "h")
    items = "The first item of the list.", "The second item of the list."
    assert [(one.heading, *one.paragraphs) for one in google_style.sections] == [
        ("", "Applies a linear map to the incoming data."),
        ("", "The number of values that come in.", "Are handed to the parent class as they are."),
        ("", "The mapped data of the same shape as the input.", *items),
    ]
    assert prose_sentences(called) == [
        "Computes the natural logarithm of every value.",
        "The logarithm of a value that is less than zero is not a number, without any warning.",
    ]
    call = "add_newdoc('numpy', 'ndarray', ('shape', 'Tuple of the sizes of its dimensions.'))"
    assert [one.title for one in extract(call.encode(), "c.py")] == ["ndarray"]


@pytest.mark.parametrize(
    "source",
    ["def broken(:", "if x:\n    y\n" + "elif x:\n    y\n" * 1100],
    ids=["syntax", "depth"],
)
def test_a_module_that_does_not_parse_has_none(source):
    assert extract(f"{GOOGLE_STYLE}\n{source}".encode(), "a.py") == []


def docstring(*paragraphs, pair):
    sections = Section("", 0, paragraphs[:2]), Section("Notes", 1, paragraphs[2:])
    return Document("", sections, group="package/a.py", summary_next=pair, language="en")


def test_sentences_that_may_not_be_trained_on_are_left_out_of_documents():
    pair = ("Sort the rows.", "Equal rows stay. They keep their order.")
    other = ("Turn the rows.", "The last one comes first. They keep their order!")
    read = [docstring(*pair, "A note. SORT the rows!", pair=pair), docstring(*other, pair=other)]
    counts: dict[str, int] = {}
    references = [*pair, "Equal rows stay.", "They keep their order."]
    first, second = without_references(read, references, counts)
    assert [part.paragraphs for part in first.sections] == [(), ("A note.",)]
    assert [part.paragraphs for part in second.sections] == [
        ("Turn the rows.", "The last one comes first."),
        (),
    ]
    assert first.summary_next is second.summary_next is None
    assert counts == {"sentences of evaluation pairs left out": 5}


def test_licences_are_left_out_and_counted():
    licence = "Redistribution and use in source and binary forms are permitted here."
    [document] = extract(
        f'"""{licence}\n\nIt is {licence}\n\nSort the rows of it."""'.encode(), "a.py"
    )
    assert [part.paragraphs for part in document.sections] == [("Sort the rows of it.",)]
    assert document.left_out == {"licences": 2}


@pytest.mark.parametrize(
    "text",
    [
        "One paragraph is not a pair, however long it may be in the end.",
        "Return the rows of a table.\n\nReturn the rows of a table, or of what can be made one.",
        "Return rows.\n\nThe summary above has too few words to be taken for a sentence of prose.",
        "Return the rows of a table.\n\n  This paragraph is indented, so it may belong to a field.",
        "Return the rows of a table.\n\nExamples\n--------\nThe rows of a small table are printed "
        "by this example of a function.",
    ],
)
def test_what_is_no_pair(text):
    assert natural_pair(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See `it <http://x.y>`_, :class:`~a.B`, :func:`c.d` and ``e``.", "See it, B, c.d and e."),
        ("It is *very* **important** as shown in [2]_.", "It is very important as shown."),
        ("A star 2 * 3 * 4 stays.", "A star 2 * 3 * 4 stays."),
    ],
)
def test_markup_is_reduced_to_its_words(text, expected):
    assert [one for _, parts in sections(text) for one in parts] == [(0, expected)]


@pytest.mark.parametrize(
    "text",
    [
        "lower case at the beginning of it.",
        "No full stop at the end of it",
        "Too " + "many " * 60 + "words.",
        "The call f(x) is in this sentence.",
        "Das hier ist kein englischer Satz mehr.",
        "Array int32 float64 x1 x2 of the y3.",
        "A bracket (is opened and not closed.",
        "See the page at https://example.org for it.",
    ],
)
def test_what_is_not_prose(text):
    assert not is_prose(text)


def made_pairs(count):
    """Pairs of which none nearly repeats another."""
    return list(zip(sentences(count, 1), sentences(count, 2), strict=True))


def in_modules(pairs):
    return [(f"package/m{i // 10}.py", pair) for i, pair in enumerate(pairs)]


def test_split_pairs_drops_repeats_and_does_not_depend_on_order():
    pairs = in_modules(made_pairs(450))
    texts = [pair for _, pair in pairs[:4]]
    again = [(texts[0][0], "another one"), (texts[1][0].upper() + "!", "a third one")]
    again += [("another summary", texts[2][1]), texts[3]]
    repeats = [("other.py", pair) for pair in again]
    split = split_pairs([*pairs, *repeats])
    assert split == split_pairs([*repeats, *reversed(pairs)])
    assert len(split.dev) <= 150
    everything = [*split.dev, *split.test]
    for side in (0, 1):
        texts = [re.sub(r"\W", "", pair[side].casefold()) for pair in everything]
        assert len(set(texts)) == 450


def test_no_pair_has_an_excluded_text_or_nearly_one():
    pairs = made_pairs(20)
    exclude = (pairs[3][0].upper(), f"{pairs[4][1]}!", pairs[5][1], "something else altogether")
    split = split_pairs(in_modules(pairs), exclude)
    assert set(split.test) == {pair for i, pair in enumerate(pairs) if i not in (3, 4, 5)}


def test_a_folder_is_read_without_import_and_without_tests(tmp_path):
    package = tmp_path / "some_package"
    (package / "tests").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError")
    (package / "b.py").write_text(GOOGLE_STYLE)
    (package / "a.py").write_text(NUMPY_STYLE)
    (package / ".#a.py").symlink_to("somebody@somewhere.123")  # an editor's lock
    (package / "tests" / "c.py").write_text('"""The tests are not read by anybody."""')
    assert read_docstrings(f"docstrings:{tmp_path}") == [
        *extract(NUMPY_STYLE.encode(), "some_package/a.py"),
        *extract(GOOGLE_STYLE.encode(), "some_package/b.py"),
    ]
    assert "some_package" not in sys.modules
    with pytest.raises(UserError, match=r"docstrings:.*tests/none: "):
        read_docstrings(f"docstrings:{package / 'tests' / 'none'}")


def made_package(folder, modules=60, functions=10):
    """Functions of modules, each with a summary, a next paragraph and what its argument is."""
    rng = random.Random(1)

    def word():
        return "".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(3))

    def sentence(size):
        return f"The {' of the '.join(word() for _ in range(size))} is here."

    for number in range(modules):
        source = []
        for _ in range(functions):
            arguments = f"    x: {sentence(7)}\n    y: {sentence(6)}"
            text = "\n\n".join([sentence(2), f"{sentence(5)} {sentence(4)}", "Args:", arguments])
            source.append(f'def {word()}_{word()}(x):\n    """{text}"""\n')
        (folder / f"m{number}.py").write_text("\n".join(source))
    return read_docstrings(f"docstrings:{folder}")


def load(folder, cache, **options):
    return load_corpus(CorpusConfig(corpus=(f"docstrings:{folder}",), **options), cache)


def test_docstrings_are_a_corpus_of_documents(tmp_path):
    (tmp_path / "src").mkdir()
    read = made_package(tmp_path / "src")
    corpus = load(tmp_path / "src", tmp_path / "cache", passage_words=30)
    pairs, related = corpus.pairs, corpus.related
    assert (pairs.relation, pairs.unit) == ("summary-next", "modules")
    assert len(pairs.dev) == 200
    assert len(pairs.test) == 400
    assert corpus.counts["documents"] == len(read) == 600
    assert corpus.counts["held out"] > 40
    evaluated = {
        part
        for pair in (*pairs.dev, *pairs.test)
        for side in pair
        for part in (side, *docstring_sentences(side))
    }
    module = {sentence: one.group for one in read for sentence in prose_sentences(one)}
    trained = {module[docstring_sentences(corpus[row])[0]] for row in corpus.train_rows}
    assert trained & {*pairs.test_groups}  # by what their arguments are
    for row in corpus.train_rows:
        assert evaluated.isdisjoint({corpus[row], *docstring_sentences(corpus[row])})
    for name in RELATIONS:
        for line in set(related.to_train(name).flat):
            assert evaluated.isdisjoint({corpus[line], *docstring_sentences(corpus[line])}), name


def test_a_changed_file_is_another_corpus(tmp_path):
    (tmp_path / "src").mkdir()
    made_package(tmp_path / "src", 3)
    (tmp_path / "src" / ".#m0.py").symlink_to("somebody@somewhere.123")  # an editor's lock
    corpora = tmp_path / "cache" / "corpus"
    for count, line in ((1, ""), (1, ""), (2, "# a comment\n")):
        with (tmp_path / "src" / "m0.py").open("a") as file:
            file.write(line)
        load(tmp_path / "src", tmp_path / "cache")
        assert len(list(corpora.iterdir())) == count


def test_modules_of_installed_packages(monkeypatch):
    monkeypatch.setattr(docstrings, "PACKAGES", ("tqdm", "no_such_module"))
    names = [name for _, name in modules_of("docstrings")]
    assert {"tqdm/gui.py", "json/decoder.py"} <= set(names)
    assert not any("site-packages" in name for name in names)
