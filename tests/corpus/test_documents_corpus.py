"""Documents as a corpus: passages, relations, training and test pairs."""

import json
import random
import re
import shutil

import numpy as np
import pytest

from isospace.config import CorpusConfig
from isospace.corpus import sources
from isospace.corpus.build import cut_long
from isospace.corpus.corpus import load_corpus
from isospace.corpus.relations import RELATIONS, Role, Structure, neighbours
from isospace.errors import UserError

NOUNS = "cat dog horse tree stone river house road song book lamp ship wall fire leaf".split()
VERBS = ["sees", "finds", "holds", "breaks", "moves", "paints", "hears", "follows"]


def sentence(rng):
    words = rng.choices(NOUNS, k=5)
    return f"The {words[0]} {rng.choice(VERBS)} the {words[1]} of a {' '.join(words[2:])}."


def document(number, paragraphs=3):
    rng = random.Random(number)
    text = "\n\n".join(" ".join(sentence(rng) for _ in range(6)) for _ in range(paragraphs))
    return {"title": f"{rng.choice(NOUNS)} {number}x{number * 7 % 31}", "text": text, "site": ""}


def load(folder, rows, exclude=(), **options):
    file = folder / "docs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {"title_column": "title", "passage_words": 60, **options}
    return load_corpus(CorpusConfig(corpus=(str(file),), **settings), folder / "cache", exclude)


def titled(n):
    names = [f"{a} {b} {c}" for a in NOUNS for b in VERBS for c in NOUNS]
    random.Random(5).shuffle(names)
    return [{**document(i), "title": names[i]} for i in range(n)]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def write(folder, rows):
    for row in rows:
        (folder / f"{row['title']}.md").write_text(f"# {row['title']}\n\n{row['text']}\n")


def read(folder, *files, **options):
    """The corpus of a folder, or of some of its files, with the cache beside it."""
    config = CorpusConfig(corpus=tuple(map(str, files or [folder])), **options)
    return load_corpus(config, folder.parent / "cache")


def test_rows_with_a_title_are_documents_and_held_out_whole(tmp_path):
    rows = titled(60)
    rows[7]["title"] = rows[8]["title"].upper()  # one title of two documents tells nothing
    corpus = load(tmp_path, rows, held_out=20)
    related = corpus.related
    assert len(corpus.passages) == 180
    roles = np.bincount(related.structure.roles)
    assert roles[Role.TITLE] == 60
    assert roles[Role.FIRST] == roles[Role.REST] == 180
    for title, passage in related.to_train("title-passage").tolist():
        assert related.structure.roles[[title, passage]].tolist() == [Role.TITLE, Role.PASSAGE]
    first, rest = (corpus[line] for line in related.to_train("first-rest")[0])
    assert f"{first} {rest}" in {corpus[line] for line in corpus.train_rows}
    held = {corpus[line].casefold() for line in np.flatnonzero(related.held)}
    for name in RELATIONS:
        for pair in related.to_train(name).tolist():
            assert held.isdisjoint(corpus[line].casefold() for line in pair), name
        of_held = related.structure.documents[related.held_out(name)]
        of_train = related.structure.documents[related.to_train(name)]
        assert not set(of_held.flat) & set(of_train.flat)
    titles = {corpus[line].casefold() for line in related.to_train("title-passage")[:, 0]}
    titles |= {corpus[line].casefold() for line in related.held_out("title-passage")[:, 0]}
    assert rows[8]["title"] not in titles


