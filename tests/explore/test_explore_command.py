"""The command `explore`: what it refuses, what it reads, and that it serves until Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

from isospace.cli import main

pytest.importorskip("starlette", reason="starlette is not installed (the extra explore brings it)")

from isospace.explore.app import HOST, listen


def run(capsys, *words):
    status = main(["explore", *map(str, words)])
    return status, " ".join(capsys.readouterr().err.split())


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
            status, err = run(capsys, *words)
            assert (status, message in err) == (2, True), err
    monkeypatch.setattr("isospace.system.imports.find_spec", lambda _: None)
    status, err = run(capsys, toy_model, "--corpus", toy_corpus)
    assert (status, "pip install 'isospace[explore]'" in err) == (2, True)


def test_it_is_served_until_it_is_interrupted(capsys, toy_model, toy_corpus):
    # A shell that starts the tests in the background has them ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with listen(0) as free:
        port = free.getsockname()[1]
    pages, served = [], threading.Event()
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def visit():
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline and not pages:
                try:
                    with direct.open(f"http://{HOST}:{port}/?q=cat") as answer:
                        pages.append(answer.read().decode())
                except urllib.error.HTTPError:
                    raise
                except urllib.error.URLError:
                    time.sleep(0.05)
        finally:
            if not served.is_set():  # else it would be for the tests
                os.kill(os.getpid(), signal.SIGINT)

    visitor = threading.Thread(target=visit, daemon=True)
    visitor.start()
    words = ["explore", toy_model, "--corpus", toy_corpus, "--port", port, "--json"]
    status = main([*map(str, words)])
    served.set()
    visitor.join()
    signal.signal(signal.SIGINT, before)
    out, err = capsys.readouterr()
    assert status == 0
    assert (json.loads(out), err) == ({"url": f"http://{HOST}:{port}/"}, "")
    assert "400 distinct texts of text.txt" in pages[0]
