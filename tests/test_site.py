"""The documentation site builds from the repository alone, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import isospace

ROOT = Path(__file__).parent.parent
pytest.importorskip("zensical", reason="zensical needs Python 3.11")


@pytest.fixture(scope="module")
def site():
    """The folder of the site, just built."""
    built = subprocess.run(
        [sys.executable, "scripts/docs.py"], cwd=ROOT, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return ROOT / "site"


def test_every_page_is_in_the_navigation_once():
    """A page that the navigation lacks can only be found by the search."""
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    docs = ROOT / "docs"
    made = {"reference/commands.md", "reference/objectives.md"}  # by the script, and not kept
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} | made
    assert sorted(listed) == sorted(pages)


def test_pictures_and_files_that_pages_link_are_there():
    """The build checks the links to pages alone."""
    for page in (ROOT / "docs").rglob("*.md"):
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", prose):
            if not target.endswith(".md"):
                assert (page.parent / target).is_file(), f"{page}: {target}"
                assert (page.parent / target).resolve().is_relative_to(ROOT / "docs"), target


def test_no_page_asks_another_server_for_anything(site):
    for path in site.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="?(?:https?:)?//[^">]*', page)
        loaded += re.findall(r'<link[^>]* href="?(?:https?:)?//[^">]*', page)
        assert not [tag for tag in loaded if "canonical" not in tag], path


def test_formulas_are_mathml(site):
    page = (site / "reference" / "objectives.html").read_text(encoding="utf-8")
    assert "<math" in page
    assert "arithmatex" not in page


def test_every_public_name_has_its_place_on_the_page_of_the_api(site):
    page = (site / "reference" / "api.html").read_text(encoding="utf-8")
    for name in set(isospace.__all__) - {"__version__"}:
        assert f'id="isospace.{name}"' in page, name
