"""The pages of `explore` in headless Chromium: typed in, read, quiet, readable, safe."""

import pytest
from browsing import SCREENS, go, open_page, requests, require_readable
from explore_session import CHANGES, served, session_of

pytest.importorskip("selenium", reason="selenium is not installed (the extra dev brings it)")
pytest.importorskip("starlette", reason="starlette is not installed (the extra explore brings it)")

from selenium.common.exceptions import WebDriverException
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

QUERY = "the big dog runs in the city"
PAGES = {
    "base model": "",
    "neighbours": f"?q={CHANGES.gained[1].query}",
    "similarities": "similarities",
    "geometry": "geometry",
}


@pytest.fixture(scope="module")
def session():
    return session_of(changes=CHANGES)


@pytest.fixture(scope="module")
def address(session):
    with served(session) as url:
        yield url


@pytest.fixture
def browser(chromium, address):
    open_page(chromium, address)
    return chromium


def find(browser, query):
    return browser.find_elements(By.CSS_SELECTOR, query)


def leave(browser, act):
    """Do what leads to another page, and wait for it."""
    browser.execute_script("window.old = true")
    act()
    arrived = "return !window.old && document.readyState === 'complete'"
    # Between two pages the driver has errors of several kinds.
    wait = WebDriverWait(browser, 60, ignored_exceptions=[WebDriverException])
    wait.until(lambda _: browser.execute_script(arrived))


def test_type_search_read_and_follow_by_keyboard(browser, address, session):
    told = [*CHANGES.gained, *CHANGES.lost]
    assert [link.text for link in find(browser, ".changes a")] == [one.query for one in told]
    focused = "return document.activeElement.id"
    WebDriverWait(browser, 60).until(lambda _: browser.execute_script(focused) == "q")
    find(browser, "button")[0].send_keys("")  # the last thing before the list
    leave(browser, ActionChains(browser).send_keys(Keys.TAB, Keys.TAB, Keys.ENTER).perform)
    assert find(browser, "#q")[0].get_attribute("value") == told[1].query
    assert find(browser, "q")[0].text == told[1].right

    go(browser, address)
    WebDriverWait(browser, 60).until(lambda _: browser.execute_script(focused) == "q")
    leave(browser, ActionChains(browser).send_keys(QUERY, Keys.ENTER).perform)
    assert find(browser, "h2")[0].text == QUERY
    near = find(browser, ".hits a")[1]
    followed = near.text
    leave(browser, near.click)
    wanted = [hit.text for hits in session.neighbours(followed, 10).lists for hit in hits]
    assert [link.text for link in find(browser, ".hits a")] == wanted
    assert browser.get_log("browser") == []
    asked = requests(browser)
    assert len(asked) >= 4
    assert all(url.startswith(address) for url in asked)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_structure_for_screen_readers(browser, address, page):
    go(browser, address + page)
    for once in ("html[lang=en]", "main", "h1", "nav a[aria-current=page]"):
        assert len(find(browser, once)) == 1
    for field in find(browser, "input, textarea"):
        assert find(browser, f"label[for={field.get_attribute('id')}]")
    assert len(find(browser, "table")) == len(find(browser, "table > caption"))
    assert len(find(browser, "th")) == len(find(browser, "th[scope]"))
    assert len(find(browser, ".scroll")) == len(find(browser, ".scroll[tabindex='0'][aria-label]"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_readable_on_every_screen(browser, address, page, scheme):
    go(browser, address + page)
    for width in SCREENS.values():
        require_readable(browser, width, scheme, 30)