def test_no_line_that_repeats_a_test_text_is_in_a_pair(tmp_path):
    rows = titled(60)
    free = load(tmp_path, rows, held_out=20)
    title = free[free.related.to_train("title-passage")[0, 0]]
    of_held = free[free.related.held_out("title-passage")[0, 0]]
    pairs = free.related.to_train("first-rest")
    first, rest = free[pairs[30, 0]], free[pairs[60, 1]]
    but_one_word = f"{rest.rpartition(' ')[0]} thing."
    corpus = load(tmp_path, rows, (title, of_held, first.upper(), but_one_word), held_out=20)
    related = corpus.related
    for relation in ("title-passage", "first-rest"):
        pairs = np.concatenate([related.to_train(relation), related.held_out(relation)])
        texts = {corpus[line] for line in pairs.ravel().tolist()}
        assert texts
        assert texts.isdisjoint({title, of_held, first, rest})
    # The passage that is most of `but_one_word` is left out; the others say more.
    assert len(corpus.train_rows) == len(free.train_rows) - 1


def test_a_passage_that_is_mostly_a_test_answer_is_not_trained_on(tmp_path):
    rng = random.Random(1000)
    answer = " ".join(sentence(rng) for _ in range(3))
    rows = titled(60)
    begin = f"{sentence(rng)[:-1]}, and {sentence(rng)}"
    rows[30]["text"] = f"{begin} {answer}\n\n{rows[30]['text']}"
    free, barred = (load(tmp_path, rows, exclude, held_out=10) for exclude in ((), (answer,)))
    for corpus, trained in ((free, True), (barred, False)):
        related = corpus.related
        with_answer = [line for line in range(len(corpus)) if answer in corpus[line]]
        assert with_answer
        assert not related.held[with_answer].any()
        assert np.isin(with_answer, corpus.train_rows).any() == trained
        for relation in ("title-passage", "neighbours", "crops"):
            assert np.isin(related.to_train(relation), with_answer).any() == trained, relation


def test_a_held_out_passage_is_no_part_of_a_passage_to_train_on(tmp_path):
    """Nor is a part of one a passage to train on; none is a near duplicate of the other."""
    rng = random.Random(7)
    rows = []
    for row in titled(120):
        shared, own, other = (" ".join(sentence(rng) for _ in range(3)) for _ in range(3))
        begin = f"{sentence(rng)[:-1]}, and so {sentence(rng).lower()}"
        texts = (f"{shared}\n\n{own}", f"{begin} {shared}\n\n{other}")
        for name, text in zip("ab", texts, strict=True):
            rows.append({**row, "title": f"{row['title']} {name}", "text": text})
    corpus = load(tmp_path, rows, held_out=40, passage_words=55)
    related = corpus.related
    held = {corpus[line] for line in np.flatnonzero(related.held)}
    pairs = [corpus[line] for name in RELATIONS for line in related.to_train(name).ravel()]
    for texts in (pairs, [corpus[line] for line in corpus.train_rows]):
        assert held.isdisjoint(texts)
        assert not [text for text in texts if any(text.endswith(one) for one in held)]
    assert corpus.counts["related to what is held out"] > 5


def test_documents_that_repeat_each_other_are_on_one_side(tmp_path):
    rows = titled(120)
    copies = [{**row, "title": f"copy of {row['title']}"} for row in rows[::2]]
    for number, (copy, row) in enumerate(zip(copies, rows[::2], strict=True)):
        own = document(1000 + number)["text"]
        copy["text"] = "\n\n".join([*row["text"].split("\n\n")[:2], own.split("\n\n")[0]])
    corpus = load(tmp_path, rows + copies, held_out=50, near_duplicates=True)
    structure = corpus.related.structure
    titles = {corpus[line]: line for line in np.flatnonzero(structure.roles == Role.TITLE)}
    held = corpus.related.held
    both = [
        (held[titles[row["title"]]], held[titles[copy["title"]]])
        for row, copy in zip(rows[::2], copies, strict=True)
        if copy["title"] in titles and row["title"] in titles
    ]
    assert len(both) > 50
    assert any(original for original, _ in both)
    assert all(original == copied for original, copied in both)


