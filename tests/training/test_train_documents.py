"""A run on documents: what its passages are looked for among, and BM25 beside the encoder."""

import json
import random
from dataclasses import replace

import pytest
from searches import titled
from toy import WORDS, sentences, short_run

from isospace.cli import main
from isospace.config import CorpusConfig
from isospace.evaluation import benchmark as benchmark_module
from isospace.objectives import SimCSE
from isospace.search.index import About, SearchIndex
from isospace.training.batches import Order
from isospace.training.examples import Examples
from isospace.training.prepare import load_data
from isospace.training.run import selected_weight
from isospace.training.train import train


@pytest.fixture
def documents(toy_model, tmp_path):
    """1,400 documents of three short passages."""
    rng, texts = random.Random(0), sentences(4200)
    rows = [
        {"title": " ".join(rng.choices(WORDS, k=6)), "text": "\n\n".join(texts[i : i + 3])}
        for i in range(0, 4200, 3)
    ]
    file = tmp_path / "docs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = short_run(toy_model, file, tmp_path / "run")
    return replace(
        config, text=titled(file), budget=(32, "sentences"), select="last", evaluations=1
    )


def test_a_run_on_documents_keeps_the_weight_that_its_choosing_pairs_chose(
    documents, tmp_path, monkeypatch, caplog
):
    asked = []

    def chosen(encode, pairs):
        asked.append(pairs)
        return 1.5

    monkeypatch.setattr(benchmark_module, "select_weight", chosen)
    with caplog.at_level("INFO", "isospace"):
        finished = train(documents)
    results, data = finished.results, load_data(documents)
    [choosing] = asked
    assert set(choosing).isdisjoint(data.benchmark.pairs)
    assert len(choosing) >= 100
    assert results.base.pairs.candidates == len(data.corpus.held_out())
    for state in (results.base, results.adapted):
        assert state.with_bm25.weight == 1.5
    assert list(results.with_bm25) == ["BM25", "base model + BM25", "adapted + BM25"]
    gain = results.with_bm25["base model + BM25"].mean
    assert gain == pytest.approx(results.base.with_bm25.hybrid.mrr - results.base.pairs.mrr)
    assert results.recommendation in caplog.text
    card = (finished.model_folder / "README.md").read_text()
    assert "| this model + BM25 |" in card

    # An index of its model searches by it, unless another is asked for.
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(sentences(30)))
    for number, model in enumerate((finished.run.folder, finished.model_folder)):
        to = tmp_path / f"index-{number}"
        assert main(["index", str(file), "--to", str(to), "--model", str(model), "--json"]) == 0
        assert About.read(to).bm25_weight == 1.5
    index = SearchIndex.open(to)
    assert "weight 1.5" in index.search("the cat", hybrid=True).protocol
    assert selected_weight(documents.model) is selected_weight("minilm") is None


def test_an_epoch_is_a_pass_though_batches_keep_alike_pairs_apart(toy_model, tmp_path):
    """Where a few titles have most of the pairs all others were seen several times."""
    texts = sentences(1000, seed=5)
    titles = texts[:100] + [text for text in texts[100:105] for _ in range(80)]
    rows = [{"a": title, "b": text} for title, text in zip(titles, texts[500:], strict=True)]
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = replace(
        short_run(toy_model, file, tmp_path / "run"),
        text=CorpusConfig(corpus=(str(file),), columns=("a", "b")),
        objective=SimCSE(head="none"),
        views="pairs",
        budget=(1.0, "epochs"),
        batch_size=8,
        evaluations=1,
    )
    examples = Examples.from_corpus(config, load_data(config).corpus)
    a_pass = Order(examples, 8, config.seed).per_epoch
    assert train(config).results.training.steps == a_pass < len(examples) // 8
