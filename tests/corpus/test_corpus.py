import io
import random
import re
import sys

import pytest
from toy import sentences

from isospace.config import CorpusConfig
from isospace.corpus import corpus as corpus_module
from isospace.corpus.corpus import load_corpus
from isospace.corpus.lines import clean
from isospace.errors import UserError

LONG = (
    "the sum of the squares of all values in the given array along the last axis is returned "
    "without a copy of the data"
)


def put(folder, lines, name="text.txt"):
    path = folder / name
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return str(path)


def load(folder, *files, exclude=(), **options):
    return load_corpus(CorpusConfig(corpus=files, **options), folder / "cache", exclude)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u00a0b\u2028c\x0bd\x85e\u3000f", "a b c d e f"),
        ("a\0b \x07 c\x7f\ufeff", "ab c"),
        ("bad \ud800 surrogate", "bad surrogate"),
        ("\0\n", ""),
    ],
)
def test_clean(text, expected):
    assert clean(text) == expected


def test_every_line_is_counted_once(tmp_path):
    good = sentences(40)
    near = " ".join([*LONG.split()[:5], "cubes", *LONG.split()[6:]])
    lines = [*good, "", " \t ", "short", "x" * 5001, good[3] + "  ", "\0" + good[4], LONG, near]
    random.Random(1).shuffle(lines)
    lines.append("y" * 1_000_000)
    counts = load(tmp_path, put(tmp_path, lines)).counts
    left_out = {"empty": 2, "too short": 1, "too long": 2, "exact duplicates": 2}
    left_out |= {"near duplicates": 1, "held out": 4}
    counted = {name: count for name, count in counts.items() if count}
    assert counted == {"read": 49, **left_out, "for training": 37}


def test_the_corpus_keeps_the_first_of_each_in_file_order(tmp_path):
    good = sentences(30)
    first = put(tmp_path, good[:20])
    second = put(tmp_path, [good[5], *good[20:], good[0].upper()], "second.txt")
    corpus = load(tmp_path, first, second)
    assert list(corpus) == good
    assert [corpus[i] for i in range(len(corpus))] == good
    assert corpus[-1] == good[-1]
    with pytest.raises(IndexError):
        corpus[30]


@pytest.mark.parametrize("near", [True, False])
def test_evaluation_texts_are_not_trained_on(tmp_path, near):
    good = sentences(30)
    leaks = [f"  {good[7]}", good[8].upper(), LONG + " now", "A last one that is said here."]
    file = put(tmp_path, [*good, *leaks])
    several = f"Not in the file. {LONG.capitalize()}. A last one that is said here."
    corpus = load(tmp_path, file, exclude=(good[7], good[8], several), near_duplicates=near)
    assert list(corpus) == [*good[:7], *good[9:]]
    assert corpus.counts["evaluation pairs"] == 6
    assert len(load(tmp_path, file, near_duplicates=near)) == (32 if near else 33)


@pytest.mark.parametrize(
    "said",
    [
        "Насос заполняют чистой водой до его запуска. Выпускной клапан закрывают медленно.",
        "启动之前必须先用清水灌满水泵并排出空气。压力稳定之后应当慢慢地关闭出口处的阀门。",
    ],
)
def test_sentences_of_evaluation_texts_are_not_trained_on_in_any_language(tmp_path, said):
    good = sentences(30)
    parts = re.findall(r"[^.。]+[.。]", said)
    assert len(parts) == 2
    assert list(load(tmp_path, put(tmp_path, [*good, *parts]), exclude=(said,))) == good


def test_held_out_sentences_are_a_choice_of_the_texts_alone(tmp_path):
    good = sentences(500)
    corpus = load(tmp_path, put(tmp_path, good), held_out=20)
    held = corpus.held_out()
    assert len(set(held)) == 20
    train = {corpus[int(row)] for row in corpus.train_rows}
    assert train | set(held) == set(good)
    assert not train & set(held)
    places = sorted(good.index(sentence) for sentence in held)
    assert places[0] < 100
    assert places[-1] > 400

    shuffled = good.copy()
    random.Random(5).shuffle(shuffled)
    again = load(tmp_path, put(tmp_path, shuffled, "shuffled.txt"), held_out=20)
    assert set(again.held_out()) == set(held)
    fewer = load(tmp_path, put(tmp_path, good[:250], "half.txt"), held_out=20)
    assert set(held) & set(good[:250]) <= set(fewer.held_out())


