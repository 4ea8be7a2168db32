import gzip
import logging
import lzma
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from toy import write_rows

from isospace.corpus import records
from isospace.corpus.records import Column, unreadable
from isospace.corpus.sources import find_sources, read_bytes
from isospace.errors import UserError

TEXTS = ["One plain sentence.", "Commas, and more.", "Ünïcödé 猫 👩‍👩‍👧", "שלום עולם"]
TEXT = Column("text", "`column`")


def read(*files, columns=(TEXT,), encoding="utf-8"):
    sources = find_sources(map(str, files), Path(), encoding, "lines")
    unreadable(sources, columns)
    return [record for source in sources for record in records.read_records(source, columns)]


def load(*files, column="text", encoding="utf-8"):
    columns = (Column(column, "`column`"),)
    return [values[0] for _, values in read(*files, columns=columns, encoding=encoding)]


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_compressed_files_in_several_parts(tmp_path):
    content = "".join(f"{text}\n" for text in TEXTS).encode()
    half = len(content) // 2
    zst = zstandard.ZstdCompressor().compress
    for name, pack in (("gz", gzip.compress), ("zst", zst), ("xz", lzma.compress)):
        packed = pack(content[:half]) + pack(content[half:])
        assert load(put(tmp_path, f"A.TXT.{name.upper()}", packed)) == TEXTS


HUGE = "x" * 300_000
FILES = {
    "a.txt": (
        b"\xef\xbb\xbfone\r\n\ntwo\rthree\x0bfour\xe2\x80\xa8five",
        ["one", "", "two", "three\x0bfour\u2028five"],
    ),
    "a.csv": (
        f'\ufefftext,id\r\n"two\r\nlines",1\r\n\r\n"{HUGE}",2\r\nlast,3',
        ["two\r\nlines", "", HUGE, "last"],
    ),
    "semicolons.csv": ("id;text\n1;one, two\n", ["one, two"]),
    "a.tsv": ('text\n"Open quote\nAnother "one"\n', ['"Open quote', 'Another "one"']),
    "a.jsonl": ('{"text": null}\n\n{"text": "b"}', [None, "", "b"]),
}


@pytest.mark.parametrize("name", FILES)
def test_ends_of_lines_quotes_delimiters_and_missing_values(tmp_path, name):
    content, texts = FILES[name]
    assert load(put(tmp_path, name, content)) == texts


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_other_encodings(tmp_path, encoding):
    path = put(tmp_path, "a.txt", "déjà vu\nça va\n".encode(encoding))
    assert load(path, encoding=encoding) == ["déjà vu", "ça va"]


