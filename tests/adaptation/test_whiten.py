"""Whitening of a whole model: what is chosen, what the verdict says, what the folder holds."""

import json
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sklearn.covariance import ledoit_wolf_shrinkage
from toy import sentences, write_rows

from isospace.adaptation.fitting import drop_normalize, fold, moments_of, through
from isospace.adaptation.whiten import FILE, WhiteningResults, name_of, whiten_model
from isospace.cli import main
from isospace.config import POWERS, CorpusConfig, WhitenConfig
from isospace.corpus.corpus import load_corpus
from isospace.encoders.loading import load_encoder
from isospace.encoders.saving import save_model
from isospace.errors import UserError
from isospace.evaluation.benchmark import Benchmark
from isospace.evaluation.pairs import TextPairs, cached, sided
from isospace.evaluation.retrieval import RetrievalScores, evaluate_retrieval
from isospace.operators.fitted_whitening import SHRINKAGE, Moments, Whitening
from isospace.operators.flow import fit_flow
from isospace.operators.nearest import unit_rows
from isospace.recipes import find
from isospace.statistics.gains import Gain
from isospace.statistics.verdict import Verdict, VerdictKind
from isospace.system import typed_json

TEXTS = sentences(60, seed=3)
WIDTH = 32
FLOW = Whitening(kind="flow")


@pytest.fixture
def setting(toy_model, toy_corpus, tmp_path):
    text = CorpusConfig(corpus=(str(toy_corpus),), near_duplicates=False)
    return WhitenConfig(model=str(toy_model), text=text, output=tmp_path / "out")


def write_pairs(path, first, second):
    pairs = zip(first, second, strict=True)
    return write_rows(path, [{"query": a, "document": b} for a, b in pairs])


def corpus_of_pairs(path, first, second):
    write_pairs(path, first, second)
    return CorpusConfig(corpus=(str(path),), columns=("query", "document"))


def kinds(folder):
    modules = json.loads((folder / "modules.json").read_text())
    return [module["type"].rsplit(".", 1)[1] for module in modules]


def test_the_criterion_prefers_the_map_that_undoes_a_common_direction():
    """Pairs share a faint direction of their own; a strong common one hides it from the cosine."""
    random = np.random.default_rng(0)
    own, common = random.normal(size=(40, 16)), random.normal(size=16)
    first, second = (
        own + 0.3 * random.normal(size=own.shape) + 9 * random.normal(size=(40, 1)) * common
        for _ in range(2)
    )
    pairs = TextPairs("made", tuple(f"a{i}" for i in range(40)), tuple(f"b{i}" for i in range(40)))
    table = dict(zip([*pairs.first, *pairs.second], np.concatenate([first, second]), strict=True))

    def encode(texts):
        return np.array([table[text] for text in texts], dtype=np.float32)

    moments = Moments.from_vectors(torch.from_numpy(np.concatenate([first, second])))
    whitened = through(encode, Whitening(shrinkage=0.0).fit(moments, 1.0))
    base, full = (evaluate_retrieval(sided(own), pairs).mrr for own in (encode, whitened))
    assert base < 0.4 < 0.9 < full
    assert through(encode, None)(["a1"])[0] == pytest.approx(table["a1"], rel=1e-6)


def results_in(folder):
    return typed_json.read(folder / FILE, WhiteningResults, "results")


@pytest.mark.parametrize(("whitening", "powers"), [(Whitening(), POWERS), (FLOW, ("flow",))])
def test_auto_from_text_to_folder(setting, whitening, powers):
    outcome = whiten_model(replace(setting, whitening=whitening))
    assert list(outcome.candidates) == [name_of(power) for power in (None, *powers)]
    assert outcome.candidates[name_of(outcome.power)] == max(outcome.candidates.values())
    assert outcome.sentences == 360
    assert outcome.gap < 1e-5
    assert results_in(setting.output) == outcome
    card = (setting.output / "README.md").read_text()
    assert outcome.text in card
    assert ("su-etal-2021-whitening" in card) is (outcome.whitened and whitening != FLOW)
    assert "# bert, " in card
    assert setting.model not in card
    assert not any(sentence in card for sentence in sentences(400))


