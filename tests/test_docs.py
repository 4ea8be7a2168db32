"""The README's generated parts are what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import isospace
from isospace.objectives import OBJECTIVES
from isospace.objectives.contrast import Contrast

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_objective_is_in_the_table_of_families():
    page = (ROOT / "docs" / "explanation" / "objectives.md").read_text(encoding="utf-8")
    table = page.partition("\n| family |")[2].partition("\n\n")[0]
    assert {*re.findall("`(.*?)`", table)} == {*OBJECTIVES}
    names = page.partition("They work with ")[2].partition(", alone or together")[0]
    assert {*re.findall("`(.*?)`", names)} == {
        name for name, kind in OBJECTIVES.items() if issubclass(kind, Contrast)
    }


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), ROOT / "examples" / "README.md"])
def test_links_lead_somewhere(page):
    """Of the files outside the site, whose own links `tests/test_site.py` checks."""
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", prose):
        if target.startswith("http"):
            continue
        aim = page.parent / target if target else page
        assert aim.exists(), f"{page.name}: {target}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", aim.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles}


def test_what_contributing_names_is_there():
    """Each file by the end of its path, with the name after `::`."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = ("src", "tests", "docs", "benchmarks", "scripts", "fuzz")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    invented = re.compile("NAME|TASK|FAMILY")
    named = re.findall(r"`([\w/]+\.(?:py|md|bib|html))(?:::(\w+))?`", page)
    assert len(named) > 90
    for file, name in named:
        if not invented.search(file):
            found = [path for path in files if path.as_posix().endswith(f"/{file}")]
            assert found, file
            assert any(name in path.read_text(encoding="utf-8") for path in found), name


def test_every_public_name_is_there():
    assert dir(isospace) == sorted(isospace.__all__)
    assert all(getattr(isospace, name) is not None for name in isospace.__all__)


def test_python_quick_start_names_exist():
    """The README's imports import, and its settings are settings."""
    _, adapting = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    imports, call = adapting.split("finished = adapt(")
    names: dict[str, object] = {}
    settings = call.split(")\n")[0]
    exec(f"{imports}config = {settings}", names)
    assert names["config"].text.corpus == ("manuals/",)
