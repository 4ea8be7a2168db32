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


def test_a_page_of_another_site_cannot_ask(chromium, address, tmp_path):
    """By a form that sends itself, by a frame and by a link; what is typed is answered."""
    form = f"<form method=post action={address}similarities><input name=sentences value=a></form>"
    page = tmp_path / "evil.html"
    for content in (
        f"{form}<script>document.forms[0].submit()</script>",
        f"<iframe src={address}></iframe>",
        f"<a href={address}>x</a><script>document.links[0].click()</script>",
    ):
        page.write_text(content)
        open_page(chromium, page.as_uri())
        if "iframe" in content:
            chromium.switch_to.frame(0)
        body = chromium.execute_script("return document.body.innerText")
        assert "Nearest neighbours" not in body
        assert "Similarities" not in body
        chromium.switch_to.default_content()
    open_page(chromium, address)
    assert "Nearest neighbours" in chromium.execute_script("return document.body.innerText")
