"""Pages: what they say of the code is there, links lead somewhere, and the site builds."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from toy import write_documents

import isospace
from isospace.cli import main
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


def links(page):
    """Return the targets of a page's links and their anchors, but for those to other servers."""
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?(?:\s+\"[^\"]*\")?\)", prose)


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), ROOT / "examples" / "README.md"])
def test_links_lead_somewhere(page):
    for target, anchor in links(page):
        aim = page.parent / target if target else page
        assert aim.exists(), f"{page.name}: {target}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", aim.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles}


def test_pictures_and_files_that_pages_of_the_site_link_are_there():
    """The build checks the links to pages alone."""
    for page in (ROOT / "docs").rglob("*.md"):
        for target, _ in links(page):
            if target and not target.endswith(".md"):
                assert (page.parent / target).is_file(), f"{page}: {target}"
                assert (page.parent / target).resolve().is_relative_to(ROOT / "docs"), target


def test_what_contributing_names_is_there():
    """Each file by the end of its path, with the name after `::`."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = ("src", "tests", "docs", "benchmarks", "scripts", "fuzz")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    invented = re.compile("NAME|TASK|FAMILY|FORMAT")
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
    names = {}
    settings = call.split(")\n")[0]
    exec(f"{imports}config = {settings}", names)
    assert names["config"].text.corpus == ("manuals/",)


@pytest.fixture(scope="module")
def site():
    pytest.importorskip("zensical", reason="zensical needs Python 3.11")
    script = [sys.executable, "scripts/docs.py"]
    built = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return ROOT / "site"


def test_every_page_is_in_the_navigation_once():
    """A page that the navigation lacks can only be found by the search."""
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    docs = ROOT / "docs"
    made = {"reference/commands.md", "reference/objectives.md"}  # by the script, and not kept
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} | made
    assert sorted(listed) == sorted(pages)


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


SMALLER = {"docstrings:$P/scipy": None, "300000": "5000"}
"""Words of the pages' commands -> those that take seconds; `None` leaves one out."""


def test_shown_outputs_are_of_the_newest_form(toy_model, tmp_path, monkeypatch, capsys):
    """On small text, numbers and rows of candidates differ; labels and headings may not."""
    pytest.importorskip("lancedb")
    script = runpy.run_path(str(ROOT / "scripts" / "refresh_get_started.py"))
    monkeypatch.chdir(tmp_path)
    smaller = SMALLER | {"docstrings:$P/sklearn": str(write_documents(tmp_path / "docs", 100))}

    def run(command):
        program, *words = shlex.split(command)
        if program != "isospace" or words[0] in ("doctor", "--version"):
            return None
        given = [new for word in words if (new := smaller.get(word, word)) is not None]
        if words[0] in ("corpus", "adapt"):
            given += ["--model", str(toy_model)]
        if words[0] == "adapt":  # so that a gain on few pairs of other text is no condition
            given += ["--max-drop", "100"]
        capsys.readouterr()
        assert main(given) == 0
        printed = capsys.readouterr()
        return [*printed.err.splitlines(), *printed.out.splitlines()]

    stale, printed = [], []
    for name in script["ORDER"]:
        page = (script["PAGES"] / name).read_text(encoding="utf-8")
        new, lost = script["refreshed"](page, run, printed)
        stale += [line for line in lost if not line.startswith("row ")]
        assert len(new.splitlines()) == len(page.splitlines())
    assert stale == []
    assert len([line for line in printed if line.startswith("verdict ")]) == 1
