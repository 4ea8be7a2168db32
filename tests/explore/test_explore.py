"""What the pages of `explore` say, against dull loops, and what they refuse."""

import gzip
import re
from html import unescape

import numpy as np
import pytest
from explore_session import CHANGES, EVIL, EVIL_NAME, TEXTS, encoder, session_of
from toy import sentences

from isospace.encoders.loading import load_encoder
from isospace.evaluation.geometry import describe
from isospace.explore.session import MOST_NEIGHBOURS, open_session, read_corpus
from isospace.system.progress import Silent

pytest.importorskip("starlette", reason="starlette is not installed (the extra explore brings it)")

from starlette.testclient import TestClient

from isospace.explore.app import HOST, geometry_of, make_app

QUERY = "the big dog runs in the city"


def cosines(encode, query, texts):
    u = encode([query])[0].astype(float)
    vectors = [v.astype(float) for v in encode(texts)]
    return [u @ v / np.sqrt((u @ u) * (v @ v)) for v in vectors]


@pytest.fixture(scope="module")
def session():
    return session_of()


def client_of(session):
    return TestClient(make_app(session), base_url=f"http://{HOST}")


@pytest.fixture(scope="module")
def client(session):
    return client_of(session)


def text_of(page):
    return " ".join(unescape(re.sub(r"<[^>]+>", "", page)).split())


@pytest.mark.parametrize(("query", "k"), [(QUERY, 10), (f"  {TEXTS[7]}\n", 100)])
def test_neighbours_are_those_of_a_loop(session, query, k):
    found = session.neighbours(query, k)
    others = [text for text in TEXTS if text != query.strip()]
    scores = [cosines(model.encode, found.query, others) for model in session.models]
    orders = [sorted(range(len(others)), key=lambda i, s=s: -s[i]) for s in scores]
    common = {*orders[0][:k]} & {*orders[1][:k]}
    assert found.common == len(common)
    for mine, hits in enumerate(found.lists):
        assert [hit.text for hit in hits] == [others[i] for i in orders[mine][:k]]
        best = [scores[mine][i] for i in orders[mine][:k]]
        assert [hit.cosine for hit in hits] == pytest.approx(best, abs=1e-6)
        ranks = [orders[1 - mine].index(i) + 1 for i in orders[mine][:k]]
        assert [hit.other_rank for hit in hits] == ranks
        assert [hit.shared for hit in hits] == [i in common for i in orders[mine][:k]]


def test_one_model_stands_alone():
    alone = session_of(encoders=[encoder(1, 16)])
    (hits,) = alone.neighbours(QUERY, 3).lists
    assert [(hit.other_rank, hit.shared) for hit in hits] == [(None, False)] * 3
    for path in (f"/?q={QUERY}", "/similarities", "/geometry"):
        page = client_of(alone).get(path)
        assert page.status_code == 200
        assert "under B" not in page.text
        assert "both" not in text_of(page.text)


def test_the_page_has_both_lists(client, session):
    page = client.get("/", params={"q": QUERY, "k": 4})
    assert page.status_code == 200
    read, found = text_of(page.text), session.neighbours(QUERY, 4)
    assert f"{found.common} of 4 neighbours are the same under both models." in read
    assert f"By cosine, {len(TEXTS)} distinct texts, the query itself left out." in read
    for hits, other in zip(found.lists, "BA", strict=True):
        for hit in hits:
            suffix = "" if hit.shared else ", not in its list"
            line = f"{hit.cosine:.3f} {hit.text} rank {hit.other_rank} under {other}{suffix}"
            assert line in read
    marked = {word.lower() for word in re.findall(r"<mark>(\w+)</mark>", page.text)} - {"marked"}
    assert marked <= {"big", "dog", "runs", "city"}
    assert marked


def test_queries_that_changed_most_are_offered_first(client):
    searched = client_of(session_of(changes=CHANGES))
    first = searched.get("/").text
    assert "Changed most" not in client.get("/").text
    read = text_of(first)
    assert read.index("Changed most") < read.index("Some sentences of the corpus")
    gained, lost = CHANGES.gained, CHANGES.lost
    for one, ranks in zip((*gained, *lost), ("1,204 → 1", "12.5 → 3", "2 → 31"), strict=True):
        assert f"{one.query} rank {ranks}" in read
    section = first[first.index('id="changed"') : first.index('id="examples"')]
    links = [unescape(link) for link in re.findall(r'<a dir="auto" href="([^"]+)"', section)]
    for link, one in zip(links, (*gained, *lost), strict=True):
        page = searched.get(link).text
        right = (
            f"Its right text, rank {one.ranks[0]:,g} under A and {one.ranks[1]:g} under B "
            f"among the test pairs: {one.right}"
        )
        assert right in text_of(page)
        assert unescape(re.search(r'<input id="q"[^>]*value="([^"]*)"', page)[1]) == one.query
        lists = searched.get(link.replace("k=10", "k=100")).text
        found = re.findall(r"\d\.\d{3}</span>.*?</li>", lists, re.DOTALL)
        marked = [hit for hit in found if "the right text" in hit]
        assert [one.right in text_of(hit) for hit in marked] == [True, True]
    assert "Its right text" not in searched.get("/", params={"q": QUERY}).text