def test_the_test_relation_is_named_and_can_be_set(tmp_path):
    rows = titled(450)
    corpus = load(tmp_path, rows, held_out=400, near_duplicates=False)
    assert corpus.pairs.relation == "title-passage"
    titles = {row["title"] for row in rows}
    assert all(title in titles for title, _ in corpus.pairs.test)
    other = load(tmp_path, rows, held_out=400, test_relation="neighbours", near_duplicates=False)
    assert other.pairs.relation == "neighbours"
    assert other.pairs.unit == "groups of documents"
    with pytest.raises(UserError, match="`test_relation` summary-next: the held-out documents"):
        load(tmp_path, rows, held_out=400, test_relation="summary-next", near_duplicates=False)


def test_lines_beside_documents_do_not_keep_them_from_being_held_out(folder):
    write(folder, titled(60))
    rng = random.Random(8)
    (folder / "lines.txt").write_text("\n".join(sentence(rng) for _ in range(200)))
    assert len(read(folder, passage_words=60).related.held_out("title-passage")) >= 9
    with pytest.raises(UserError, match=r"`group` folder: .* has no columns"):
        read(folder, group="folder")


def test_unreadable_files_are_named_by_reason(folder, caplog):
    write(folder, titled(3))
    for number in range(5):
        (folder / f"scan{number}.md").write_text("")
    (folder / "z.md").write_bytes(b"caf\xe9")
    read(folder)
    empty, latin = (one.getMessage() for one in caplog.records if "not read" in one.getMessage())
    assert re.search(r"scan0\.md, \S+scan1\.md, \S+scan2\.md and 2 more: It is empty\.$", empty)
    assert re.search(r"z\.md: It is not utf-8", latin)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("b.txt", "Un café.\nUn thé.\n".encode("latin-1"), "It is not utf-8 "),
        ("b.txt", None, r"It cannot be read as text: .*No such file"),
        ("b.csv", b"name,size\na.md,1\n", '1: no column "text"'),
        ("b.csv", b"id,text\n1,one, and more\n", "2: 3 fields"),
        ("b.parquet", b"not packed", "cannot be read as parquet"),
        ("b.md", b"# All of it\n\n```\nboat.sail()\n```\n", "It has no text besides code blocks"),
    ],
)
def test_an_unreadable_file_does_not_stop_the_others(folder, caplog, name, content, message):
    write(folder, titled(3))
    (folder / "a.jsonl").write_text('{"text": "A row of another file."}\n')
    if content is None:  # as Emacs locks a file
        (folder / name).symlink_to("nobody@nowhere.1:2")
    else:
        (folder / name).write_bytes(content)
    corpus = read(folder)
    assert (corpus.counts["unreadable files"], corpus.counts["documents"]) == (1, 3)
    assert re.search(rf"not read: \S+{name}:? ?{message}", caplog.text)
    assert not caplog.messages[-1].endswith("..")
    assert "A row of another file." in list(corpus)
    if message[0].isdigit():  # a file of rows that the user named must be readable
        with pytest.raises(UserError, match=rf"{name}:{message}"):
            read(folder, *folder.iterdir())


@pytest.mark.skipif(not shutil.which("mandoc"), reason="no mandoc here")
def test_man_pages_are_read_once_mandoc_is_installed(folder, monkeypatch):
    (folder / "a.md").write_text("The cat sits by the old river and waits for the boat.\n")
    (folder / "sail.1").write_text(".TH SAIL 1\n.SH DESCRIPTION\nThe boat sails to the north.\n")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "")
        assert read(folder).counts["unreadable files"] == 1
    assert "The boat sails to the north." in list(read(folder))


def test_a_row_that_is_wrong_further_down_stops_the_reading(folder):
    (folder / "b.csv").write_text("id,text\n1,The first row.\n2,one, and more\n")
    with pytest.raises(UserError, match=r"b\.csv:3: 3 fields"):
        read(folder)


@pytest.mark.parametrize("marks", sources._OUTPUTS, ids=min)
def test_what_isospace_wrote_into_the_folder_is_no_part_of_the_corpus(folder, caplog, marks):
    """A second run in a folder of text read the report of the first, held-out sentences and all."""
    output = folder / "runs" / "first"
    output.mkdir(parents=True)
    write(folder, titled(3))
    for name in (*marks, "report.html"):
        (output / name).write_text("<p>Sentences of the report, which are no text.</p>")
    assert read(folder).counts["documents"] == 3
    assert f"not read: {output}" in caplog.text


