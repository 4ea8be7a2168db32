"""Texts that would run if `explore` took them for more than text, and pages of other sites."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attacks import ATTACKS, COMPUTED, harmless, require_harmless, structure
from browsing import open_page, provoke, requests
from explore_session import served, session_of
from toy import sentences

from isospace.adaptation.results import ChangedQuery
from isospace.explore.session import ChangedQueries

pytest.importorskip("starlette", reason="starlette is not installed (the extra explore brings it)")

from starlette.testclient import TestClient

from isospace.explore.app import HOST, make_app


def attacked(texts):
    first, second, *_ = texts
    changed = ChangedQuery(first, second, (9.0, 1.0), ((first,), (second,)))
    corpus = [*(" ".join(text.split()) for text in texts), *sentences(40)]
    session = session_of(
        corpus, names=(first, second), changes=ChangedQueries((changed,), (changed,))
    )
    session.corpus = texts[2]
    return session


@pytest.fixture(scope="module")
def session():
    return attacked(list(ATTACKS.values()))


@pytest.fixture(scope="module")
def client(session):
    return TestClient(make_app(session), base_url=f"http://{HOST}")


@pytest.fixture(scope="module")
def same():
    texts = list(map(harmless, ATTACKS.values()))
    return TestClient(make_app(attacked(texts)), base_url=f"http://{HOST}")


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_attacks_make_no_tag_and_no_attribute(client, same, attack):
    for method, path, name in (("GET", "/", "q"), ("GET", "/", "k"), ("POST", "/similarities", "")):
        found, expected = (
            asked.request(
                method,
                path,
                params={name: text, "q": text} if name else None,
                data=None if name else {"sentences": f"{text}\nanother\n{text} again"},
            )
            for asked, text in ((client, attack), (same, harmless(attack)))
        )
        assert found.status_code == expected.status_code
        # What has no words has no marks; without marks of direction it may be a query that changed.
        more = "<mark></mark><q><bdi></bdi></q><strong></strong>"
        marks = expected.text.replace("</main>", f"{more}</main>")
        require_harmless(found.text, marks)
        assert COMPUTED not in found.text


def test_the_geometry_of_attacks_is_as_harmless(client, same):
    found, expected = (asked.get("/geometry").text for asked in (client, same))
    require_harmless(found, expected)
    assert any(ATTACKS["script"] in label for label in structure(found).values["aria-label"])


@pytest.fixture(scope="module")
def address(session) -> Iterator[str]:
    with served(session) as url:
        yield url


@pytest.mark.parametrize("page", ["", "?q=script+document+title&k=60", "similarities", "geometry"])
def test_nothing_runs_in_a_browser(chromium, address, page):
    open_page(chromium, address + page)
    provoke(chromium)
    assert chromium.execute_script("return window.ran") is None
    assert chromium.title.endswith(" - isospace")
    assert all(url.startswith(address) for url in requests(chromium))
    assert chromium.get_log("browser") == []