def test_similarities_are_those_of_a_loop(client, session):
    lines = [QUERY, EVIL, "new text", *TEXTS[3:6]]
    result = session.similarities("\r\n\n".join(lines))
    assert result.sentences == tuple(lines)
    for model, matrix in zip(session.models, result.matrices, strict=True):
        expected = [cosines(model.encode, line, lines) for line in lines]
        assert np.allclose(matrix, expected, atol=1e-6)
    page = client.post("/similarities", data={"sentences": "\n".join(lines)})
    cells = re.findall(r"<td class=[^>]*>(-?\d\.\d\d)</td>", page.text)
    assert list(map(float, cells)) == pytest.approx(np.ravel(result.matrices).tolist(), abs=0.006)


def test_geometry_is_what_the_measures_say(client, session):
    measured = geometry_of(session)
    name, _, values = measured["measures"][0]
    assert name == "effective rank"
    assert values == [f"{describe(one.sample)['effective_rank']:.4g}" for one in session.models]
    page = client.get("/geometry").text
    assert page.count("<svg") == 1
    assert all(f">{value}<" in page for *_, values in measured["measures"] for value in values)
    few = session_of(texts=TEXTS[:5])
    assert geometry_of(few) is None
    assert "too few texts" in client_of(few).get("/geometry").text


def test_texts_and_names_are_escaped():
    client = client_of(session_of(changes=CHANGES))
    sent = {"sentences": f"{EVIL}\n{EVIL_NAME}"}
    answers = [
        *(client.get(path, params={"q": EVIL, "k": "<b>"}) for path in ("/", "/similarities")),
        *(client.get("/", params={"q": EVIL_NAME}), client.get("/geometry")),
        client.post("/similarities", data=sent),
    ]
    for answer in answers:
        assert "&lt;img src=x onerror" in answer.text
        for text in ("<script", "<img src=x", "<b>", '"the cat"'):
            assert text not in answer.text


def test_answers_forbid_everything_from_other_sites(client):
    for path in ("/", "/explore.css", "/no"):
        policy = client.get(path).headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
    assert client.get("/explore.css").headers["content-type"].startswith("text/css")
    assert client.get("/", headers={"host": "localhost:8265"}).status_code == 200
    # DNS rebinding
    assert client.get("/", headers={"host": "127.0.0.1.evil.example"}).status_code == 400


def test_bad_questions_are_refused_in_a_sentence(client):
    wrong = f"Number of neighbours: expected 1 to {MOST_NEIGHBOURS}"
    asked = {f"/?q=cat&k={k}": wrong for k in ("0", "9" * 5000, "x")} | {"/?q=": "Type a sentence"}
    answers = [(client.get(path), message) for path, message in asked.items()]
    for text, message in (
        ("a\n" * 41, "41 sentences: expected 2 to 40"),
        (f"a\n{'b' * 2001}", "A sentence of 2,001 characters"),
    ):
        answers.append((client.post("/similarities", data={"sentences": text}), message))
    for page, message in answers:
        assert page.status_code == 400
        assert message in text_of(page.text)
        assert 'role="alert"' in page.text


def test_a_session_has_the_encoders_vectors(toy_model, tmp_path):
    other = tmp_path / "other"
    other.symlink_to(toy_model)
    texts = sentences(30)
    session = open_session([str(toy_model), str(other)], texts, "toy")
    assert [model.name for model in session.models] == ["bert", "other"]
    encode = load_encoder(str(toy_model)).embed
    expected = cosines(encode, QUERY, texts)
    for hits in session.neighbours(QUERY, 30).lists:
        assert [hit.cosine for hit in hits] == pytest.approx(sorted(expected)[::-1], abs=1e-5)
    assert np.allclose(session.models[1].sample, encode(session.sample), atol=1e-6)
    assert len(session.suggestion) <= 6


def test_a_corpus_is_cleaned_and_every_text_is_there_once(tmp_path):
    (tmp_path / "captions.txt.gz").write_bytes(gzip.compress(b"A  dog.\nA dog.\nA dog runs.\n"))
    parts = "# The title\n\n## Of cats\n\nOne cat sat here. It slept.\n\n## Of dogs\n\nTwo dogs ran off."
    (tmp_path / "notes.md").write_text(parts)
    found = sorted(read_corpus([str(tmp_path)], "text", "utf-8", Silent()))
    assert found == ["A dog runs.", "A dog.", "One cat sat here. It slept.", "Two dogs ran off."]
