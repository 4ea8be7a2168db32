"""What a search finds, while rows come and go."""

import json
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from threading import Barrier

import numpy as np
import pytest
from command_line import run
from routed import write_routed
from search_index import TEXTS, YEARS
from toy import sentences

from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.evaluation.bm25 import bm25_terms
from isospace.operators.nearest import unit_rows
from isospace.search import Changes, SearchIndex, database, index as module
from isospace.search.about import About
from isospace.search.database import Row, Slice

WEIRD = ["it's", "back\\slash", "new\nline", "nul\0x", "' OR 1=1 --", "%_", "😀"]


def nearest(encode, query, texts, k):
    (vector,) = encode([query])
    cosines = [float(np.dot(vector, other)) for other in encode(texts)]
    order = sorted(range(len(texts)), key=lambda i: -cosines[i])[:k]
    return [(texts[i], cosines[i]) for i in order]


def found(results):
    return [(hit.text, hit.cosine) for hit in results.hits[0]]


def assert_same(hits, expected):
    assert [text for text, _ in hits] == [text for text, _ in expected]
    assert np.allclose([c for _, c in hits], [c for _, c in expected], atol=1e-5)


def test_texts_and_queries_are_read_alike_however_they_are_spelt(toy_model, tmp_path):
    index = SearchIndex.create(tmp_path / "index", str(toy_model), {})
    added = ["the e\ufb03cient co\u2011operating Unter\u00adnehmen", "a cat"]
    index.add(added, ["a", "b"])
    assert index.add(added, ["a", "b"]).unchanged == 2
    index.refresh()
    for query in (
        "the efficient co-operating Unternehmen",
        "the\u00a0efﬁcient co‐operating Unternehmen\u200b",
    ):
        hit = index.search(query, k=1).hits[0][0]
        assert hit.text == "the efficient co-operating Unternehmen"
        assert hit.cosine == pytest.approx(1, abs=1e-6)
    # Shared words find it too, though the vector is far from it.
    assert index.search("ｕnter\u00adnehmen", k=1, hybrid=True, bm25_weight=50).hits[0][0].id == "a"
    with pytest.raises(UserError, match="one is empty"):
        index.search("\u200b\u00ad")


