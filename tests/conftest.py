"""A 3-layer BERT built in code, and small corpora: no network, no downloads."""

from __future__ import annotations

import random
import shutil
import socket
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from isospace.config import CorpusConfig, TrainConfig
from isospace.objectives import WhitenedCSE

pytest_plugins = ["comparisons", "encode_files", "search_index"]

WORDS = [
    "the", "cat", "dog", "sat", "on", "mat", "big", "red", "house", "runs", "fast", "tensor", "returns",
    "array", "value", "shape", "of", "a", "an", "in", "each", "over", "under", "small", "blue", "green",
    "tree", "river", "city", "light", "night", "day", "morning", "walks", "reads", "writes", "opens", "file",
    "model", "learns", "words", "without", "labels", "from", "text", "many", "few", "old", "new", "good",
]  # fmt: skip


def _tokenizer() -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = [
        prefix + c for c in string.ascii_lowercase + string.digits for prefix in ("", "##")
    ]
    vocab = {
        token: i for i, token in enumerate([*special, *WORDS, *(set(characters) - set(WORDS))])
    }
    vocab = {token: i for i, token in enumerate(sorted(vocab, key=lambda t: (t not in special, t)))}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
        model_max_length=64,
    )  # fmt: skip


def write_toy_model(folder: Path) -> Path:
    """A Hugging Face BERT with 3 layers of 32 dimensions and random weights."""
    tokenizer = _tokenizer()
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the toy."""
    return write_toy_model(tmp_path_factory.mktemp("toy") / "bert")


def sentences(count: int, seed: int = 0) -> list[str]:
    """Distinct random sentences of known words."""
    source = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        made[" ".join(source.choices(WORDS, k=source.randint(8, 14)))] = None
    return list(made)


@pytest.fixture(scope="session")
def toy_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text file of 400 sentences."""
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text("\n".join(sentences(400)) + "\n", encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests neither read nor fill the user's cache, nor the user's data."""
    monkeypatch.setenv("ISOSPACE_CACHE", str(tmp_path_factory.getbasetemp() / "isospace-cache"))
    monkeypatch.delenv("ISOSPACE_DATA", raising=False)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing here asks for the network, also where the answer would be an error that is caught."""
    asked: list[Any] = []
    connect, resolve = socket.socket.connect, socket.getaddrinfo

    def refuse(host: Any) -> None:
        if host not in ("localhost", "127.0.0.1", "::1"):
            asked.append(host)
            raise ConnectionRefusedError(f"tests have no network: {host}")

    def only_here(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            refuse(address[0])
        connect(self, address)

    def known_here(host: Any, *rest: Any, **named: Any) -> Any:
        refuse(host)
        return resolve(host, *rest, **named)

    monkeypatch.setattr(socket.socket, "connect", only_here)
    monkeypatch.setattr(socket, "getaddrinfo", known_here)
    yield
    assert asked == []


@pytest.fixture(autouse=True)
def _own_process_state() -> None:
    """Accelerate keeps one state per process; each test begins as a new process would."""
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
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


@pytest.fixture
def config(toy_model: Path, toy_corpus: Path, tmp_path: Path) -> TrainConfig:
    """A run of 20 updates on the toy."""
    return TrainConfig(
        text=CorpusConfig(corpus=(str(toy_corpus),), near_duplicates=False),
        objective=WhitenedCSE(),
        model=str(toy_model),
        batch_size=16,
        budget=(320, "sentences"),
        learning_rate=1e-3,
        looks=2,
        output=tmp_path / "run",
        select="last",
    )
