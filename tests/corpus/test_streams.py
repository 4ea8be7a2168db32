"""Text that is no file here: URLs and compressed streams."""

from __future__ import annotations

import lzma

import fsspec
import pytest

from isospace.corpus import records
from isospace.corpus.sources import find_sources
from isospace.errors import UserError


@pytest.fixture
def store():
    """An object store."""
    store = fsspec.filesystem("memory")
    yield store
    store.store.clear()


def read(*names, spool, documents=False):
    """(name of the source, its first value) for each row."""
    sources = find_sources(map(str, names), spool, "utf-8", documents=documents)
    column = records.Column("text", "`column`")
    return [(s.name, row[0]) for s in sources for _, row in records.read_records(s, [column])]


def test_a_url_is_read_as_the_file_that_it_names(store, tmp_path):
    store.pipe({"/a/texts.jsonl.xz": lzma.compress(b'{"text": "one"}\n'), "/b/texts.txt": b"two\n"})
    urls = ["memory://a/texts.jsonl.xz", "memory://b/texts.txt"]
    found = read(*urls, spool=tmp_path)
    assert found == [(urls[0], "one"), (urls[1], "two")]


def test_a_url_of_a_folder_gives_the_files_in_it(store, tmp_path):
    store.pipe({"/a/sub/c.txt": b"three\n", "/a/b.txt": b"two\n", "/a/d.png": b"\x89PNG"})
    found = read("memory://a/", spool=tmp_path)
    assert found == [("memory://a/b.txt", "two"), ("memory://a/sub/c.txt", "three")]
    assert not list(tmp_path.rglob("*.png"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://no.txt", r"^memory://no\.txt cannot be read: "),
        ("memory://a/x.png", r"x\.png: unknown file type\. Expected \.txt"),
        ("memory://p", r"^memory://p: no file that isospace reads\. Expected \.txt"),
        ("nowhere://a.txt", r"^nowhere://a\.txt cannot be read: Protocol not known: nowhere"),
    ],
)
def test_what_cannot_be_read_is_named(store, tmp_path, url, message):
    store.pipe({"/a/x.png": b"\x89PNG", "/p/x.png": b"\x89PNG"})
    with pytest.raises(UserError, match=message):
        read(url, spool=tmp_path)
