"""Models behind an endpoint: their vectors are the local model's, and wrong answers are refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from command_line import run, run_well
from searches import paired, write_centred
from serving import refusal, served
from starlette.responses import Response
from toy import run_card, sentences

from isospace.adaptation.adapt import adapt
from isospace.adaptation.whiten import whiten_model
from isospace.config import AdaptConfig, EvaluateConfig, WhitenConfig
from isospace.encoders.loading import load_encoder
from isospace.encoders.settings import EncoderSettings
from isospace.errors import UserError
from isospace.evaluation.evaluate import evaluate
from isospace.search.embedder import load
from isospace.system.consent import ASKED_FROM, Consent, consenting
from isospace.system.progress import Silent

TEXTS = sentences(40, seed=3)
KEY = "sk-never-written-anywhere"


@pytest.fixture(scope="module")
def base(toy_model, tmp_path_factory):
    """The toy without its mean, so that whitening gains; it ends without a normalisation."""
    return write_centred(toy_model, tmp_path_factory.mktemp("base") / "model")


@pytest.fixture(scope="module")
def server(base):
    with served(load_encoder(str(base))) as running:
        yield running


@pytest.fixture
def name(server, tmp_path, monkeypatch):
    """The address, with a cache of its own."""
    monkeypatch.setenv("ISOSPACE_CACHE", str(tmp_path / "cache"))
    server.sent.clear()
    server.spoil.clear()
    return f"{server.url}#toy"


@pytest.fixture(scope="module")
def text(small_split, tmp_path_factory):
    return paired(tmp_path_factory.mktemp("text") / "pairs.jsonl")


def test_vectors_are_those_of_the_local_model_and_each_text_is_sent_once(name, server, base):
    local = load_encoder(str(base))
    encoder = load_encoder(name, EncoderSettings(query_prompt="the "))
    given = [*TEXTS, *TEXTS[:3]]
    assert np.allclose(encoder.embed(given, side="document"), local.embed(given), atol=1e-6)
    queries = encoder.embed(TEXTS[:2], side="query")
    assert np.allclose(queries, local.embed([f"the {text}" for text in TEXTS[:2]]), atol=1e-6)
    assert load_encoder(name).embed(TEXTS).tobytes() == encoder.embed(TEXTS).tobytes()
    assert set(server.sent.values()) == {1}


def test_whitening_gains_what_it_gains_for_the_local_model(name, base, text, tmp_path, monkeypatch):
    """In bf16, the local model's vectors to fit on are not quite those of the server."""
    monkeypatch.setattr("isospace.adaptation.fitting.has_bf16", lambda: False)
    gains = []
    for place, model in enumerate((str(base), name)):
        config = WhitenConfig(model=model, text=text, output=tmp_path / str(place))
        gains.append(whiten_model(config, Silent()).verdict.gain.mean)
    assert gains[0] > 0.1
    assert gains[1] == pytest.approx(gains[0], abs=1e-6)
    local, mapped = load_encoder(str(tmp_path / "0")), load_encoder(str(tmp_path / "1"))
    assert np.allclose(mapped.embed(TEXTS), local.embed(TEXTS), atol=1e-5)


@pytest.fixture(scope="module")
def adapted(server, text, tmp_path_factory):
    """The folder of a run of adapt that mapped queries alone."""
    output, model = tmp_path_factory.mktemp("adapted") / "run", f"{server.url}#toy"
    config = AdaptConfig(model=model, text=text, max_drop=100, queries_only=True, output=output)
    return adapt(config, progress=Silent()).run.folder


@pytest.mark.parametrize("queries_only", [False, True], ids=["both sides", "queries only"])
def test_adapt_tries_and_ships_closed_forms(name, server, base, text, tmp_path, queries_only):
    settings = {"max_drop": 100, "precision": "float32", "max_length": 64, "text": text}
    settings |= {"queries_only": queries_only, "output": tmp_path / "run"}
    config = AdaptConfig(model=name, **settings)
    finished = adapt(config, progress=Silent())
    assert set(server.sent.values()) == {1}
    assert finished.results.training.steps == 0
    candidates = json.loads((finished.run.folder / "candidates.json").read_text())
    assert queries_only or any("linear maps" in note for note in candidates["notes"])
    if queries_only:  # which is tried alike for a local model
        untrained = replace(config, model=str(base), budget=(1, "tokens"))
        local = adapt(replace(untrained, output=tmp_path / "local"), None, Silent())
        ours, theirs = finished.results.verdict.gain, local.results.verdict.gain
        assert ours.mean == pytest.approx(theirs.mean, abs=1e-6)
    shipped, given = load_encoder(str(finished.run.folder)), load_encoder(config.model)
    documents = shipped.embed(TEXTS, side="document")
    if queries_only:
        assert documents.tobytes() == given.embed(TEXTS).tobytes()
    mapped = run_card(finished.model_folder, "safetensors")["map_vectors"](given.embed(TEXTS))
    assert np.allclose(mapped, shipped.embed(TEXTS, side="query"), atol=1e-5)