def test_of_one_book_parts_are_held_out(tmp_path):
    corpus = load(tmp_path, [document(1, paragraphs=300)])
    assert corpus.counts["documents"] == 1
    assert corpus.counts["parts of long documents"] == 30
    assert len(corpus.held_out()) >= 20
    assert len(set(corpus.held_groups)) >= 3
    related = corpus.related
    assert not (related.held & related.trained).any()
    assert len(neighbours(related.structure)) < 300


@pytest.mark.parametrize("near", [True, False])
def test_first_sentences_that_nearly_repeat_each_other_are_known_as_such(folder, near):
    """Boilerplate that names its package: the passages differ, and so both are trained on."""
    draw = random.Random(3)
    begin = "This is one of the packages that hold what the others need to run at all, and it is of"
    for number in range(30):
        rest = " ".join(draw.choices(NOUNS + VERBS, k=60))
        first = f"{begin} {NOUNS[number % 15]}." if number % 2 else f"{rest[::-1]}."
        (folder / f"{number}.md").write_text(f"# {number} {rest[:30]}\n\n{first} {rest}.\n")
    corpus = read(folder, held_out=0, near_duplicates=near)
    lines = np.flatnonzero(corpus.related.structure.roles == Role.FIRST).tolist()
    known = [corpus.same[line] for line in lines if corpus[line].startswith(begin)]
    others = [corpus.same[line] for line in lines if not corpus[line].startswith(begin)]
    assert len(known) == 15
    assert (len(set(known)) == 1) == near
    assert len(set(others)) == len(others) == 15


def test_rows_that_follow_each_other_with_one_id_are_one_document(folder):
    """As an export of passages has them: each row repeats the title of its document."""
    rows = []
    for number in range(40):
        for part in range(3):
            text = f"{NOUNS[number % 15]} {number} {VERBS[part]} {NOUNS[part]} {number + part}."
            title = f"The {NOUNS[number % 15]} that {VERBS[number // 15]}"
            rows.append({"doc": number, "title": title, "text": f"{text} It ends."})
    (folder / "passages.jsonl").write_text("\n".join(map(json.dumps, rows)))
    settings = {"title_column": "title", "passage_words": None}
    settings |= {"near_duplicates": False, "held_out": 0}
    apart, joined = read(folder, **settings), read(folder, document_column="doc", **settings)
    assert (apart.counts["documents"], joined.counts["documents"]) == (120, 40)
    # A title that several documents have names none of them.
    assert len(apart.related.to_train("title-passage")) == 0
    assert len(joined.related.to_train("title-passage")) == 120
    assert len(joined.related.to_train("neighbours")) == 80


P, T, H = Role.PASSAGE, Role.TITLE, Role.HEADING


def test_a_part_ends_with_a_section_or_within_a_long_one():
    roles = np.array([T, *[H, *[P] * 7] * 2, H, *[P] * 23, P, P], np.int8)
    documents = np.array([0] * (len(roles) - 2) + [1, 2])
    structure = Structure(roles, documents, np.repeat([-1, 0, 1, 2, 3, 4], [1, 8, 8, 24, 1, 1]))
    cut, owners = cut_long(structure, np.ones(3, bool))
    assert owners.tolist() == [0, 0, 0, 0, 0, 1, 2]
    assert np.bincount(cut.documents[cut.passages]).tolist() == [7, 7, 10, 10, 3, 1, 1]
    # What is another part of a section has no heading there.
    pairs = RELATIONS["heading-section"](cut)
    assert len(pairs) == 7 + 7 + 10
    assert (cut.documents[pairs[:, 0]] == cut.documents[pairs[:, 1]]).all()
    same, owners = cut_long(structure, np.array([False, True, True]))
    assert same is structure
    assert owners.tolist() == [0, 1, 2]
