"""Targets of the fuzzer: every reader of users' files, with small valid files to begin with.

A reader succeeds or raises `UserError`; any other error is a finding. The content for a target of a
folder is a byte that selects one of its files, and the new content of that file.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import pyarrow as pa
import pyarrow.parquet as pq
from toy import sentences

from isospace.config import AdaptConfig, CorpusConfig, TrainConfig, read_settings
from isospace.errors import UserError
from isospace.system import typed_json


@dataclass(frozen=True)
class Target:
    """A reader.

    Attributes:
        seeds: function that returns valid contents, made in an empty folder.
        read: function that reads a content; it may write to the folder.
    """

    seeds: Callable[[Path], list[bytes]]
    read: Callable[[bytes, Path], object]


def run(target: Target, content: bytes, folder: Path) -> bool:
    """Read a content; return true if it was accepted.

    Raises:
        Exception: a finding, that is any error except a UserError with a message.
    """
    try:
        target.read(content, folder)
    except UserError as error:
        assert str(error).strip()
        return False
    return True


# Rows of users' files.

_LINES = sentences(6)
_ROWS = [
    {"text": a, "title": b, "group": str(i % 3)}
    for i, (a, b) in enumerate(zip(*[iter(_LINES)] * 2, strict=True))
]


def _jsonl(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _csv(sign: str) -> bytes:
    lines = [sign.join(row) for row in [_ROWS[0], *(row.values() for row in _ROWS)]]
    return ("\n".join(lines) + "\n").encode()


def _parquet() -> bytes:
    file = io.BytesIO()
    columns = {name: [row[name] for row in _ROWS] for name in _ROWS[0]} | {"n": [1, 2, 3]}
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def _read_rows(ending: str, content: bytes, folder: Path) -> None:
    """Read as a corpus, row by row, as queries, and as pairs to evaluate on."""
    from isospace.corpus import reading
    from isospace.corpus.records import read_rows, unreadable
    from isospace.corpus.sources import file_source, find_sources
    from isospace.evaluation.own_data import load_own, load_pairs, load_scored_pairs
    from isospace.training.examples import rows_of_queries

    path = folder / f"file{ending}"
    path.write_bytes(content)
    for encoding in ("utf-8", "utf-16", "latin-1"):
        config = CorpusConfig((str(path),), title_column="title", group="group", encoding=encoding)
        with _refusals():
            sources = find_sources(config.corpus, folder, encoding)
            unreadable(sources, reading.columns(config))
            list(reading.read_documents(sources, config, {}, {}))
    for read in (rows_of_queries, load_own, load_pairs, load_scored_pairs):
        with _refusals():
            read(path)
    with _refusals():
        load_pairs(path, "group")
    list(read_rows(file_source(path)))


@contextmanager
def _refusals() -> Iterator[None]:
    """Accept a UserError, so that the next reader gets the content too."""
    try:
        yield
    except UserError as error:
        assert str(error).strip()


_SCORED = _jsonl([{"sentence1": a, "sentence2": a, "score": 1.5} for a in _LINES])
_PAIRS = _jsonl([[a, a] for a in _LINES])


def _compressed(folder: Path) -> list[bytes]:
    zstd = pa.BufferOutputStream()
    with pa.CompressedOutputStream(zstd, "zstd") as out:
        out.write(_csv("\t"))
    # The first byte selects the compression.
    return [b"\0" + gzip.compress(_csv("\t")), b"\1" + zstd.getvalue().to_pybytes()]


def _read_compressed(content: bytes, folder: Path) -> None:
    _read_rows((".tsv.gz", ".tsv.zst")[content[:1] == b"\1"], content[1:], folder)


def _make_corpus(folder: Path) -> list[bytes]:
    return [_jsonl(_ROWS * 4), _jsonl([{"text": line} for line in sentences(40)])]


def _read_corpus(content: bytes, folder: Path) -> None:
    """Read and clean as `isospace corpus` does."""
    from isospace.corpus.corpus import load_corpus

    path = folder / "corpus.jsonl"
    path.write_bytes(content)
    try:
        load_corpus(CorpusConfig((str(path),)), folder / "cache").sample()
    finally:
        shutil.rmtree(folder / "cache", ignore_errors=True)


# Documents.

_MARKDOWN = f"# {_LINES[0]}\n\n{_LINES[1]}. {_LINES[2]}.\n\n## {_LINES[3]}\n\n- {_LINES[4]}\n\n```\ncode\n```\n[a](b.md)\n"
_HTML = f"<html><head><title>{_LINES[0]}</title></head><body><nav>x</nav><h1>{_LINES[0]}</h1><p>{_LINES[1]}.</p><ul><li>{_LINES[2]}</li></ul><pre>x</pre></body></html>"
_RST = f"Title\n=====\n\n{_LINES[1]}.\n\nPart\n----\n\n* {_LINES[2]}\n\n.. note:: {_LINES[3]}\n\n.. code:: python\n\n   x = 1\n\n`a <b.rst>`_\n"
_MAN = f".TH X 1\n.SH NAME\nx \\- {_LINES[0]}\n.SH PARTS\n{_LINES[1]}.\n.TP\n.B \\-a\n{_LINES[2]}.\n.nf\ncode\n.fi\n"
_MDOC = f".Dd today\n.Dt X 1\n.Sh NAME\n.Nm x\n.Nd {_LINES[0]}\n.Sh PARTS\n.Bl -tag\n.It Fl a\n{_LINES[1]}.\n.El\n"
_TEXT = f"{_LINES[0]}\n\n{_LINES[1]}.\n{_LINES[2]}.\n\n{_LINES[3]}.\n"


def _pdf() -> bytes:
    from fpdf import FPDF

    pdf = FPDF()
    pdf.set_title("The harbour")
    pdf.add_page()
    pdf.set_font("Times", "B", 18)
    pdf.cell(0, 12, "Boats", new_x="LMARGIN", new_y="NEXT")
    pdf.set_font("Times", "", 11)
    pdf.multi_cell(0, 5, " ".join(_LINES))
    return bytes(pdf.output())


def _word() -> bytes:
    import docx

    document = docx.Document()
    document.add_heading(_LINES[0], 1)
    document.add_paragraph(_LINES[1])
    document.add_table(1, 1)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _document(format: Any, *seeds: str | Callable[[], bytes]) -> Target:
    def read(content: bytes, folder: Path) -> None:
        from isospace.corpus.formats import UnreadableDocument, read_document
        from isospace.corpus.passages import document_sentences, passages

        try:
            document = read_document(content, format)
        except UnreadableDocument as error:
            # The parsers of PDF, Word and rst may fail anywhere, our own readers may not.
            cause = error.__cause__
            if cause and format not in ("pdf", "word", "rst") and type(cause) is not RecursionError:
                raise cause from None
            raise
        for section in document.sections:
            list(passages(section.paragraphs, 40, document_sentences))

    def contents(folder: Path) -> list[bytes]:
        return [seed.encode() if isinstance(seed, str) else seed() for seed in seeds]

    return Target(contents, read)


def _read_docstrings(content: bytes, folder: Path) -> None:
    from isospace.corpus.docstrings import extract

    extract(content, "package/module.py")


# Folders, one file of which is damaged.


def _folder(make: Callable[[Path], Any], read: Callable[[Path], object], *names: str) -> Target:
    """Return the target of a folder that `make` writes and `read` reads.

    `names` are the files to damage; default: all.
    """
    intact: dict[Path, bytes] = {}

    def seeds(folder: Path) -> list[bytes]:
        intact.clear()
        place = folder / "whole"
        make(place)
        found = (path for path in sorted(place.rglob("*")) if path.is_file())
        for path in [place / name for name in names] or list(found):
            intact[path] = path.read_bytes()
        return [bytes([i]) + content for i, content in enumerate(intact.values())]

    def damaged(content: bytes, folder: Path) -> None:
        if not intact:
            seeds(folder)
        path = list(intact)[(content[0] if content else 0) % len(intact)]
        path.write_bytes(content[1:])
        try:
            read(next(parent for parent in path.parents if parent.name == "whole"))
        finally:
            path.write_bytes(intact[path])

    return Target(seeds, damaged)


def _read_config(content: bytes, folder: Path) -> None:
    path = folder / "adapt.json"
    path.write_bytes(content)
    with _refusals():
        read_settings(path, AdaptConfig)
    read_settings(path, TrainConfig)


def _configs(folder: Path) -> list[bytes]:
    from isospace.objectives import OBJECTIVES

    configs = [TrainConfig(objective=kind()) for kind in list(OBJECTIVES.values())[:4]]
    return [
        *(typed_json.to_json(config).encode() for config in configs),
        typed_json.to_json(AdaptConfig()).encode(),
    ]


def _read_vectors(content: bytes, folder: Path) -> None:
    """Read word vectors; the first byte selects the compression."""
    from isospace.encoders.words import read_vectors

    endings = (".txt", ".gz", ".zst", ".zip")
    path = folder / f"words{endings[(content[0] if content else 0) % len(endings)]}"
    path.write_bytes(content[1:])
    read_vectors(path)


def _vectors(folder: Path) -> list[bytes]:
    text = b"cat 0.5 -1 2\nthe dog 1e3 2 3\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("words.txt", text)
    zstd = pa.BufferOutputStream()
    with pa.CompressedOutputStream(zstd, "zstd") as out:
        out.write(text)
    contents = (b"2 3\n" + text, gzip.compress(text), zstd.getvalue().to_pybytes())
    return [bytes([i]) + each for i, each in enumerate((*contents, packed.getvalue()))]


def _make_judged(folder: Path) -> None:
    folder.mkdir()
    rows = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(_LINES)]
    (folder / "corpus.jsonl").write_bytes(_jsonl(rows))
    queries = [{"_id": "q1", "text": "what purrs"}, {"_id": "q2", "text": "what barks"}]
    (folder / "queries.jsonl").write_bytes(_jsonl(queries))
    (folder / "qrels").mkdir()
    (folder / "qrels/test.tsv").write_text("q1\td1\t2\nq2\td2\t1\n")


def _read_judged(folder: Path) -> None:
    from isospace.evaluation.judged import load_judged

    load_judged(folder)


_SENTEVAL = (
    "STS/STS12-en-test/STS.input.MSRpar.txt",
    "STS/STS12-en-test/STS.gs.MSRpar.txt",
    "STS/STSBenchmark/sts-dev.csv",
    "SICK/SICK_train.txt",
    "MR/rt-polarity.neg",
    "SST/binary/sentiment-dev",
    "TREC/TREC_10.label",
    "MRPC/msr_paraphrase_test.txt",
)


def _make_senteval(folder: Path) -> None:
    from sts_files import write, write_senteval

    write_senteval(folder)
    for name in ("MR/rt-polarity.neg", "MR/rt-polarity.pos"):
        write(folder / name, "".join(f"{line}\n" for line in sentences(24)))
    for split in ("train", "dev", "test"):
        write(folder / f"SST/binary/sentiment-{split}", "a cat\t1\na dog\t0\n" * 20)
    for name in ("train_5500", "TREC_10"):
        kinds = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
        write(folder / f"TREC/{name}.label", "".join(f"{kind}:x what ?\n" * 20 for kind in kinds))
    for split in ("train", "test"):
        rows = "".join(f"{i % 2}\t1\t2\ta cat {i}\ta dog\n" for i in range(40))
        write(folder / f"MRPC/msr_paraphrase_{split}.txt", f"Quality\ta\tb\tc\td\n{rows}")


def _read_senteval(folder: Path) -> None:
    from isospace.evaluation.senteval import read_labelled
    from isospace.evaluation.sts import load_sts

    with _refusals():
        load_sts(folder)
    for name in ("MR", "SST2", "TREC", "MRPC"):
        with _refusals():
            read_labelled(folder, name)


def _rows(ending: str, *seeds: bytes) -> Target:
    return Target(lambda folder: list(seeds), partial(_read_rows, ending))


TARGETS: dict[str, Target] = {
    "txt": _rows(".txt", "\n".join(_LINES).encode(), _TEXT.encode(), "é\n".encode("utf-16")),
    "jsonl": _rows(".jsonl", _jsonl(_ROWS), _SCORED, _PAIRS),
    "csv": _rows(".csv", _csv(","), b'"a ""b""",c\n'),
    "tsv": _rows(".tsv", _csv("\t")),
    "parquet": _rows(".parquet", _parquet()),
    "compressed": Target(_compressed, _read_compressed),
    "corpus": Target(_make_corpus, _read_corpus),
    "markdown": _document("markdown", _MARKDOWN),
    "html": _document("html", _HTML),
    "rst": _document("rst", _RST),
    "man": _document("man", _MAN, _MDOC),
    "text": _document("text", _TEXT),
    "pdf": _document("pdf", _pdf),
    "word": _document("word", _word),
    "docstrings": Target(
        lambda _: [f'def f():\n    """{_LINES[0]}."""\n'.encode()], _read_docstrings
    ),
    "config": Target(_configs, _read_config),
    "words": Target(_vectors, _read_vectors),
    "judged": _folder(
        _make_judged, _read_judged, "corpus.jsonl", "queries.jsonl", "qrels/test.tsv"
    ),
    "senteval": _folder(_make_senteval, _read_senteval, *_SENTEVAL),
}
"""Name for `make fuzz TARGET=...` -> target."""
