"""The page in headless Chromium, opened from disk: drawn, quiet, readable."""

import pytest
from browsing import SCREENS, contrast, open_page, requests, require_readable
from report_runs import finish, write_comparison, write_run, write_sample

from isospace.objectives import OBJECTIVES
from isospace.report.run_set import collect
from isospace.report.write import write_report

pytest.importorskip("selenium", reason="selenium is not installed (the extra dev brings it)")

from selenium.webdriver.common.by import By

MARKS = """
return [...document.querySelectorAll(".plot")].map((plot) => [...plot.querySelectorAll(
  ".role-mark path")].filter((mark) => mark.getBoundingClientRect().width > 0).map((mark) => {
    const style = getComputedStyle(mark);
    return style.fill === "none" ? style.stroke : style.fill;
  }));
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page about two settings, one of them with a sample whose first sentence is a script."""
    folder = tmp_path_factory.mktemp("browser")
    first = write_sample(finish(write_run(folder / "first"), sts=True), count=40)
    scd = OBJECTIVES["scd"]()
    second = finish(write_run(folder / "second", objective=scd, model="m" * 300), sts=True)
    return write_report(collect([first.folder, second.folder]), folder / "page.html")


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison") / "which"
    write_comparison(folder, sts=True)
    return write_report(collect([folder]))


@pytest.fixture(params=["page", "comparison"])
def any_page(request, chromium):
    open_page(chromium, request.getfixturevalue(request.param).as_uri())
    return chromium


@pytest.fixture
def browser(chromium, page):
    open_page(chromium, page.as_uri())
    return chromium


def test_it_is_drawn_in_silence_and_asks_nobody(browser, page):
    assert browser.title == "isospace: 2 runs"
    assert all(len(marks) > 0 for marks in browser.execute_script(MARKS))
    assert len(browser.find_elements(By.TAG_NAME, "svg")) == 4 + 2 + 1
    assert browser.get_log("browser") == []
    assert requests(browser) == [page.as_uri()]


def test_structure_for_screen_readers(browser):
    def count(query):
        return len(browser.find_elements(By.CSS_SELECTOR, query))

    assert count("html[lang=en]") == count("h1") == count("main") == 1
    assert count("table") == count("table > caption") > 3
    assert count("th") == count("th[scope]")
    assert count(".scroll") == count(".scroll[tabindex='0'][role=region][aria-label]")
    assert count("svg") == count("svg[role][aria-label]") == count("figure > figcaption")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", SCREENS.values(), ids=SCREENS)
def test_readable_on_every_screen(any_page, width, scheme):
    paper = require_readable(any_page, width, scheme, 200)
    for colour in {mark for marks in any_page.execute_script(MARKS) for mark in marks}:
        assert contrast(colour, paper) >= 3, colour
