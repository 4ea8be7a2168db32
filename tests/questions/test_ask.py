"""Queries by a language model, which a fake endpoint plays: requests, filters, kill and resume."""

import json
import re
import signal
import string
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from serving import chatting, said
from warm import isospace

from isospace.cli import main
from isospace.config import AskConfig, CorpusConfig
from isospace.corpus.corpus import load_corpus
from isospace.errors import UserError
from isospace.questions.answers import Archive
from isospace.questions.ask import PARALLEL, AskResults, ask, spread
from isospace.system import typed_json
from isospace.system.endpoints import Answer
from isospace.system.files import cache_folder
from isospace.system.progress import Silent
from isospace.training.examples import rows_of_queries


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sixty documents of a title and two sections, each passage with words of its own."""
    place = tmp_path_factory.mktemp("documents")
    for number in range(60):
        name = "".join(string.ascii_lowercase[place] for place in divmod(number, 26))
        parts = [f"# Note {name}"]
        for part in "yz":
            words = " ".join(f"{part}{name}{letter}" for letter in string.ascii_lowercase)
            parts += [f"## Part {part} of {name}", words + "."]
        (place / f"{number}.md").write_text("\n\n".join(parts))
    return place


@pytest.fixture
def config(folder, toy_model, tmp_path):
    text, output = CorpusConfig(corpus=(str(folder),)), tmp_path / "queries.jsonl"
    return AskConfig(text=text, model=str(toy_model), count=30, output=output)


def passage_of(text):
    """The passage of a request, without title and heading."""
    return re.search(r"^[yz]\w\wa .*$", text, re.MULTILINE)[0]


def types_of(text):
    return re.findall(r'^"([a-z-]+)": ', text, re.MULTILINE)


def good(text):
    """Queries of words of the passage and of others, so that they find it and copy nothing."""
    words, queries = passage_of(text).strip(".").split(), {}
    for place, name in enumerate(types_of(text)):
        own = " ".join(words[8 * place : 8 * place + 8])
        queries[name] = f"{own} {name.replace('-', '')} kindly"
    return json.dumps(queries)


def rows(config):
    return [json.loads(line) for line in config.output.read_text().splitlines()]


def test_queries_feed_adapt(config, folder):
    with chatting(good) as server:
        results = ask(replace(config, llm=server.address), Silent())
    assert results.requests == {"answered": 10, "refused": 0, "broken": 0, "empty": 0}
    assert results.written == 30 == sum((*results.kept.values(), *results.dropped.values()))
    assert len(results.kept) == 6
    assert min(results.kept.values()) > 0
    assert results.prompt_tokens == 1000
    assert results.answer_tokens == 100
    assert typed_json.read(config.counts_file, AskResults, "counts") == results
    found = rows(config)
    assert len(found) == sum(results.kept.values()) > 20
    assert {row["generated_by"] for row in found} == {server.model}
    assert rows_of_queries(config.output) == [(row["query"], row["passage"]) for row in found]
    corpus = load_corpus(config.text, cache_folder())
    assert {row["passage"] for row in found} <= {corpus[line] for line in corpus.train_rows}
    assert len({row["passage"] for row in found}) == 10
    assert all("Passage:\n" in text and "{" not in text.replace("{}", "") for text in server.asked)


def test_each_type_has_its_turn_with_a_passage_before_requests_end(config, folder):
    with chatting(good) as server:
        results = ask(replace(config, llm=server.address, count=10_000), Silent(), parallel=8)
    corpus = load_corpus(config.text, cache_folder())
    assert sum(results.requests.values()) == 2 * len(corpus.train_rows) == len(set(server.asked))
    asked = {(passage_of(text), name) for text in server.asked for name in types_of(text)}
    assert len(asked) == results.written == 6 * len(corpus.train_rows)


@pytest.mark.parametrize(
    ("first", "second", "fate", "requests"),
    [
        ("Sure, here it is.", None, "answered", 2),
        (said(None, refusal="no"), None, "refused", 1),
        ('{"keywords-short": "cut o', '{"keywords-short": "cut o', "broken", 2),
        ("", "", "empty", 2),
        ("{}", None, "empty", 1),
    ],
)
def test_answers_that_cannot_be_used_are_counted(config, first, second, fate, requests):
    """One request of ten has them; a second one is made at most."""
    chosen = []

    def script(text):
        passage = passage_of(text)
        chosen.append(passage)
        if passage != chosen[0]:
            return good(text)
        answer = first if chosen.count(passage) == 1 else second
        return good(text) if answer is None else answer

    with chatting(script) as server:
        results = ask(replace(config, llm=server.address), Silent(), parallel=1)
    assert len(server.asked) == 9 + requests == len(set(server.asked))
    found = {kind: count for kind, count in results.requests.items() if count}
    assert found == ({"answered": 10} if fate == "answered" else {"answered": 9, fate: 1})


def test_a_server_that_hangs_stops_the_command(config):
    with chatting(lambda text: time.sleep(0.4) or "{}") as server:
        config = replace(config, llm=server.address)
        with pytest.raises(UserError, match=r"0\.05 s"):
            ask(config, Silent(), parallel=5, seconds=0.05)
        assert len(set(server.asked)) <= 6
    assert not config.output.exists()


def test_a_cut_off_answer_is_asked_for_again(tmp_path):
    path = tmp_path / "answers.jsonl"
    for number in range(2):
        archive = Archive(path)
        archive.put(f"key {number}", Answer("an answer\u2028", 1, number))
        archive.close()
        path.write_bytes(path.read_bytes() + b'["key 2", "an ans')
    archive = Archive(path)
    assert archive.get("key 1") == Answer("an answer\u2028", 1, 1)
    assert archive.get("key 0") is not None
    assert archive.get("key 2") is None
    archive.close()


def test_queries_are_filtered(config, tmp_path):
    """A copy, a repetition, a real query and one about something else are dropped."""
    like = tmp_path / "like.txt"
    like.write_text("who waters the garden of the neighbour at night in the long summer\n")
    number = iter(range(100))

    def script(text):
        assert like.read_text().strip() in text
        kind, passage = next(number), passage_of(text)
        copied = " ".join(passage.split()[:8])
        bad = (copied, like.read_text().strip(), "unheard zebra quagga")
        query = bad[kind] if kind < len(bad) else f"{copied} kindly tell"
        return json.dumps({types_of(text)[0]: query})

    with chatting(script) as server:
        results = ask(replace(config, llm=server.address, like=like), Silent(), parallel=1)
    assert list(results.dropped.values()) == [1, 1, 1]
    assert sum(results.kept.values()) == 7
    assert not any("quagga" in row["query"] for row in rows(config))


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive)]
)
def test_a_stopped_command_goes_on_without_a_repeated_request(config, folder, toy_model, number):
    reached, release = threading.Event(), threading.Event()

    def script(text):
        if len(server.asked) == 5 and not reached.is_set():
            reached.set()
            release.wait(60)
        return good(text)

    words = ["ask", str(folder), "--model", str(toy_model), "--count", "30"]
    with chatting(script) as server:
        words += ["--llm", server.address, "--output", str(config.output)]
        process = isospace(*words)
        assert reached.wait(60)
        process.send(number)
        if number == signal.SIGKILL:
            assert process.wait() == -number
            release.set()
        else:
            release.set()
            assert process.wait() == 1
        assert not config.output.exists()
        assert main(words) == 0
    assert len(set(server.asked)) == 10
    repeated = len(server.asked) - 10
    assert 1 <= repeated <= PARALLEL if number == signal.SIGKILL else repeated == 0


def test_passages_are_spread_over_documents():
    documents = np.repeat(np.arange(12), range(1, 13))
    chosen = spread(documents, 12, 0)
    assert sorted(documents[chosen]) == list(range(12))
    assert np.array_equal(chosen, spread(documents, 12, 0))
    assert not np.array_equal(chosen, spread(documents, 12, 1))
    assert sorted(spread(documents, 1000, 0)) == list(range(78))


def test_the_command(config, folder, toy_model, capsys):
    with chatting(good) as server:
        words = ["ask", str(folder), "--model", str(toy_model), "--count", "30"]
        words += ["--llm", server.address, "-o", str(config.output)]
        assert main(words) == 0
        assert capsys.readouterr().out == ""
        assert main(words) == 2  # the file is there
        assert str(config.output) in capsys.readouterr().err
        config.output.unlink()  # a kill may leave the counts alone
        assert main([*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["requests"]["answered"] == 10
    assert len(server.asked) == 10


LLM = ["--llm", "http://127.0.0.1:9/v1#toy"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "a.jsonl"], "--llm"),
        (["-o", "a.jsonl", "--llm", "gpt"], "--llm gpt"),
        (["-o", "a.txt", *LLM], "--output a.txt"),
        (LLM, "--output"),
        (["-o", "a.jsonl", *LLM, "--columns", "q", "a"], "--columns"),
    ],
)
def test_what_is_missing_is_named(folder, words, message, capsys):
    assert main(["ask", str(folder), *words]) == 2
    assert message in capsys.readouterr().err