def test_no_near_twin_of_a_held_out_sentence_is_trained_on(tmp_path):
    good = [f"{sentence} {LONG[:60]}" for sentence in sentences(300)]
    both = [*good, *(f"{sentence} now" for sentence in good)]
    corpus = load(tmp_path, put(tmp_path, both), near_duplicates=False, held_out=40)
    held, train = set(corpus.held_out()), {corpus[int(row)] for row in corpus.train_rows}
    assert not {sentence.removesuffix(" now") for sentence in held} & {
        sentence.removesuffix(" now") for sentence in train
    }
    assert (len(held), len(train)) == (20, 560)
    assert corpus.counts["related to what is held out"] == 20


def test_sentences_of_a_group_are_held_out_together(tmp_path):
    good = sentences(300)
    rows = "".join(f"{sentence}\t{i // 10}\n" for i, sentence in enumerate(good))
    path = tmp_path / "rows.tsv"
    path.write_text(f"text\tpage\n{rows}")
    corpus = load(tmp_path, str(path), group="page", held_out=25)
    pages = {good.index(sentence) // 10 for sentence in corpus.held_out()}
    assert (len(corpus.held_out()), len(pages), len(corpus.train_rows)) == (20, 2, 280)
    assert not pages & {good.index(corpus[int(row)]) // 10 for row in corpus.train_rows}


def test_a_result_is_found_again_by_content(tmp_path, monkeypatch):
    good = sentences(30)
    piped = "".join(f"{sentence}\n" for sentence in good).encode()
    for names in ((put(tmp_path, good), put(tmp_path, good, "renamed.txt")), ("-", "-")):
        loaded = []
        with monkeypatch.context() as patch:
            for name in names:
                patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
                loaded.append(load(tmp_path, name))
                patch.setattr(corpus_module, "Builder", lambda *args: pytest.fail("built again"))
        first, again = loaded
        assert list(again) == list(first) == good
        assert (again.digest, again.counts) == (first.digest, first.counts)


def test_other_content_options_exclusions_and_code_are_other_results(tmp_path, monkeypatch):
    good = sentences(30)
    file = put(tmp_path, good)
    loads = [
        load(tmp_path, file),
        load(tmp_path, file, min_chars=11),
        load(tmp_path, file, exclude=(good[0],)),
        load(tmp_path, put(tmp_path, good[1:], "fewer.txt")),
    ]
    assert len(list((tmp_path / "cache" / "corpus").iterdir())) == 4
    digests = [corpus.digest for corpus in loads]
    assert digests[0] == digests[1]
    assert digests[2] == digests[3]
    assert digests[0] != digests[2]
    monkeypatch.setattr(corpus_module, "code_hashes", lambda *packages: ("another version",))
    load(tmp_path, file)
    assert len(list((tmp_path / "cache" / "corpus").iterdir())) == 5


def test_a_corpus_that_was_cut_is_made_again(tmp_path):
    file = put(tmp_path, sentences(9))
    first = [*load(tmp_path, file)]
    [kept] = tmp_path.rglob("texts.txt")
    kept.write_bytes(kept.read_bytes()[:-5])
    assert [*load(tmp_path, file)] == first


def test_no_usable_sentence_says_what_became_of_the_lines(tmp_path):
    file = put(tmp_path, ["short", "", "tiny", "brief", "minute"])
    with pytest.raises(UserError, match=r"text\.txt: no text .*4 too short, 1 empty"):
        load(tmp_path, file, layout="lines")
    with pytest.raises(UserError, match="`corpus` is missing"):
        load(tmp_path)
