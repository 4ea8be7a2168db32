"""Text that is no file here: URLs, compressed streams, what a generator gives."""

from __future__ import annotations

import io
import lzma
import sys
import tracemalloc
from dataclasses import replace

import fsspec
import pytest

from isospace.corpus import records
from isospace.corpus.records import keep_texts
from isospace.corpus.sources import find_sources
from isospace.errors import Interrupted, UserError
from isospace.training.fit import Fit
from isospace.training.train import train

MEGABYTE = 1 << 20


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


def test_an_interrupted_run_goes_on_at_the_right_text(
    store, config, toy_corpus, finished_run, monkeypatch
):
    """As one of a file does, and the store is asked again."""
    store.pipe("/texts.txt", toy_corpus.read_bytes())
    output = config.output.with_name("stopped")
    text = replace(config.text, corpus=("memory://texts.txt",))
    with monkeypatch.context() as patch:
        evaluations = iter(range(2))
        measure = Fit._evaluate

        def stop_at_the_second(self):
            if next(evaluations) == 1:
                raise KeyboardInterrupt
            measure(self)

        patch.setattr(Fit, "_evaluate", stop_at_the_second)
        with pytest.raises(Interrupted):
            train(replace(config, text=text, output=output))
    original = store.cat("/texts.txt")
    store.pipe("/texts.txt", original + b"One more sentence that was not there before.\n")
    with pytest.raises(UserError, match="`corpus` has changed"):
        train(resume=output)
    store.pipe("/texts.txt", original)
    assert train(resume=output).results.adapted == finished_run.results.adapted


def test_a_generator_is_kept_once(tmp_path):
    path = keep_texts((f"Line {n},\nsecond line." for n in range(3)), tmp_path / "a" / "t.jsonl")
    assert [value for _, value in read(path, spool=tmp_path)] == [
        f"Line {n},\nsecond line." for n in range(3)
    ]
    again = (pytest.fail("asked again") for _ in range(1))
    assert keep_texts(again, path) == path


def test_a_generator_that_fails_leaves_nothing(tmp_path):
    def texts():
        yield "one"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        keep_texts(texts(), tmp_path / "t.jsonl")
    with pytest.raises(UserError, match="text 2 is a int, expected a string"):
        keep_texts(["one", 2], tmp_path / "t.jsonl")
    with pytest.raises(UserError, match=r"t\.txt: the name must end in \.jsonl"):
        keep_texts(["one"], tmp_path / "t.txt")
    assert not list(tmp_path.iterdir())


def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch):
    """32 MB by a generator, a URL and a pipe, of which 4 are in memory at most."""
    text = "x" * 1000
    tracemalloc.start()
    try:
        path = keep_texts((text for _ in range(32 * MEGABYTE // 1000)), tmp_path / "t.jsonl")
        spool = tmp_path / "spool"
        spool.mkdir()
        with path.open("rb") as pipe:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
            found = find_sources([f"file://{path}", "-"], spool, "utf-8")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [source.path.stat().st_size for source in found] == [path.stat().st_size] * 2
    assert path.stat().st_size > 32 * MEGABYTE
    assert peak < 4 * MEGABYTE
