"""A polite stop of `encode` and `index`: what is kept is said, and no copy stays."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from isospace.cli import main
from isospace.encoders.encoder import Encoder


@pytest.mark.exhaustive
def test_a_polite_kill_is_answered_and_the_copy_of_the_input_goes(toy_model, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    given = ["index", "-", "--model", str(toy_model), "--to", str(tmp_path / "out")]
    words, pipe = [sys.executable, "-m", "isospace", *given], subprocess.PIPE
    env = {**os.environ, "TMPDIR": str(temporary)}
    process = subprocess.Popen(words, stdin=pipe, stderr=pipe, text=True, env=env)
    process.stdin.write("a sentence that waits for more\n")
    process.stdin.flush()
    until = time.monotonic() + 60
    while not list(temporary.glob("isospace-*")) and time.monotonic() < until:
        time.sleep(0.05)
    assert list(temporary.glob("isospace-*"))
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the same command resumes" in errors
    assert not list(temporary.glob("isospace-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_encode_resumes_its_shards(toy_model, text_file, tmp_path, monkeypatch, capsys, number):
    monkeypatch.setattr("isospace.vectors.encode.SHARD_ROWS", 128)
    output, embed = tmp_path / "out", Encoder.embed
    words = ["encode", str(toy_model), str(text_file), "-o", str(output)]

    def stopped(*arguments, **options):
        if (output / "part-00001.parquet").exists():
            signal.raise_signal(number)
        return embed(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "embed", stopped)
        assert main(words) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"isospace: interrupted; {output} is kept; the same command resumes"
    assert main([*words, "--json"]) == 0
    encoded = json.loads(capsys.readouterr().out)
    assert (encoded["before"], encoded["done"]) == (256, 344)
