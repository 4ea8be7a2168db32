from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import BertConfig, BertModel

from conftest import sentences
from isospace.cli import main
from isospace.errors import UserError
from isospace.loading import load_encoder
from isospace.search import Changes, Hit, SearchIndex, files
from isospace.search import index as module
from isospace.search import recall as recall_module
from isospace.search.about import About
from isospace.search.database import Database
from isospace.search.recall import kth_cosines, measure_recall, recall
from isospace.search.results import fuse

TEXTS = [*sentences(298, seed=2), f"{sentences(1, seed=7)[0]} zebra", "😀 大きさ"]
YEARS = [1900 + i % 100 for i in range(len(TEXTS))]
WEIRD = ["it's", "a''b", "back\\slash", "new\nline", "nul\0x", "' OR 1=1 --", "`", 'dq"', "%_", "\\'", "😀"]  # fmt: skip


def run(capsys, *words) -> tuple[int, str, str]:
    status = main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return status, out, err


@pytest.fixture(scope="module")
def encode(toy_model):
    encoder = load_encoder(str(toy_model), device="cpu")

    def unit(texts):
        vectors = encoder.embed(texts).astype(np.float64)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    return unit


@pytest.fixture(scope="module")
def template(toy_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "template"
    index = SearchIndex.create(folder, str(toy_model), {"year": "int", "kind": "str"})
    metadata = [{"year": y, "kind": "even" if y % 2 == 0 else None} for y in YEARS]
    changes = index.add(TEXTS, [f"t{i}" for i in range(len(TEXTS))], metadata)
    assert changes == Changes(added=len(TEXTS))
    index.refresh()
    return folder


@pytest.fixture
def folder(template, tmp_path):
    return shutil.copytree(template, tmp_path / "index")


@pytest.fixture
def index(folder):
    return SearchIndex.open(folder)


@pytest.fixture
def lowered(monkeypatch):
    """So few rows need an approximate index that the tests have one; measured on 10 of them."""
    monkeypatch.setattr(module, "EXACT_ROWS", 50)
    monkeypatch.setattr(recall_module, "_SAMPLE", 10)


def nearest(encode, query, texts, k):
    """A dull loop over all pairs."""
    (vector,) = encode([query])
    cosines = [float(np.dot(vector, other)) for other in encode(texts)]
    order = sorted(range(len(texts)), key=lambda i: -cosines[i])[:k]
    return [(texts[i], cosines[i]) for i in order]


def found(results):
    return [(hit.text, hit.cosine) for hit in results.hits[0]]


def assert_same(hits, expected):
    assert [text for text, _ in hits] == [text for text, _ in expected]
    assert np.allclose([c for _, c in hits], [c for _, c in expected], atol=1e-5)


@pytest.mark.parametrize("query", ["the big cat", TEXTS[7], "zebra"])
def test_exact_search_is_a_dull_loop(index, encode, query):
    results = index.search(query, k=7)
    assert_same(found(results), nearest(encode, query, TEXTS, 7))
    assert results.protocol == "cosine, exact, 300 texts"


def test_several_queries_are_several_lists(index):
    several = index.search(["the cat", "a river"], k=3)
    assert several.hits == [index.search(q, k=3).hits[0] for q in ("the cat", "a river")]


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize(
    ("where", "keep"),
    [
        ("year >= 1997", lambda year: year >= 1997),
        ("year BETWEEN 1910 AND 1912 AND kind = 'even'", lambda year: year in (1910, 1912)),
        ("kind IS NULL AND year < 1904", lambda year: year in (1901, 1903)),
    ],
)
def test_a_filter_is_applied_before_the_search(
    index, encode, lowered, monkeypatch, where, keep, approximate
):
    if approximate:
        index.refresh()
        monkeypatch.setattr(module, "EXACT_ROWS", 1)  # the few that match are enough
    kept = [text for text, year in zip(TEXTS, YEARS, strict=True) if keep(year)]
    results = index.search(TEXTS[0], k=9, where=where)
    assert_same(found(results), nearest(encode, TEXTS[0], kept, 9))
    assert results.protocol.endswith(f"{len(kept)} texts where {where}")
    assert ("approximate" in results.protocol) == approximate


def test_hits_carry_id_and_metadata(index):
    (hit,) = index.search(TEXTS[5], k=1).hits[0]
    assert (hit.id, hit.text, hit.metadata) == ("t5", TEXTS[5], {"year": 1905, "kind": None})


def test_an_id_that_is_there_is_replaced_and_the_same_row_is_not_encoded_again(index, monkeypatch):
    rows = ["the new cat", TEXTS[1], "one more"]
    metadata = [{"year": 5}, {"year": 1901}, {}]
    encoded = []
    embed = index.encoder.embed
    monkeypatch.setattr(
        index.encoder, "embed", lambda texts, **rest: encoded.extend(texts) or embed(texts, **rest)
    )
    changes = index.add(rows, ["t0", "t1", "new"], metadata)
    assert changes == Changes(added=1, replaced=1, unchanged=1)
    assert encoded == ["the new cat", "one more"]
    assert len(index) == 301
    (hit,) = index.search("the new cat", k=1).hits[0]
    assert (hit.id, hit.metadata) == ("t0", {"year": 5, "kind": None})
    assert not index.search(TEXTS[0], where="id = 't0' AND year = 1900").hits[0]


def test_of_equal_ids_the_last_counts_within_a_slice_and_across(index, monkeypatch):
    monkeypatch.setattr(module, "SLICE", 2)
    index.add(["a cat", "a dog", "a tree"], ["x", "x", "x"])
    assert [hit.text for hit in index.search("a dog", where="id = 'x'").hits[0]] == ["a tree"]


def test_a_text_that_became_empty_goes(index):
    assert index.add(["", "  "], ["t0", "never there"]) == Changes(empty=2, deleted=1)
    assert len(index) == 299


def test_delete(index):
    assert index.delete("id IN ('t0', 't1') OR year = 1950") == 5
    assert len(index) == 295
    assert index.delete("id = 't0'") == 0
    assert "t0" not in [hit.id for hit in index.search(TEXTS[0]).hits[0]]


def test_ids_and_texts_of_any_characters(index):
    for text in ("first", "second"):  # the second time they are replaced
        index.add([f"{text} {key}" for key in WEIRD], WEIRD)
    assert len(index) == 300 + len(WEIRD)
    hits = {hit.id: hit.text for hit in index.search("second", k=400).hits[0]}
    assert {key: hits[key] for key in WEIRD} == {key: f"second {key}" for key in WEIRD}
    index.add([""] * len(WEIRD), WEIRD)
    assert len(index) == 300


def test_rows_without_ids_are_numbered(index, folder):
    index.add(["one", "two"])
    SearchIndex.open(folder).add(["three"])
    assert [index.search(t, k=1).hits[0][0].id for t in ("one", "two", "three")] == [
        "#1",
        "#2",
        "#3",
    ]


def test_rows_that_were_added_later_are_found(index, lowered):
    index.refresh()
    index.add(["the old river"], ["late"], [{"year": 3}])
    results = index.search("the old river", k=2)
    assert "approximate" in results.protocol
    assert results.hits[0][0].id == "late"
    assert index.search("the old river", where="year < 5").hits[0][0].id == "late"
    assert index.search("late zebra river", k=3, fused=True).hits[0]


def test_the_approximate_index_is_trained_again_when_the_rows_have_doubled(index, lowered):
    index.refresh()
    assert index.about.approximate.rows == 300
    index.add(sentences(100, seed=8), [f"u{i}" for i in range(100)])
    index.refresh()
    assert index.about.approximate.rows == 300
    index.add(sentences(300, seed=9), [f"v{i}" for i in range(300)])
    index.refresh()
    assert index.about.approximate.rows == 700
    assert "approximate" not in index.search("the cat", exact=True).protocol


def test_recall_is_a_count_over_the_indexs_own_texts(index, encode, lowered):
    index.refresh()
    assert index.about == About.read(index.folder)
    vectors = encode(TEXTS)
    shares = []
    ids, _ = index._database.sample(np.linspace(0, 299, 10).astype(int).tolist())
    for key in ids:
        row = int(key[1:])
        others = sorted((float(vectors[row] @ v) for i, v in enumerate(vectors) if i != row))
        hits = [hit for hit in index.search(TEXTS[row], k=11).hits[0] if hit.id != key][:10]
        shares.append(sum(hit.cosine > others[-10] - 1e-5 for hit in hits) / 10)
    measured = index.about.approximate
    assert (measured.rows, measured.queries) == (300, 10)
    assert measured.recall == pytest.approx(sum(shares) / len(shares))
    text = f"cosine, approximate, recall@10 {measured.recall:.3f} on 10 of its own texts, 300 texts"
    assert index.search("the cat").protocol == text


class Forgetful:
    """20 vectors in a row, each nearest to its neighbours; of every query the nearest is missed."""

    angles = np.linspace(0, 1, 20)
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def sample(self, places):
        return [str(p) for p in places], self.rows[places]

    def vectors(self):
        yield self.rows[:7]
        yield self.rows[7:]

    def nearest(self, query, k, where, approximate):
        assert (k, where, approximate) == (11, None, True)
        order = np.argsort(-(self.rows @ query), kind="stable")
        kept = [order[0], *order[2:12]]  # the query itself, and all but the nearest
        return [Hit(str(i), float(self.rows[i] @ query), "", {}) for i in kept]


def test_a_missed_text_costs_a_tenth():
    found, queries = measure_recall(Forgetful(), 20)
    assert (round(found, 6), queries) == (0.9, 20)


def test_equally_near_texts_are_equally_good():
    query = np.array([[1.0, 0.0]], np.float32)
    twins = np.array([[1.0, 0.0], [0.6, 0.8], [0.6, 0.8], [0.6, 0.8], [0.0, 1.0]], np.float32)
    floor = kth_cosines(query, [twins[:2], twins[2:]], 2)
    assert floor == pytest.approx([0.6])
    assert recall([[0.6, 0.6]], floor, 2) == 1.0
    assert recall([[0.6, 0.0]], floor, 2) == 0.5


def test_fusion_finds_a_word_that_the_vector_misses(index, encode):
    near = [text for text, _ in nearest(encode, "zebra", TEXTS, 100)]
    assert TEXTS[298] not in near[:10]
    scores = Counter({text: 1 / (60 + rank) for rank, text in enumerate(near, 1)})
    scores[TEXTS[298]] += 1 / 61  # the only one with the word
    results = index.search("zebra", fused=True)
    hits = results.hits[0]
    assert [hit.text for hit in hits] == [text for text, _ in scores.most_common(10)]
    hit = next(hit for hit in hits if hit.text == TEXTS[298])
    cosine = float(encode(["zebra"])[0] @ encode([TEXTS[298]])[0])
    assert hit.cosine == pytest.approx(cosine, abs=1e-5)
    assert results.protocol == "words (BM25) and cosine, fused, exact, 300 texts"
    assert not index.search("zebra", fused=True, where="text LIKE '%qqq%'").hits[0]


def test_fusion_is_the_sum_of_reciprocal_ranks():
    a, b, c, d = (
        Hit(key, cosine, key, {}) for key, cosine in zip("abcd", (0.1, 0.4, 0.3, 0.2), strict=True)
    )
    scores = Counter({"a": 1 / 61, "b": 1 / 62 + 1 / 63, "c": 1 / 63 + 1 / 61, "d": 1 / 62})
    assert [hit.id for hit in fuse([a, b, c], [c, d, b])] == [
        key for key, _ in scores.most_common()
    ]
    assert [hit.id for hit in fuse([a], [b])] == ["b", "a"]  # of equal ranks the higher cosine


def test_searches_go_on_while_rows_are_added(index, folder, monkeypatch):
    monkeypatch.setattr(module, "SLICE", 5)
    reader = SearchIndex.open(folder)

    def look(i):
        return reader.search(TEXTS[i], k=1, fused=i % 2 == 0).hits[0][0].id

    with ThreadPoolExecutor(4) as pool:
        looks = pool.map(look, range(40))
        index.add(sentences(30, seed=5), [f"u{i}" for i in range(30)])
        index.refresh()
        assert list(looks) == [f"t{i}" for i in range(40)]
    assert len(reader) == 330  # it sees what the other wrote


def write_table(path: Path, rows: list[dict]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        cells = [["" if v is None else str(v) for v in row.values()] for row in rows]
        lines = [",".join(line) for line in [list(rows[0]), *cells]]
        path.write_text("\n".join(lines) + "\n")
    return path


ROWS = [
    {"key": "a", "words": "the cat", "n": 3, "x": 1, "Area code": "007", "mark": None},
    {"key": "b", "words": "a dog", "n": None, "x": 2.5, "Area code": "12", "mark": "yes"},
]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
def test_columns_keep_their_types(toy_model, tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    rows = ROWS if name != "t.parquet" else [{**row, "x": float(row["x"])} for row in ROWS]
    write_table(Path(name), rows)
    words = ["index", name, "--column", "words", "--id-column", "key", "--model", toy_model]
    status, _, err = run(capsys, *words, "--keep", "n", "x", "Area code", "mark")
    assert status == 0, err
    index = SearchIndex.open("index")
    assert index.columns == {"n": "int", "x": "float", "Area code": "str", "mark": "str"}
    hits = {hit.id: hit.metadata for hit in index.search("the cat").hits[0]}
    assert hits == {
        "a": {"n": 3, "x": 1.0, "Area code": "007", "mark": None},
        "b": {"n": None, "x": 2.5, "Area code": "12", "mark": "yes"},
    }
    assert [h.id for h in index.search("cat", where="X > 2 AND `Area code` = '12'").hits[0]] == [
        "b"
    ]
    assert run(capsys, *words)[0] == 0  # the columns of the index are the default
    assert len(index) == 2


def test_values_of_other_types(toy_model, tmp_path):
    rows = {
        "text": ["a", "b"],
        "day": [date(2001, 2, 3), None],
        "price": [Decimal("1.50"), Decimal(2)],
        "good": [True, False],
        "huge": [2**63, 2**64 - 1],
    }
    schema = {"huge": pa.uint64()}
    columns = {name: pa.array(values, schema.get(name)) for name, values in rows.items()}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    config = files.IndexConfig(
        (str(tmp_path / "t.parquet"),),
        tmp_path / "index",
        str(toy_model),
        keep=("day", "price", "good", "huge"),
    )
    files.index_files(config, files.Display(quiet=True))
    index = SearchIndex.open(tmp_path / "index")
    assert index.columns == {"day": "str", "price": "float", "good": "bool", "huge": "str"}
    (hit,) = index.search("a", where="good AND day > '2001-01-31'").hits[0]
    assert hit.metadata == {
        "day": "2001-02-03",
        "price": 1.5,
        "good": True,
        "huge": str(2**63),
    }


def test_a_file_that_was_edited_replaces_its_rows(toy_model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("the cat\n\na dog\na tree\na river\n")
    Path("notes.txt.txt").write_text("the house\n")
    base = ["index", "--model", toy_model, "--json", "notes.txt"]
    changes = [json.loads(run(capsys, *base, "notes.txt.txt")[1])["changes"]]
    Path("notes.txt").write_text("the cat\n\n\na house\n")
    changes += [json.loads(run(capsys, *base)[1])["changes"] for _ in range(2)]
    assert changes == [
        {"added": 5, "replaced": 0, "unchanged": 0, "empty": 1, "deleted": 0},
        {"added": 0, "replaced": 1, "unchanged": 1, "empty": 2, "deleted": 2},
        {"added": 0, "replaced": 0, "unchanged": 2, "empty": 2, "deleted": 0},
    ]
    hits = SearchIndex.open("index").search("the cat").hits[0]
    assert {hit.id: hit.text for hit in hits} == {
        "notes.txt:1": "the cat",
        "notes.txt:4": "a house",
        "notes.txt.txt:1": "the house",
    }


class Killed(BaseException):
    pass


def kill_at(monkeypatch, owner, name, call, before):
    """The call-th use of a function is the last thing that happens."""
    real, calls = getattr(owner, name), []

    def last(*arguments):
        calls.append(arguments)
        if len(calls) == call and before:
            raise Killed
        result = real(*arguments)
        if len(calls) == call:
            raise Killed
        return result

    monkeypatch.setattr(owner, name, last)


@pytest.mark.parametrize(
    ("owner", "name", "call", "before", "left"),
    [
        (About, "write", 1, True, None),
        (About, "write", 1, False, 0),
        (Database, "write", 3, True, 128),
        (Database, "write", 3, False, 192),
        (Database, "index_words", 1, True, 300),
        (Database, "index_vectors", 1, False, 300),
        (About, "write", 2, True, 300),
    ],
)
def test_after_a_kill_the_same_command_goes_on(
    toy_model, tmp_path, monkeypatch, lowered, owner, name, call, before, left
):
    monkeypatch.setattr(module, "SLICE", 64)
    monkeypatch.setattr(files, "SLICE", 64)
    (tmp_path / "t.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    config = files.IndexConfig((str(tmp_path / "t.txt"),), tmp_path / "index", str(toy_model))
    with monkeypatch.context() as patch:
        kill_at(patch, owner, name, call, before)
        with pytest.raises(Killed):
            files.index_files(config, files.Display(quiet=True))
    if left is not None:
        assert len(SearchIndex.open(config.to)) == left
    made = files.index_files(config, files.Display(quiet=True))
    assert made.changes == Changes(added=300 - (left or 0), unchanged=left or 0)
    assert made.rows == 300
    assert made.approximate.rows == 300
    hits = SearchIndex.open(config.to).search("the cat", k=400, exact=True).hits[0]
    assert sorted(hit.text for hit in hits) == sorted(TEXTS)


KILL = """
import os, signal, sys
from isospace.cli import main
from isospace.search import files, index
from isospace.search.database import Database
index.SLICE = files.SLICE = 64
if sys.argv[1] == "kill":
    write, calls = Database.write, []
    def last(*arguments):
        calls.append(write(*arguments))
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    Database.write = last
sys.exit(main(sys.argv[2:]))
"""


def test_kill_minus_nine_and_a_clean_exit(toy_model, tmp_path):
    (tmp_path / "t.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    words = ["index", str(tmp_path / "t.txt"), "--model", str(toy_model)]
    words += ["--to", str(tmp_path / "index")]

    def start(how):
        command = [sys.executable, "-c", KILL, how, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    killed = start("kill")
    assert killed.returncode == -9, killed.stderr
    assert len(SearchIndex.open(tmp_path / "index")) == 192
    done = start("finish")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines()[0].split() == ["rows", "108", "added,", "192", "unchanged"]
    assert len(done.stderr.splitlines()) == 3


def test_search_prints_a_table_and_json(folder, capsys, monkeypatch):
    SearchIndex.open(folder).add(["a [bold]bold[/bold]\ncat \x1b[31m" + "long " * 40], ["[i]x"])
    words = ["search", "the [bold]cat", "--index", folder, "--where", "id = '[i]x'"]
    status, out, _ = run(capsys, *words)
    assert status == 0
    title, _, head, _, row, *_ = out.splitlines()
    assert title == "the [bold]cat  (cosine, exact, 1 texts where id = '[i]x')"
    assert head == "| rank | cosine | id | text | year | kind |"
    assert row.startswith("| 1 | 0.")
    assert "| [i]x | a [bold]bold[/bold] cat  [31mlong long" in row
    content = json.loads(run(capsys, *words, "--json")[1])
    assert content["queries"][0]["query"] == "the [bold]cat"
    assert content["queries"][0]["hits"][0]["text"].startswith("a [bold]bold[/bold]\ncat \x1b")

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "72")
    out = re.sub(r"\x1b\[[\d;]*m", "", run(capsys, *words)[1])
    lines = out.splitlines()[1:]
    assert {len(line) for line in lines} == {72}
    (line,) = (line for line in lines if "[i]x" in line)
    assert "a [bold]bold[/bold]" in line
    assert "…" in line


def test_nothing_found_is_said(folder, capsys):
    status, out, _ = run(capsys, "search", "cat", "--index", folder, "--where", "year > 3000")
    assert (status, out) == (
        0,
        "cat  (cosine, exact, 0 texts where year > 3000): nothing found\n",
    )


def test_the_verbs_tell_the_story(toy_model, tmp_path, capsys, monkeypatch, lowered):
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    _, out, err = run(capsys, "index", "t.txt", "--model", toy_model)
    assert out == ""
    how = About.read(Path("index")).approximate.text
    assert [line.split(maxsplit=1)[1] for line in err.splitlines()] == [
        "300 added",
        "300 rows in index",
        f"{how}; isospace search 'a query' --index index",
    ]
    assert f"({how}" not in run(capsys, "search", "cat", "--exact")[1]
    assert f"(cosine, {how}, 300 texts)" in run(capsys, "search", "cat")[1]
    _, _, err = run(capsys, "index", "--delete", "id IN ('t.txt:1', 't.txt:2')")
    assert err.split() == ["rows", "2", "deleted,", "298", "left", "in", "index"]
    content = json.loads(run(capsys, "index", "--delete", "id = 't.txt:3'", "--json")[1])
    assert content == {"deleted": 1, "rows": 297}


def test_an_interruption_says_how_to_go_on(folder, tmp_path, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("isospace.verbs.searching.index_files", interrupt)
    status, _, err = run(capsys, "index", "t.txt", "--to", folder)
    assert status == 1
    assert "the same command goes on" in err


def other_model(toy_model: Path, folder: Path, dim: int) -> Path:
    encoder = load_encoder(str(toy_model), device="cpu")
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(encoder.tokenizer),
        hidden_size=dim,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    encoder.tokenizer.save_pretrained(folder)
    return folder


def test_a_model_that_moved_is_named(toy_model, folder, tmp_path, capsys):
    about = About.read(folder)
    replace(about, model=str(tmp_path / "gone")).write(folder)
    status, _, err = run(capsys, "search", "cat", "--index", folder)
    assert (status, err) == (
        2,
        f"isospace: {tmp_path}/gone: not a folder. Expected a model folder, a Hub name or minilm. "
        f"{folder} is an index of this model; if it is elsewhere now, say where with --model\n",
    )
    assert run(capsys, "search", "cat", "--index", folder, "--model", toy_model)[0] == 0
    status, _, err = run(capsys, "search", "cat", "--index", folder, "--model", "./none")
    assert (status, err) == (
        2,
        "isospace: ./none: not a folder. Expected a model folder, a Hub name or minilm\n",
    )


@pytest.mark.parametrize(
    ("dim", "difference"),
    [(32, "other weights, another tokenizer or another pooling"), (64, "64 dimensions, not 32")],
)
def test_another_model_is_refused(toy_model, folder, tmp_path, capsys, dim, difference):
    other = other_model(toy_model, tmp_path / "other", dim)
    (tmp_path / "t.txt").write_text("the cat\n")
    expected = (
        f"isospace: {folder}: an index of another model ({toy_model}); {other} has {difference}. "
        "Name the right one with --model, or index the texts anew into another folder\n"
    )
    for words in (
        ["search", "cat", "--index", folder, "--model", other],
        ["index", tmp_path / "t.txt", "--to", folder, "--model", other],
    ):
        assert run(capsys, *words) == (2, "", expected)


COLUMNS = "id (text), text (text), year (whole numbers), kind (text)"
SQL = f"expected an SQL condition, such as id = 'a', on {COLUMNS}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["search", " "], "queries [' ']: expected one or more, none of them empty"),
        (["search", "cat", ""], "queries ['cat', '']: expected one or more, none of them empty"),
        (["search", "cat", "-k", "0"], "-k 0: expected 1 or more"),
        (["search", "cat", "--where", "age > 3"], f"filter 'age > 3' (No field named age): {SQL}"),
        (
            ["search", "cat", "--where", "year >"],
            f"filter 'year >' (Expected: an expression, found: EOF): {SQL}",
        ),
        (
            ["search", "cat", "--where", "year"],
            f"filter 'year' (The filter year does not return a boolean): {SQL}",
        ),
        (
            ["search", "cat", "--where", " "],
            "the filter is empty; expected an SQL condition, such as id = 'a'",
        ),
        (
            ["index", "--delete", ""],
            "the filter is empty; expected an SQL condition, such as id = 'a'",
        ),
        (["index", "--delete", "age = 3"], f"filter 'age = 3' (No field named age): {SQL}"),
        (
            ["index", "t.txt", "--delete", "id = 'a'"],
            "--delete: give no files with it; add them by a command of their own",
        ),
        (
            ["index"],
            "give one or more files to index, - for standard input, or --delete FILTER",
        ),
        (
            ["index", "t.csv", "--keep", "age"],
            "--keep age: index has the columns year, kind. Other columns need another --to",
        ),
        (["index", "t.csv"], 't.csv, row 2: column "year" has 1.5, expected whole numbers'),
        (
            ["index", "t.txt", "--to", "new", "--keep", "year"],
            '--keep year: no row has a value in "year"',
        ),
        (["index", "blank.txt", "--to", "new"], "blank.txt: no text to index"),
        (
            ["index", "t.jsonl", "--to", "new", "--keep", "tags"],
            't.jsonl, row 1: column "tags" has a list, expected text, a number, or true or false',
        ),
        (
            ["index", "t.jsonl", "--to", "new", "--keep", "yeer"],
            '--keep yeer: no row has a value in "yeer"',
        ),
        (
            ["index", "t.csv", "--to", "new", "--keep", "text"],
            'column "text": expected another name than id, text, vector, rank, cosine, without a '
            "dot or a leading underscore. Rename it in the file",
        ),
        (
            ["search", "cat", "--index", "new"],
            "new: not an index (no such folder). isospace index FILE... makes one",
        ),
        (
            ["search", "cat", "--index", "full"],
            "full: not an index (holds no isospace.json). isospace index FILE... makes one",
        ),
        (
            ["index", "--delete", "id = 'a'", "--to", "full"],
            "full: not an index (holds no isospace.json). isospace index FILE... makes one",
        ),
        (
            ["index", "t.txt", "--to", "full"],
            "full: exists already and is not an index. Name another folder",
        ),
        (
            ["index", "t.txt", "--to", "t.txt"],
            "t.txt: exists already and is not an index. Name another folder",
        ),
    ],
)
def test_bad_input_is_one_line(folder, capsys, monkeypatch, words, message):
    monkeypatch.chdir(folder.parent)
    Path("t.txt").write_text("the cat\n")
    Path("blank.txt").write_text("\n \n")
    Path("t.csv").write_text("text,year,kind,age\na,2001,x,1\nb,1.5,y,2\n")
    Path("t.jsonl").write_text('{"text": "a", "tags": ["x"]}\n')
    Path("full").mkdir()
    Path("full", "mine.txt").write_text("mine")
    before = len(SearchIndex.open("index"))
    assert run(capsys, *words) == (2, "", f"isospace: {message}\n")
    assert not Path("new").exists()
    assert len(SearchIndex.open("index")) == before


def truncate(folder, pattern):
    for path in folder.glob(pattern):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: truncate(folder, "texts.lance/data/*"),
            r"the index cannot be searched \(.*\)",
        ),
        (
            lambda folder: truncate(folder, "texts.lance/_versions/*"),
            r"the index cannot be opened \(.*\)",
        ),
        (
            lambda folder: shutil.rmtree(folder / "texts.lance"),
            r"the index cannot be opened \(Table 'texts' was not found\)",
        ),
        (lambda folder: truncate(folder, "isospace.json"), r"is damaged \(JSONDecodeError: .*\)"),
        (
            lambda folder: (folder / "isospace.json").write_text('{"model": "minilm"}'),
            r"is damaged \(KeyError: 'approximate'\)",
        ),
        (
            lambda folder: replace(About.read(folder), columns={"a": "int"}).write(folder),
            r"the index is damaged \(its table has other columns than its isospace.json\)",
        ),
        (
            lambda folder: replace(About.read(folder), dim=64).write(folder),
            r"the index is damaged \(its table has other columns than its isospace.json\)",
        ),
    ],
)
def test_a_damaged_index_is_named(folder, capsys, damage, message):
    damage(folder)
    status, out, err = run(capsys, "search", "cat", "--index", folder)
    assert (status, out) == (2, "")
    assert re.fullmatch(rf"isospace: {folder}.*{message}.*ndex the texts anew.*\n", err)


def test_without_lancedb_its_extra_is_named(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "lancedb", None)
    assert run(capsys, "search", "cat", "--index", folder) == (
        2,
        "",
        'isospace: lancedb is not installed: pip install "isospace[search]"\n',
    )


def test_an_index_that_was_emptied_says_so(index):
    index.delete("true")
    index.refresh()
    with pytest.raises(UserError, match=r"holds no texts. isospace index FILE\.\.\. adds some"):
        index.search("cat")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"age": 3}, 'row a: no column "age" in the index. Columns: year, kind'),
        ({"year": "x"}, "row a: column \"year\" has 'x', expected whole numbers"),
        ({"year": True}, 'row a: column "year" has True, expected whole numbers'),
        ({"kind": [1]}, 'row a: column "kind" has a list, expected text, a number, or true or'),
    ],
)
def test_metadata_that_does_not_fit_is_refused(index, metadata, message):
    with pytest.raises(UserError, match=re.escape(message)):
        index.add(["the cat"], ["a"], [metadata])


def test_a_model_that_gives_no_numbers_is_refused(index, monkeypatch):
    monkeypatch.setattr(
        index.encoder, "embed", lambda texts, **rest: np.full((len(texts), 32), np.nan)
    )
    with pytest.raises(UserError, match="gives vectors that are no numbers"):
        index.add(["the cat"], ["a"])