def test_a_dictionary_encoded_column_with_a_missing_value_is_read(tmp_path):
    table = pa.table({"text": pa.array([None, "b"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "a.parquet")
    assert load(tmp_path / "a.parquet") == [None, "b"]


def test_every_record_knows_its_line(tmp_path):
    csv_file = put(tmp_path, "a.csv", 'text\r\n"two\r\nlines"\r\n\r\nlast\r\n')
    assert [line for line, _ in read(csv_file)] == [2, 4, 5]
    jsonl = put(tmp_path, "a.jsonl", '{"text": "a"}\n\n{"text": "b"}')
    assert [line for line, _ in read(jsonl)] == [1, 2, 3]
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "a.parquet")
    assert [line for line, _ in read(tmp_path / "a.parquet")] == [1, 2]


SEVERAL = (Column("b", "`b`", text=False), TEXT, Column("no", "`c`", text=False, required=False))


def test_several_columns(tmp_path):
    """Values that are no texts are as the file has them."""
    jsonl = put(tmp_path, "a.jsonl", '{"text": "a", "b": [1]}\n\n{"b": 2.5, "text": null}\n')
    expected = [([1], "a", None), (None, "", None), (2.5, None, None)]
    assert [values for _, values in read(jsonl, columns=SEVERAL)] == expected
    table = pa.table({"text": ["a", None], "b": [1, None], "c": [True, False]})
    pq.write_table(table, tmp_path / "a.parquet")
    columns = (Column("b", "`b`", text=False), TEXT, Column("b", "`again`", text=False))
    values = [values for _, values in read(tmp_path / "a.parquet", columns=columns)]
    assert values == [(1, "a", 1), (None, None, None)]


def test_folder_in_order_with_a_warning_for_the_rest(tmp_path, caplog):
    (tmp_path / "b").mkdir()
    put(tmp_path / "b", "z.txt", "third")
    put(tmp_path, "a.jsonl", '{"text": "first"}')
    put(tmp_path, "c.txt", "fourth")
    put(tmp_path, "aa.csv", "text\nsecond\n")
    put(tmp_path, "picture.png", b"\x89PNG")
    with caplog.at_level(logging.WARNING):
        assert load(tmp_path) == ["first", "second", "third", "fourth"]
    assert "picture.png" in caplog.text
    assert "c.txt" not in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", r"a\.txt is empty"),
        ("a.png", b"text", r"a\.png: unknown file type\. Expected a document \(\.md"),
        ("a.txt", b"ok\nna\xefve\n", r"a\.txt:2: not utf-8 .* name its encoding with `encoding`"),
        ("a.txt.gz", b"not compressed", r"a\.txt\.gz cannot be read as \.gz"),
        ("a.txt.gz", gzip.compress(b"cut off" * 9, mtime=0)[:-9], r"cannot be read as \.gz"),
        ("a.txt.xz", lzma.compress(b"cut off")[:-9], r"a\.txt\.xz cannot be read as \.xz: Compr"),
        ("a.parquet", b"not a parquet file", r"a\.parquet cannot be read as parquet"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "b}\n', r"a\.jsonl:2: not valid JSON"),
        ("a.jsonl", b"[" * 100_000, r"a\.jsonl:1: not valid JSON"),
        ("a.jsonl", b"7\n", r"a\.jsonl:1: expected a JSON object, not '7'"),
        ("a.jsonl", b'["a"]\n', r'a\.jsonl:1: expected a JSON object .*"text"'),
        ("a.jsonl", b'{"b": 1}', r'l:1: no column "text"\. Columns: b\. Name one with `column`\.$'),
        ("a.jsonl", b'{"text": "a"}\n{"text": 7}\n', r'a\.jsonl:2: "text" is 7, expected a string'),
        ("a.csv", b"id,body\n1,a\n", r'a\.csv:1: no column "text"\. Columns: id, body\.'),
        ("a.csv", b"id,text\n1,a\n2\n", r"a\.csv:3: 1 field, the header has 2"),
        ("a.csv", b"id,text\n1,a, b\n", r"a\.csv:2: 3 fields, the header has 2 .*put quotes"),
        ("a.csv", b'text\nfine\n"never closed\nmore\n', r"a\.csv:3: not valid csv"),
    ],
)
def test_bad_files_are_refused_by_name_line_and_expectation(tmp_path, name, content, message):
    path = put(tmp_path, name, content)
    with pytest.raises(UserError, match=message):
        load(path)


def test_parquet_of_another_schema(tmp_path):
    write_rows(tmp_path / "a.parquet", [{"body": "a"}])
    with pytest.raises(UserError, match=r'a\.parquet: no column "text"\. Columns: body'):
        load(tmp_path / "a.parquet")


def test_pipes_are_not_read_and_it_is_said(tmp_path, caplog):
    put(tmp_path, "a.txt", "text")
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "nowhere.txt").symlink_to(tmp_path / "gone")
    found = find_sources([str(tmp_path)], tmp_path, "utf-8")
    assert [source.path.name for source in found] == ["a.txt", "nowhere.txt"]
    assert "pipe.txt" in caplog.text


def test_documents_of_a_folder(tmp_path):
    put(tmp_path, "a.md", "# A\n")
    put(tmp_path, "ls.1.gz", gzip.compress(b".TH LS 1\n"))
    put(tmp_path, "b.txt", "text\n")
    sources = find_sources([str(tmp_path)], tmp_path, "utf-8")
    found = [(each.path.name, each.format) for each in sources]
    assert found == [("a.md", "markdown"), ("b.txt", "txt"), ("ls.1.gz", "man")]
    assert read_bytes(sources[2]) == b".TH LS 1\n"
