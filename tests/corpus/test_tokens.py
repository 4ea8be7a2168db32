from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from isospace.corpus.tokens import Tokens, tokenise
from isospace.system.cache import built_once, remove_stale


def encode(texts: list[str]) -> list[list[int]]:
    return [[1, *(70_000 + len(word) for word in text.split()), 2] for text in texts]


def make(folder: Path, texts: list[str], fingerprint: str = "f", **options: object) -> Tokens:
    digest = str(hash(tuple(texts)))
    return tokenise(texts, digest, options.pop("encode", encode), fingerprint, folder, **options)


def test_ids_of_every_sentence(tmp_path):
    texts = ["a bb ccc", "", *(f"{'x ' * (i % 7)}y" for i in range(9000))]
    done: list[int] = []
    tokens = make(tmp_path, texts, progress=done.append)
    expected = encode(texts)
    assert len(tokens) == len(texts) == sum(done)
    assert len(done) > 1
    assert tokens.lengths.tolist() == [len(ids) for ids in expected]
    assert tokens.ids.tolist() == [i for ids in expected for i in ids]
    rows = np.array([9001, 0, 1, 0])
    assert [ids.tolist() for ids in tokens.batch(rows)] == [expected[row] for row in rows]


def test_made_once_for_a_corpus_and_a_tokenizer(tmp_path):
    calls: list[int] = []

    def counting(texts: list[str]) -> list[list[int]]:
        calls.append(len(texts))
        return encode(texts)

    for _ in range(2):
        tokens = make(tmp_path, ["a b", "c"], encode=counting)
        assert tokens.ids.tolist() == [1, 70_001, 70_001, 2, 1, 70_001, 2]
    assert calls == [2]
    make(tmp_path, ["a b", "c"], "another tokenizer", encode=counting)
    make(tmp_path, ["a b", "d"], encode=counting)
    assert calls == [2, 2, 2]


def test_sentences_without_any_token(tmp_path):
    tokens = make(tmp_path, ["a", "b"], encode=lambda texts: [[] for _ in texts])
    assert tokens.lengths.tolist() == [0, 0]
    assert [ids.tolist() for ids in tokens.batch(np.array([1]))] == [[]]


def test_an_encoder_that_loses_a_sentence_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="1 results for 2 texts"):
        make(tmp_path, ["a", "b"], encode=lambda texts: encode(texts[1:]))
    assert list((tmp_path / "tokens").iterdir()) == []
    assert len(make(tmp_path, ["a", "b"])) == 2


def test_a_killed_build_is_not_used(tmp_path):
    script = (
        "import os, sys; from pathlib import Path; from isospace.corpus.tokens import built_once\n"
        "def build(folder):\n"
        "    (folder / 'part').write_text('half'); os._exit(1)\n"
        "built_once(Path(sys.argv[1], 'result'), build)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode == 1
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".building-")

    result = built_once(tmp_path / "result", lambda folder: write(folder, "whole"))
    assert (result / "part").read_text() == "whole"
    assert left.exists()  # another process may be at work in it
    week_old = time.time() - 8 * 24 * 3600
    os.utime(left, (week_old, week_old))
    built_once(tmp_path / "other", lambda folder: write(folder, "whole"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "result"]


def test_what_is_stale_is_named_by_a_pattern_and_a_week_old(tmp_path):
    week_old = time.time() - 8 * 24 * 3600
    for name in (".input-old", ".input-new", "result"):
        (tmp_path / name).mkdir()
        if name != ".input-new":
            os.utime(tmp_path / name, (week_old, week_old))
    remove_stale(tmp_path, ".input-*")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".input-new", "result"]


def write(folder: Path, text: str) -> None:
    (folder / "part").write_text(text)


def test_two_builders_of_the_same_result(tmp_path):
    together = threading.Barrier(4)

    def build(folder: Path) -> None:
        together.wait()  # all have found no result, and all build
        write(folder, "whole")

    threads = [
        threading.Thread(target=lambda: seen.append(built_once(tmp_path / "result", build)))
        for _ in range(4)
    ]
    seen: list[Path] = []
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [tmp_path / "result"] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["result"]
    assert (tmp_path / "result" / "part").read_text() == "whole"