def test_other_commands_take_the_address_and_the_run(name, base, adapted, tmp_path, capsys):
    run_folder = shutil.copytree(adapted, tmp_path / "run")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{a}\t{b}\n" for a, b in zip(TEXTS[:20], TEXTS[20:], strict=True)))
    config = EvaluateConfig(own=(str(pairs),))
    local, remote = (evaluate(model, config).to_json()["own"] for model in (str(base), name))
    assert json.dumps(local) == json.dumps(remote)
    texts, index, output = tmp_path / "texts.txt", tmp_path / "index", tmp_path / "out.parquet"
    texts.write_text("\n".join(TEXTS))
    found = run(capsys, "index", texts, "--to", index, "--model", name)
    assert found[0] == 0, found
    for model in ([], ["--model", run_folder]):
        out, _ = run_well(capsys, "search", TEXTS[3], "--index", index, "--json", *model)
        assert json.loads(out)["queries"][0]["hits"][0]["text"] == TEXTS[3] or model
    assert run(capsys, "encode", name, texts, "-o", output)[0] == 0
    vectors = np.stack(pq.read_table(output)["vector"].to_pylist())
    assert np.allclose(vectors, load_encoder(str(base)).embed(TEXTS), atol=1e-6)
    assert run(capsys, "evaluate", run_folder, "--own", pairs)[0] == 0
    assert run(capsys, "report", run_folder, "--output", tmp_path / "page.html")[0] == 0


def _cut(item):
    return item | {"embedding": item["embedding"][1:]}


SPOILT = {
    "31 vectors came back": lambda items: items[1:],
    "`index` values are not 0 to": lambda items: [items[0], *items[:-1]],
    "widths are [31, 32]": lambda items: [_cut(items[0]), *items[1:]],
    "a vector has 31 dimensions": lambda items: list(map(_cut, items)),
    "NaN or infinity, the first at 31": lambda items: [
        items[0] | {"embedding": [float("nan")] * 32},
        *items[1:],
    ],
    "KeyError: 'embedding'": lambda items: [{"index": 31}, *items[1:]],
    "JSONDecodeError": lambda items: Response("<html>"),
    "`api_key_env`": lambda items: refusal(401, "who are you"),
    "refused the request (307": lambda items: Response(
        status_code=307, headers={"location": "http://example.com/v1/embeddings"}
    ),
}


@pytest.mark.parametrize("said", SPOILT)
def test_an_answer_that_is_none_is_refused_and_not_kept(said, name, server):
    encoder = load_encoder(name)
    assert encoder.dim == 32
    server.spoil.append(SPOILT[said])
    with pytest.raises(UserError) as refused:
        encoder.embed(TEXTS[:32])
    assert said in str(refused.value)
    assert name in str(refused.value)
    assert encoder.embed(TEXTS[:32]).shape == (32, 32)


def test_a_busy_server_is_asked_again_when_it_says_so(name, server):
    server.spoil += [lambda items: refusal(429, "slow down", **{"Retry-After": "0.1"})] * 2
    assert load_encoder(name).embed(TEXTS[:2]).shape == (2, 32)


def test_no_server_no_model_and_a_slow_one_say_what_to_do(name, server, monkeypatch):
    monkeypatch.setattr("isospace.system.endpoints.FIRST_RETRIES", 0)  # none is waited for
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9/v1#toy: no connection .*running"):
        assert load_encoder("http://127.0.0.1:9/v1#toy").dim
    with pytest.raises(UserError, match="404: The model `other` does not exist"):
        assert load_encoder(f"{server.url}#other").dim
    server.delay = 0.5
    try:
        monkeypatch.setattr("isospace.system.endpoints.SECONDS", 0.05)
        with pytest.raises(UserError, match=r"no answer within 0\.05 s"):
            load_encoder(name).embed(["a"])
    finally:
        server.delay = 0.0