def trying(monkeypatch, base, whitened):
    """Give the base model, which is ranked first, and every power such MRR on validation pairs."""
    mrr = chain([base], repeat(whitened))

    def scores(encode, pairs):
        n = len(pairs)
        return RetrievalScores(np.full(n, 1 / next(mrr)), n, "", np.zeros((2, n)))

    monkeypatch.setattr("isospace.adaptation.whiten.evaluate_retrieval", scores)


@pytest.mark.parametrize(
    ("asked", "kind", "cited"),
    [
        ({}, VerdictKind.ADAPTED, "su-etal-2021-whitening"),
        ({}, VerdictKind.CANNOT_TELL, None),
        ({"whitening": Whitening(dim=8)}, VerdictKind.KEEP_BASE, "su-etal-2021-whitening"),
        ({"power": 0.25}, VerdictKind.KEEP_BASE, "su-etal-2021-whitening"),
        ({"power": 1, "whitening": FLOW}, VerdictKind.KEEP_BASE, "li-etal-2020-sentence"),
    ],
)
def test_auto_must_earn_a_whitening_and_settings_need_not(setting, monkeypatch, asked, kind, cited):
    gain = Gain(0.0, -0.1, 0.1, 1.0, items=20, groups=20, changed=20, changed_groups=20)
    monkeypatch.setattr(Benchmark, "verdict", lambda *_: Verdict(kind, "", "MRR", gain))
    trying(monkeypatch, base=0.1, whitened=0.2)
    config = replace(setting, **asked)
    outcome = whiten_model(config)
    assert outcome.whitened is (cited is not None)
    card = (config.output / "README.md").read_text()
    assert (f"{{{cited}," in card) if cited else ("bibtex" not in card)
    assert ("Tried, but not kept" in card) is (cited is None)
    written, base = (load_encoder(str(name)) for name in (config.output, config.model))
    assert written.dim == (config.whitening.dim or WIDTH)
    assert ("the settings ask for it" in outcome.text) is bool(asked)
    same = written.dim == WIDTH and np.allclose(written.embed(TEXTS), base.embed(TEXTS), atol=1e-6)
    assert same is (cited is None)


def test_no_power_better_than_none_keeps_the_model(setting, monkeypatch):
    trying(monkeypatch, base=0.2, whitened=0.1)
    outcome = whiten_model(setting)
    assert outcome.power is None
    assert outcome.text.startswith("Keep the base model: no power")
    assert "; the best other: " in outcome.text  # what the best power of the same pairs comes to
    assert outcome.verdict.gain.mean == pytest.approx(-0.1)
    rows = outcome.tables()[1][1]
    assert [row["model"] for row in rows] == ["base model", "BM25", "base model + BM25"]
    assert "Dense" not in kinds(setting.output)


def test_where_the_same_pairs_choose_and_judge_the_interval_holds_for_every_power(setting):
    """Of 400 sentences 40 are held out, too few to split; a width that is asked for is written."""
    setting = replace(setting, whitening=Whitening(dim=8))
    outcome = whiten_model(setting)
    gain = outcome.verdict.gain
    assert list(outcome.candidates) == [name_of(power) for power in POWERS]
    assert outcome.selected_on == f"{gain.items} halves of sentences"
    assert gain.candidates == len(POWERS)
    assert gain.mean <= outcome.adapted.pairs.mrr - outcome.base.pairs.mrr


def test_your_own_pairs_decide_and_examples_are_fitted_on_whole(setting, tmp_path):
    texts = sentences(400, seed=7)
    text = corpus_of_pairs(tmp_path / "examples.jsonl", texts[::2], texts[1::2])
    pairs = write_pairs(tmp_path / "pairs.csv", TEXTS[::2], TEXTS[1::2])
    outcome = whiten_model(replace(setting, text=text, pairs=pairs, sentences=100, by="texts"))
    assert outcome.sentences == 100
    assert "pairs.csv" in outcome.verdict.protocol
    assert outcome.base.pairs.queries == 30
    assert outcome.selected_on == "20 natural pairs"


@pytest.fixture
def of_columns(setting, tmp_path):
    """Of 300 pairs whose second text repeats the first word of the first at its end."""
    texts = sentences(300, seed=7)
    ends = [f"{text} {text.split()[0]}" for text in texts]
    return replace(setting, text=corpus_of_pairs(tmp_path / "questions.jsonl", texts, ends))


