"""benchmarks/corpora.py: what it makes of Debian's lists, and what it refuses."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import re
import string
import zipfile
from pathlib import Path

import pytest

from isospace.errors import UserError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

PACKAGES = """Package: thin
Source: ruby-thin (1.8)
Description: fast web server
Tag: implemented-in::ruby,
 role::program

Package: ruby-thin-doc
Source: ruby-thin

Package: alone
"""
GERMAN = """Package: thin
Description-md5: 8309d3e838caed8b87e6560e8951d182
Description-de: schneller Webserver
 Dieser Server ist schnell: er wurde aus drei Teilen gebaut,
 die es schon gab.
  * Mongrel: ein Parser, der
    sicher ist
  * Event Machine
 .
 Kleine Programme laufen damit gut.

Package: gone
Description-de: nicht mehr da
 Dieses Paket gibt es nicht mehr.
"""
JAPANESE = """Package: thin
Description-ja: Web サーバ
 課金システム用の単一の請求先を提供することを目指し
 ています。
"""


@pytest.fixture
def corpora(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("corpora")


def test_paragraphs_and_lists_of_a_description(corpora):
    first = next(corpora.stanzas(GERMAN))
    made = corpora.description(first, "de")
    assert made["title"] == "schneller Webserver"
    assert made["text"].split("\n\n") == [
        "Dieser Server ist schnell: er wurde aus drei Teilen gebaut, die es schon gab.",
        "Mongrel: ein Parser, der sicher ist",
        "Event Machine",
        "Kleine Programme laufen damit gut.",
    ]


def test_descriptions_of_packages_that_there_are(corpora, tmp_path, monkeypatch):
    lists = {"binary-amd64_Packages": PACKAGES, "i18n_Translation-de": GERMAN}

    def apt(scratch: Path, *command: str) -> None:
        (scratch / "lists").mkdir()
        for name, text in lists.items():
            (scratch / "lists" / f"host_debian_main_{name}").write_text(text)

    monkeypatch.setattr(corpora, "_apt", apt)
    monkeypatch.setattr(
        corpora, "LISTS", {name: sha256(text.encode()) for name, text in lists.items()}
    )
    scratch, folder = tmp_path / "scratch", tmp_path / "made"
    scratch.mkdir()
    folder.mkdir()
    assert corpora.descriptions("de", folder, scratch).endswith(
        "--title-column title --group source"
    )
    [row] = (folder / "descriptions-de.jsonl").read_text().splitlines()
    assert {**json.loads(row), "text": ""} == {
        "id": "thin",
        "title": "schneller Webserver",
        "text": "",
        "source": "ruby-thin",
    }


def test_a_glossary_gives_its_entries(corpora, tmp_path, monkeypatch):
    about = "00-database-info\n\n   Who wrote this.\n\n"
    entry = (
        "ALEC\nA Language\n\n   1. <language> A {language}\n   for an {ICL}.\n\n   (1995-04-19)\n\n"
    )
    index = f"00-database-info\tA\t{digits(len(about))}\n"
    index += "".join(
        f"{word}\t{digits(len(about))}\t{digits(len(entry))}\n" for word in ("a language", "alec")
    )

    def unpacked(package, folder: Path, scratch: Path) -> None:
        folder.mkdir()
        (folder / "foldoc.dict.dz").write_bytes(gzip.compress((about + entry).encode()))
        (folder / "foldoc.index").write_text(index)

    monkeypatch.setattr(corpora, "documents", unpacked)
    assert corpora.foldoc(tmp_path, tmp_path).endswith("--title-column title")
    [row] = (tmp_path / "foldoc.jsonl").read_text().splitlines()
    assert json.loads(row) == {"title": "ALEC", "text": "A language for an ICL."}


def test_an_entry_of_webster_is_cleaned(corpora):
    entry = (
        'Trawl \\Trawl\\, Trawle \\Trawl"e\\\n   (tr[add]l), v. t. [OF. trauler. See {Troll}.] (Naut.)\n'
        "   1. To fish at 40[deg] from C[ae]sarea. [Obs.]\n      [1913 Webster]\n\n"
        "         A net that drags.   --Sir W.\n                            Scott.\n   [1913 Webster] Traw\n"
    )
    assert corpora.only_of_1913(entry)
    assert corpora.defined(entry) == {
        "title": "Trawl",
        "text": "1. To fish at 40 degrees from Caesarea. [Obs.]\n\nA net that drags.",
    }


def digits(value: int) -> str:
    """Two digits in base 64, as dictd writes numbers."""
    signs = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    return signs[value // 64] + signs[value % 64]


def test_a_wheel_gives_its_python_files(corpora, tmp_path, monkeypatch):
    def pip(command: list[str], folder: Path) -> None:
        [into] = (Path(part[7:]) for part in command if part.startswith("--dest="))
        into.mkdir()
        with zipfile.ZipFile(into / "some-1.0.whl", "w") as wheel:
            wheel.writestr(zipfile.ZipInfo("some/__init__.py"), "raise RuntimeError")
            wheel.writestr(zipfile.ZipInfo("some/fast.so"), "binary")

    monkeypatch.setattr(corpora, "_run", pip)
    monkeypatch.setattr(corpora, "WHEELS", {"some==1.0": "00"})
    with pytest.raises(UserError, match=r"some-1.0.whl: has SHA-256 [0-9a-f]{64}. Expected 00"):
        corpora.docstrings(tmp_path / "made", tmp_path)
    found = sha256((tmp_path / "some==1.0" / "some-1.0.whl").read_bytes())
    (tmp_path / "again").mkdir()
    monkeypatch.setattr(corpora, "WHEELS", {"some==1.0": found})
    read = corpora.docstrings(tmp_path / "made", tmp_path / "again")
    assert read == f"docstrings:{tmp_path / 'made'}"
    files = [path for path in (tmp_path / "made").rglob("*") if path.is_file()]
    assert files == [tmp_path / "made" / "some" / "__init__.py"]


def test_everything_has_a_hash(corpora):
    pinned = [*corpora.WHEELS.values(), *corpora.LISTS.values()]
    packages = [*corpora.PACKAGES.values(), corpora.ANARCHISM, corpora.FOLDOC, corpora.GCIDE]
    pinned += [package.sha256 for package in packages]
    assert all(re.fullmatch("[0-9a-f]{64}", one) for one in pinned)
    assert {f"i18n_Translation-{name[7:]}" for name in corpora.CORPORA if "debian-" in name} == {
        name for name in corpora.LISTS if "Translation" in name
    }


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