def test_a_text_without_a_direction_is_found_with_cosine_0(tmp_path, monkeypatch):
    (tmp_path / "words.txt").write_text("cat 1 0\ndog 0.6 0.8\n")
    monkeypatch.chdir(tmp_path)
    index = SearchIndex.create(tmp_path / "index", "glove:words.txt", {})
    index.add(["dog", "unknown", "cat"], list("abc"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    index = SearchIndex.open(tmp_path / "index")
    expected = [("cat", 1.0), ("dog", 0.6), ("unknown", 0.0)]
    assert_same(found(index.search("cat", k=4)), expected)
    assert_same(sorted(found(index.search("other", k=4))), [(text, 0.0) for text, _ in expected])


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize(
    ("where", "keep"),
    [
        (None, lambda year: True),
        ("year >= 1997", lambda year: year >= 1997),
        ("kind IS NULL AND year < 1904", lambda year: year in (1901, 1903)),
    ],
)
def test_filters_precede_searches(index, encode, lowered, monkeypatch, where, keep, approximate):
    """The dull loop is exact; so are 300 texts in one group of an approximate index."""
    if approximate:
        index.refresh()
        monkeypatch.setattr(module, "EXACT_ROWS", 1)  # the few that match are enough
    kept = [text for text, year in zip(TEXTS, YEARS, strict=True) if keep(year)]
    results = index.search(TEXTS[0], k=9, where=where)
    assert_same(found(results), nearest(encode, TEXTS[0], kept, 9))
    how = index.about.approximate.text if approximate else "exact"
    among = f"{len(kept)} texts{f' where {where}' if where else ''}"
    assert results.protocol == f"cosine, {how}, {among}"


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


def test_ids_and_texts_of_any_characters(index):
    for text in ("first", "second"):  # the second time they are replaced
        index.add([f"{text} {key}" for key in WEIRD], WEIRD)
    assert len(index) == 300 + len(WEIRD)
    hits = {hit.id: hit.text for hit in index.search("second", k=10**10).hits[0]}
    assert {key: hits[key] for key in WEIRD} == {key: f"second {key}" for key in WEIRD}
    index.add([""] * len(WEIRD), WEIRD)
    assert len(index) == 300


def test_added_rows_are_found_and_train_the_index_when_they_have_doubled(index, lowered):
    index.refresh()
    assert index.about.approximate.rows == 300
    index.add(["the old river"], ["late"], [{"year": 3}])
    results = index.search("the old river", k=2)
    assert "approximate" in results.protocol
    assert results.hits[0][0].id == "late"
    assert index.search("the old river", where="year < 5").hits[0][0].id == "late"
    assert index.search("late zebra river", k=3, hybrid=True).hits[0]
    index.add(sentences(99, seed=8), [f"u{i}" for i in range(99)])
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
    ids, _ = index.database.sample(300, 10)
    for key in ids:
        row = int(key[1:])
        others = sorted((float(vectors[row] @ v) for i, v in enumerate(vectors) if i != row))
        hits = [hit for hit in index.search(TEXTS[row], k=11).hits[0] if hit.id != key][:10]
        shares.append(sum(hit.cosine > others[-10] - 1e-5 for hit in hits) / 10)
    measured = index.about.approximate
    assert (measured.rows, measured.queries) == (300, 10)
    assert measured.recall == pytest.approx(sum(shares) / len(shares))
    assert measured.text == f"approximate, recall@10 {measured.recall:.3f} on 10 of its own texts"


def test_fusion_finds_a_word_that_the_vector_misses(index, encode):
    near = [text for text, _ in nearest(encode, "zebra", TEXTS, 100)]
    assert TEXTS[298] not in near[:10]  # the only one with the word
    cosines = encode(TEXTS) @ encode(["zebra"])[0]
    lifted = cosines + 6 * cosines.std() * (np.arange(300) == 298)
    results = index.search("zebra", hybrid=True, bm25_weight=6)
    hits = results.hits[0]
    assert [hit.text for hit in hits] == [TEXTS[i] for i in np.argsort(-lifted)[:10]]
    hit = next(hit for hit in hits if hit.text == TEXTS[298])
    assert hit.cosine == pytest.approx(float(cosines[298]), abs=1e-5)
    assert hit.bm25 > 0
    assert [other.bm25 for other in hits if other is not hit] == [0] * 9
    best = np.sort(lifted)[:-11:-1].tolist()
    assert [hit.hybrid for hit in hits] == pytest.approx(best, abs=1e-5)
    assert index.search("zebra").hits[0][0].hybrid is None
    assert results.protocol == "cosine and words (BM25, weight 6), hybrid, exact, 300 texts"
    assert not index.search("zebra", hybrid=True, where="text LIKE '%qqq%'").hits[0]


def test_words_are_those_that_bm25_is_measured_with(toy_model, tmp_path):
    """Parts of names, and codes of any length: a weight is chosen by the words of `bm25_terms`."""
    codes = [sha256(bytes([number])).hexdigest() for number in range(3)]
    texts = [
        "numpy.linalg.norm measures length",
        "pandas.DataFrame.merge joins frames",
        "os_path_exists tests paths, as read_csv does",
        "write to ada@example.org about snake-case",
        "हिन्दी और उर्दू",
        *(f"The image {code} was built" for code in codes),
    ]
    index = SearchIndex.create(tmp_path / "index", str(toy_model))
    index.add(texts, list(map(str, range(len(texts)))))
    index.refresh()
    nowhere = np.zeros(index.about.dim, np.float32)
    for word in {word for text in texts for word in bm25_terms(text)}:
        hits = index.database._matching(word, nowhere, len(texts), None)
        found = {hit.text for hit in hits.values()}
        assert found == {text for text in texts if word in bm25_terms(text)}


def test_a_fused_search_shows_what_it_ranks_by(index, folder, capsys):
    command = ["search", "zebra", "--index", folder, "--hybrid", "--bm25-weight", "6"]
    hits = index.search("zebra", hybrid=True, bm25_weight=6).hits[0]
    _, out, _ = run(capsys, *command, "--json")
    listed = json.loads(out)["queries"][0]["hits"]
    assert [(one["hybrid"], one["bm25"]) for one in listed] == [(h.hybrid, h.bm25) for h in hits]
    _, out, _ = run(capsys, *command)
    header, _, *rows = [line.split(" | ") for line in out.split("\n") if line.startswith("|")]
    assert header[:4] == ["| rank", "hybrid", "cosine", "BM25"]
    expected = [[f"{hit.hybrid:.3f}", f"{hit.cosine:.3f}", f"{hit.bm25:.2f}"] for hit in hits]
    assert [row[1:4] for row in rows] == expected
    _, out, _ = run(capsys, "search", "zebra", "--index", folder, "--json")
    assert json.loads(out)["queries"][0]["hits"][0].keys() == {"id", "cosine", "text", "metadata"}


def test_searches_go_on_while_rows_are_added(index, folder, monkeypatch):
    monkeypatch.setattr(database, "SLICE", 5)
    reader = SearchIndex.open(folder)

    def look(i):
        return reader.search(TEXTS[i], k=1, hybrid=i % 2 == 0).hits[0][0].id

    with ThreadPoolExecutor(4) as pool:
        looks = pool.map(look, range(40))
        index.add(sentences(30, seed=5), [f"u{i}" for i in range(30)])
        index.refresh()
        assert list(looks) == [f"t{i}" for i in range(40)]
    assert len(reader) == 330  # it sees what the other wrote


def test_an_index_of_a_model_with_mapped_queries_is_searched_with_its_base_too(toy_model, tmp_path):
    base, routed = write_routed(toy_model, tmp_path)
    SearchIndex.create(tmp_path / "index", str(routed)).add(TEXTS[:9], map(str, range(9)))
    for model in (None, base):
        encoder = load_encoder(str(model or routed), device="cpu")
        documents = unit_rows(encoder.embed(TEXTS[:9], side="document"))
        wanted = documents @ unit_rows(encoder.embed(["a cat"], side="query"))[0]
        hits = SearchIndex.open(tmp_path / "index", model).search("a cat", k=9).hits[0]
        expected = [wanted[int(hit.id)] for hit in hits]
        assert [hit.cosine for hit in hits] == pytest.approx(expected, abs=1e-5)


def test_two_processes_add_the_same_rows_at_the_same_time(index, folder):
    rows = {(f"u{i}", f"u{i}"): (text, 1, None, None) for i, text in enumerate(sentences(10))}
    some = Slice(rows, rows, rows, [], Changes())
    vectors = np.ones((len(rows), index.about.dim), np.float32)
    together = Barrier(2)

    def add(_):
        own = SearchIndex.open(folder).database
        for _ in range(3):
            together.wait()
            own.write(some, vectors)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(add, range(2)))
    assert len(index) == len(TEXTS) + len(rows)


def test_of_rows_with_an_id_the_last_counts_and_the_others_are_counted(index, monkeypatch):
    before, values = len(index), {"year": 2000, "kind": "x"}
    rows = [Row(text, "twice", values) for text in ("the cat", "the dog")]
    assert index.add_rows(rows) == Changes(added=1, replaced=1)
    assert len(index) == before + 1
    monkeypatch.setattr(database, "SLICE", 1)
    assert index.add_rows(rows) == Changes(replaced=2)  # each slice replaces the one before


def test_the_later_row_of_an_id_counts_on_a_cluster_too(index, monkeypatch):
    """A cluster reads slices ahead, before the earlier row of the same id is written."""

    def read_ahead(begin, items, workers, in_order):
        yield from (index._vectors(some, "document", lambda _: None) for some in list(items))

    monkeypatch.setattr(module, "map_on_cluster", read_ahead)
    monkeypatch.setattr(database, "SLICE", 1)
    before, values = len(index), {"year": 2000, "kind": "x"}
    long = [Row(f"the cat {n}", "twice", values, None, n, 3) for n in (1, 2, 3)]
    whole, other = Row("the dog", "twice", values), Row("the fox", "twice", values)
    assert index.add_rows([*long, whole, other], on_cluster=2) == Changes(4, 1, deleted=3)
    assert len(index) == before + 1
    assert index.add(["the fox"], ["twice"], [values]).unchanged == 1
    changes = index.add_rows([other, whole, *long], on_cluster=2)
    assert changes == Changes(added=3, replaced=1, unchanged=1, deleted=1)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("passages", [1, 2])
def test_a_row_may_have_the_id_of_another_rows_passage(index, together, passages):
    values = {"year": 2000, "kind": "x"}
    long = [Row(f"the zebra {n}", "long", values, None, n, 2) for n in (1, 2)]
    own = [
        Row(f"no zebra {n}", "long#2", values, None, n, passages) for n in range(1, passages + 1)
    ]
    for rows in [[*own, *long]] if together else [long, own]:
        assert index.add_rows(rows) == Changes(added=len(rows))
    for hybrid in (False, True):
        hits = index.search("zebra", where="id = 'long#2'", hybrid=hybrid).hits[0]
        assert {hit.text for hit in hits} == {"the zebra 2", *["no zebra 1"] * (passages == 1)}
    rows = [Row("the zebra", "long", values), *own]
    assert index.add_rows(rows) == Changes(added=1, unchanged=passages, deleted=2)


def test_a_filter_counts_for_each_of_two_rows_with_an_id(index):
    passages = [Row(f"zebra {n}", "long", {"year": 1, "kind": None}, None, n, 2) for n in (1, 2)]
    row = Row("the old zebra by the river and the sea", "long#2", {"year": 2, "kind": None})
    index.add_rows([*passages, row])
    hits = index.search("zebra", where="year = 2", hybrid=True, bm25_weight=50).hits[0]
    assert [hit.text for hit in hits] == [row.text]
    assert hits[0].bm25 > 0


def test_a_row_that_changes_during_a_search_is_found_once(index, folder, monkeypatch):
    nearest = database.Database.nearest

    def replaced_meanwhile(*arguments):
        hits = nearest(*arguments)
        SearchIndex.open(folder).add(["a new zebra"], ["t298"], [{}])
        return hits

    monkeypatch.setattr(database.Database, "nearest", replaced_meanwhile)
    hits = index.search("zebra", k=300, hybrid=True).hits[0]
    assert [hit.text for hit in hits if hit.id == "t298"] == ["a new zebra"]