def test_rows_of_pairs_are_whitened_by_their_differences(of_columns, tmp_path):
    outcome = whiten_model(replace(of_columns, power=0.5, sentences=120))
    assert (outcome.by, outcome.sentences) == ("pairs", 120)
    assert results_in(of_columns.output) == outcome
    assert "radenovic-etal-2019" in (of_columns.output / "README.md").read_text()
    start = load_encoder(of_columns.model, device="cpu")
    corpus = load_corpus(of_columns.text, tmp_path)
    rows = corpus.train_rows[[i * len(corpus.train_rows) // 120 for i in range(120)]]
    first, second = (start.embed([corpus[int(row) + side] for row in rows]) for side in (0, 1))
    differences = (first - second).astype(np.float64)
    within = differences.T @ differences / 2 / len(rows)
    share = max(SHRINKAGE, ledoit_wolf_shrinkage(differences, assume_centered=True))
    shrunk = (1 - share) * within + share * np.trace(within) / WIDTH * np.eye(WIDTH)
    values, axes = np.linalg.eigh(shrunk)
    mapped = start.embed(TEXTS) @ (axes * values**-0.25) @ axes.T
    written = load_encoder(str(of_columns.output), device="cpu").embed(TEXTS)
    cosines = unit_rows(mapped) @ unit_rows(mapped).T
    np.testing.assert_allclose(written @ written.T, cosines, atol=1e-4)  # fitted in bf16 or float32


def test_a_map_is_fitted_on_some_texts_cut_as_in_training(of_columns, tmp_path, monkeypatch):
    """Long documents would take minutes; `adapt` has the same texts and lengths."""
    lengths = []

    def noted(encoder, folder, precision, max_length, progress):
        lengths.append(max_length)
        return cached(encoder, folder, precision, max_length, progress)

    monkeypatch.setattr("isospace.adaptation.candidates.cached", noted)
    monkeypatch.setattr("isospace.adaptation.whiten.FITTED_ON", 50)
    for by, count, recipe in (("pairs", 50, "pairs"), ("texts", 100, "dropout")):
        lengths.clear()
        found = whiten_model(replace(of_columns, power=0.5, by=by, output=tmp_path / by))
        assert found.sentences == count
        assert set(lengths) == {find(recipe).config.max_length, None}  # to fit, and to test


@pytest.mark.parametrize("sides", [1, 2])
def test_no_texts_have_moments_that_nothing_can_be_fitted_on(sides):
    moments = moments_of([np.empty((0, 4), np.float32)] * sides)
    with pytest.raises(ValueError, match="got 0"):
        moments.fit(0.5) if sides == 2 else Whitening().fit(moments, 0.5)


def test_pairs_that_are_asked_for_must_be_there(setting, tmp_path):
    """A row of two equal texts is no pair."""
    texts = sentences(300)
    equal = corpus_of_pairs(tmp_path / "equal.jsonl", texts, texts)
    few = corpus_of_pairs(tmp_path / "few.jsonl", texts[:90], texts[90:180])
    for text, count in ((equal, "0"), (few, r"8\d")):
        with pytest.raises(UserError, match=rf"`by` pairs: .* different texts .* gives {count}"):
            whiten_model(replace(setting, text=text, by="pairs"))
    assert whiten_model(replace(setting, power=0.5)).by == "texts"


def test_a_folder_that_would_lie_is_removed(setting, monkeypatch):
    def refuse(*_):
        raise UserError("other vectors")

    monkeypatch.setattr("isospace.encoders.saving.require_parity", refuse)
    with pytest.raises(UserError, match="other vectors"):
        whiten_model(setting)
    assert not setting.output.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output": None}, "`output` is missing"),
        ({"output": Path(__file__).parent}, "exists already"),
        ({"text": CorpusConfig()}, "`corpus` is missing"),
        ({"text": CorpusConfig(corpus=("few.txt",))}, "too few sentences"),
        ({"power": 0, "whitening": Whitening(shrinkage=0.1)}, "no effect without a `power` above"),
        ({"whitening": Whitening(dim=33)}, r"`dim` must lie in 1\.\.32; got 33"),
        ({"sentences": 20, "whitening": Whitening(shrinkage=0)}, "more than 32 sentences; got 20"),
        ({"whitening": FLOW, "power": 0.5}, r"`power` 0\.5: a flow goes all the way"),
        ({"whitening": FLOW, "by": "pairs"}, "`by` pairs"),
        ({"whitening": replace(FLOW, shrinkage=0.1)}, "no effect without `kind` pca"),
    ],
)
def test_bad_input_is_refused_without_output(setting, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    Path("few.txt").write_text("\n".join(sentences(12)))
    with pytest.raises(UserError, match=message):
        whiten_model(replace(setting, **changes))
    assert not setting.output.exists()


def test_a_power_cannot_be_chosen_without_text_for_it(setting, tmp_path):
    """The user's pairs are for the verdict; choosing on them would flatter it."""
    corpus = tmp_path / "short.txt"
    corpus.write_text("\n".join(" ".join(s.split()[:6]) for s in sentences(200)))
    pairs = write_pairs(tmp_path / "pairs.tsv", TEXTS[::2], TEXTS[1::2])
    config = replace(setting, text=CorpusConfig(corpus=(str(corpus),)), pairs=pairs)
    with pytest.raises(UserError, match=r"too little text to select .* `power` 0\.25"):
        whiten_model(config)
    assert whiten_model(replace(config, power=0.25)).whitened


def test_the_command(setting, capsys):
    words = ["whiten", setting.model, "--corpus", *setting.text.corpus, "-o", str(setting.output)]
    assert main([*words, "--power", "0.25", "--shrinkage", "0.1", "--dim", "8"]) == 0
    printed = capsys.readouterr().out
    assert "before and after" in printed
    assert "The folder holds the whitened model (power 0.25)" in printed
    assert results_in(setting.output).whitening == Whitening(shrinkage=0.1, dim=8)


def write_folded(toy_model, folder, fit):
    """(pooled vectors of TEXTS, map, folder) of a whitened toy."""
    encoder = load_encoder(str(toy_model), device="cpu")
    drop_normalize(encoder)
    pooled = torch.from_numpy(encoder.embed(TEXTS)).double()
    fitted = fit(pooled)
    fold(encoder, fitted)
    save_model(encoder, folder)
    return pooled, fitted, folder


@pytest.fixture(scope="module")
def folded(toy_model, tmp_path_factory):
    def fit(pooled):
        return Whitening().fit(Moments.from_vectors(pooled), 0.5)

    return write_folded(toy_model, tmp_path_factory.mktemp("folded") / "model", fit)


def require_map(pooled, fitted, folder, atol):
    """What others load is the map, and has unit length."""
    found = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    expected = torch.nn.functional.normalize(fitted(pooled)).numpy()
    np.testing.assert_allclose(found, expected, atol=atol)


def test_the_folder_is_the_map_in_layers_that_every_version_reads(folded):
    require_map(*folded, atol=2e-6)
    folder = folded[2]
    assert kinds(folder) == ["Transformer", "Pooling", "Dense", "Normalize"]
    assert json.loads((folder / "2_Dense" / "config.json").read_text()) == {
        "in_features": 32,
        "out_features": 32,
        "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    new = load_file(folder / "2_Dense" / "model.safetensors")
    old = torch.load(folder / "2_Dense" / "pytorch_model.bin", weights_only=True)
    assert new.keys() == old.keys() == {"linear.weight", "linear.bias"}
    assert all(torch.equal(new[name], old[name]) for name in new)


def test_a_closing_normalisation_is_replaced_and_an_earlier_whitening_stays(folded):
    encoder = load_encoder(str(folded[2]), device="cpu")
    before = encoder.embed(TEXTS)
    drop_normalize(encoder)
    pooled = torch.from_numpy(encoder.embed(TEXTS)).double()
    fold(encoder, Whitening(shrinkage=0.0).fit(Moments.from_vectors(pooled), 0.0))
    names = [type(module).__name__ for module in encoder.model]
    assert names[2:] == ["Dense", "Dense", "Normalize"]
    np.testing.assert_allclose(np.linalg.norm(before, axis=1), 1, atol=1e-6)
    centred = torch.nn.functional.normalize(pooled - pooled.mean(0)).numpy()
    found = encoder.embed(TEXTS)
    np.testing.assert_allclose(found @ found.T, centred @ centred.T, atol=1e-5)


def test_a_flow_is_a_stack_of_dense_layers_that_others_load(toy_model, tmp_path):
    made = write_folded(toy_model, tmp_path / "model", lambda pooled: fit_flow(pooled.float()))
    require_map(*made, atol=1e-5)
    assert kinds(tmp_path / "model")[2:] == ["Dense"] * 19 + ["Normalize"]
