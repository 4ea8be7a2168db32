"""The command `explore`: what it refuses, what it reads, and that it serves until Ctrl-C."""

import json
import signal
import socket
import time
import urllib.error
import urllib.request

import pytest
from command_line import run
from warm import isospace

pytest.importorskip("starlette", reason="starlette is not installed (the extra explore brings it)")

from isospace.explore.app import HOST, listen


def test_bad_words_are_refused(capsys, monkeypatch, toy_model, toy_corpus):
    on_free_port = [toy_model, "--corpus", toy_corpus, "--port", "0"]
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        for words, message in (
            ([toy_model], "give a corpus (--corpus FILE, or --corpus docstrings)"),
            (["a", "b", "c", "--corpus", "no.txt"], "models a, b, c: expected one, or two"),
            (["no/such/model", *on_free_port[1:]], "no/such/model: not a folder"),
            ([*on_free_port, "--corpus", "no.txt"], "no.txt"),
            ([*on_free_port, "--port", port], f"--port {port}: {HOST}:{port} cannot be used"),
            ([*on_free_port, "--port", "70000"], "--port 70000: expected 1 to 65535"),
        ):
            status, _, err = run(capsys, "explore", *words)
            assert (status, message in " ".join(err.split())) == (2, True), err
    monkeypatch.setattr("isospace.system.imports.find_spec", lambda _: None)
    status, _, err = run(capsys, "explore", toy_model, "--corpus", toy_corpus)
    assert (status, "pip install 'isospace[explore]'" in err) == (2, True)


def test_it_is_served_until_it_is_interrupted(toy_model, toy_corpus):
    with listen(0) as free:
        port = free.getsockname()[1]
    address = f"http://{HOST}:{port}/"
    process = isospace("explore", toy_model, "--corpus", toy_corpus, "--port", port, "--json")
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    page, deadline = "", time.monotonic() + 60
    while not page and time.monotonic() < deadline:
        try:
            page = direct.open(f"{address}?q=cat").read().decode()
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError:
            time.sleep(0.05)
    process.send(signal.SIGINT)
    assert process.wait(60) == 0, process.err
    assert json.loads(process.out) == {"url": address}
    [assumed] = process.err.splitlines()
    assert assumed.startswith(f"WARNING {toy_model}: a plain Hugging Face model")
    assert "400 distinct texts of text.txt" in page