@pytest.mark.parametrize(
    "address", ["http://host/v1", "http://#m", "http://u:p@host/v1#m", "https://host/v1?key=1#m"]
)
def test_an_address_without_a_model_or_with_a_secret_is_refused(address):
    with pytest.raises(UserError, match="`model`"):
        load_encoder(address)


def test_a_killed_run_goes_on_without_paying_twice(name, server, monkeypatch):
    fails = [lambda items: items] * 2 + [lambda items: refusal(500, "down")] * 50
    texts = sentences(300, seed=9)
    for when in ("FIRST_RETRIES", "RETRIES"):  # back-off would take half a minute
        monkeypatch.setattr(f"isospace.system.endpoints.{when}", 0)
    encoder = load_encoder(name)
    assert encoder.dim
    server.spoil += fails
    with pytest.raises(UserError, match="run the command again"):
        encoder.embed(texts)
    server.spoil.clear()
    load_encoder(name).embed(texts)
    kept = [count for text, count in server.sent.items() if text in texts]
    assert sum(kept) <= len(set(texts)) + 4 * 32  # requests that were under way are lost
    assert len(kept) == len(set(texts))


def test_the_key_goes_to_the_server_alone(name, server, text, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-service")
    caplog.set_level("DEBUG")
    load_encoder(name).embed(["without a key"])
    assert "sk-" not in server.headers["authorization"]
    with consenting(Consent(key_env="MY_KEY")):
        config = AdaptConfig(model=name, text=text, max_drop=100, output=tmp_path / "run")
        adapt(config, progress=Silent())
        assert server.headers["authorization"] == f"Bearer {KEY}"
        server.spoil.append(lambda items: refusal(403, f"{KEY} may not do that"))
        with pytest.raises(UserError, match="MY_KEY") as refused:
            load_encoder(name).embed(["new"])
    assert KEY not in str(refused.value) + caplog.text
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        assert KEY.encode() not in file.read_bytes()
    with consenting(Consent(key_env=KEY)), pytest.raises(UserError) as refused:
        load_encoder(name).embed(["newer"])
    assert KEY not in str(refused.value)


def test_much_text_is_sent_only_with_consent(name, server):
    much = ["x" * (4 * ASKED_FROM)]
    asked = []
    for consent in (Consent(), Consent(ask=lambda question: bool(asked.append(question)))):
        with consenting(consent):
            encoder = load_encoder(name)
        with pytest.raises(UserError, match=r"1\.0 M tokens"):
            encoder.embed(much)
        assert server.sent[much[0]] == 0
    assert len(asked) == 1
    with consenting(Consent(yes=True)):
        load_encoder(name).embed(much)
    assert server.sent[much[0]] == 1


def test_no_text_goes_to_an_endpoint_that_a_file_alone_names(tmp_path, adapted, name, capsys):
    folder = shutil.copytree(adapted / "model", tmp_path / "model")
    about = json.loads((folder / "frozen.json").read_text())
    elsewhere = "https://example.com/v1#toy"
    (folder / "frozen.json").write_text(json.dumps({**about, "model": elsewhere}))
    with pytest.raises(UserError, match=r"names the endpoint https://example\.com/v1#toy"):
        load(folder).encode("secret")
    texts = tmp_path / "texts.txt"
    texts.write_text("secret")
    status, _, error = run(capsys, "encode", folder, texts, "-o", tmp_path / "out.npy")
    assert status == 2
    assert "--endpoint 'https://example.com/v1#toy'" in error


def test_settings_of_what_is_not_done_here_are_refused(name, text, tmp_path):
    for changed in ({"teacher": "base+bm25"}, {"queries": tmp_path / "queries.txt"}):
        (tmp_path / "queries.txt").write_text("a query\n" * 200)
        config = AdaptConfig(model=name, text=text, output=tmp_path / "run", **changed)
        with pytest.raises(UserError, match=r"fine-tun|vectors"):
            adapt(config, progress=Silent())
    with pytest.raises(UserError, match="`pooling` cls"):
        load_encoder(name, EncoderSettings(pooling="cls"))


def test_an_address_needs_the_extra(name, monkeypatch):
    monkeypatch.setattr("isospace.system.imports.find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"needs openai: pip install 'isospace\[endpoints\]'"):
        load_encoder(name)
