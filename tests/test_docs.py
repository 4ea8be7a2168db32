"""The README's generated parts are what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from isospace.objectives import OBJECTIVES
from isospace.system.tables import markdown_table
from isospace.verbs import VERBS
from isospace.verbs.objectives import objective_row
from isospace.verbs.recipes import describe

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
OBJECTIVES_PAGE = (ROOT / "docs" / "objectives.md").read_text(encoding="utf-8")


def test_objective_table_is_the_codes():
    (table,) = re.findall(r"<!-- objectives.*?-->\n(.*?)\n<!-- end -->", OBJECTIVES_PAGE, re.DOTALL)
    assert table == markdown_table([objective_row(name) for name in OBJECTIVES])


def test_the_recipe_that_is_shown_is_what_the_command_says():
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    shown = re.search(r"\$ isospace recipes (\S+)\n(.*?)\n```", page, re.DOTALL)
    assert shown[2] == describe(shown[1]).rstrip()


def test_readme_names_every_verb():
    assert all(f"isospace {verb}" in README for verb in VERBS)


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
def test_links_lead_somewhere(page):
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", prose):
        if target.startswith("http"):
            continue
        aim = page.parent / target if target else page
        assert aim.exists(), f"{page.name}: {target}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", aim.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles}


def test_python_quick_start_names_exist():
    """The README's imports import, and its settings are settings."""
    training, _ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    setup = training.split("finished = train")[0]
    names: dict[str, object] = {}
    exec(setup, names)
    assert names["config"].text.corpus == ("notes.txt",)
