"""What many tests start from: the toy and its corpus, a cache of their own, no network."""

import os
import shutil
import socket
from dataclasses import replace
from typing import Any

import pytest
from accelerate.state import AcceleratorState
from toy import sentences, short_run, write_documents, write_toy_model
from warm import LESS_OTHER_TEXT, end_all, measure_less_other_text

from isospace.config import CorpusConfig
from isospace.corpus.corpus import load_corpus
from isospace.encoders.loading import load_encoder
from isospace.evaluation import other_text
from isospace.objectives import SimCSE
from isospace.system.progress import warn_once
from isospace.training.run import Run
from isospace.training.train import train

pytest_plugins = ["comparisons", "encode_files", "search_index"]


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory):
    return write_toy_model(tmp_path_factory.mktemp("toy") / "bert")


@pytest.fixture
def encoder(toy_model):
    """The toy as an encoder that a test may change."""
    return load_encoder(str(toy_model), device="cpu")


@pytest.fixture(scope="session")
def toy_corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text("\n".join(sentences(400)) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session", autouse=True)
def _own_surroundings(tmp_path_factory):
    """Tests neither read nor fill the user's cache, wait for no disk and measure less other text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ISOSPACE_CACHE", str(tmp_path_factory.getbasetemp() / "isospace-cache"))
        patch.delenv("ISOSPACE_DATA", raising=False)
        patch.setattr(os, "fsync", lambda _: None)  # only a loss of power would show a difference
        patch.setattr(other_text, "carried", other_text.carried)
        measure_less_other_text()
        patch.setenv(LESS_OTHER_TEXT, "1")
        yield


@pytest.fixture(autouse=True)
def _warned_anew():
    """Every test sees the warnings that a process shows only once."""
    warn_once.cache_clear()


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    """Nothing here asks for the network, also where the answer would be an error that is caught."""
    asked: list[Any] = []
    connect, resolve = socket.socket.connect, socket.getaddrinfo

    def refuse(host):
        if host not in ("localhost", "127.0.0.1", "::1"):
            asked.append(host)
            raise ConnectionRefusedError(f"tests have no network: {host}")

    def only_here(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            refuse(address[0])
        connect(self, address)

    def known_here(host, *rest, **named):
        refuse(host)
        return resolve(host, *rest, **named)

    monkeypatch.setattr(socket.socket, "connect", only_here)
    monkeypatch.setattr(socket, "getaddrinfo", known_here)
    yield
    assert asked == []


@pytest.fixture(autouse=True)
def _own_process_state():
    """Accelerate keeps one state per process; tests, and what they share, begin as new ones would."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture(autouse=True)
def _no_process_is_left():
    """Where a test fails, what it started ends too."""
    yield
    end_all()


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium that keeps its console and its requests in logs."""
    reason = "selenium is not installed (the extra dev brings it)"
    webdriver = pytest.importorskip("selenium.webdriver", reason=reason)
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no chromium and chromedriver (Debian: apt install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def small_split():
    """Halve the number of pairs that is enough for a split into validation and test pairs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("isospace.corpus.groups.SMALLEST_SPLIT", 200)
        yield


@pytest.fixture
def config(toy_model, toy_corpus, tmp_path):
    """A run of 20 updates on the toy."""
    return short_run(toy_model, toy_corpus, tmp_path / "run")


@pytest.fixture(scope="session")
def on_documents(toy_model, tmp_path_factory):
    """A run on the pairs of documents, without a folder."""
    docs = write_documents(tmp_path_factory.mktemp("documents") / "docs")
    text = CorpusConfig(corpus=(str(docs),), test_relation="title-passage")
    config = short_run(toy_model, docs, docs)
    return replace(config, text=text, objective=SimCSE(), views="pairs", output=None)


@pytest.fixture(scope="session")
def of_documents(on_documents, tmp_path_factory):
    return load_corpus(on_documents.text, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def finished_run(toy_model, toy_corpus, tmp_path_factory):
    """The run of `config`, finished: for tests that only read it."""
    return train(short_run(toy_model, toy_corpus, tmp_path_factory.mktemp("finished") / "run")).run


@pytest.fixture
def finished_copy(finished_run, tmp_path):
    """The same in a folder of its own: for tests that change it."""
    return Run(shutil.copytree(finished_run.folder, tmp_path / "finished"))
