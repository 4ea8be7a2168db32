"""Compressed vectors in files and indexes: documents and queries are compressed alike."""

from dataclasses import replace

import numpy as np
import pytest
from command_line import run as command
from encode_files import TEXTS, column, run
from search_index import TEXTS as INDEXED, YEARS

from isospace.encoders.loading import load_encoder
from isospace.encoders.saving import save_model
from isospace.encoders.settings import Prompts
from isospace.errors import UserError
from isospace.operators.compression import Compression
from isospace.operators.forms import FORMS, Form
from isospace.search import SearchIndex
from isospace.vectors.vector_files import read_compression

QUERIES = ["the big cat", "old city river"]


@pytest.fixture(autouse=True)
def _narrow_forms(monkeypatch):
    """PCA to 8 of the toy's 32 dimensions."""
    monkeypatch.setitem(FORMS, "pca-64-int8", Form("int8", 8))
    monkeypatch.setitem(FORMS, "pca-64", Form("float32", 8))


@pytest.mark.parametrize("form", ["binary", "binary-both", "binary-rescored", "pca-64-int8"])
def test_documents_and_queries_are_compressed_alike(config, encoder, tmp_path, form):
    run(replace(config, compress=form))
    compression = Compression.fit(form, encoder.embed(TEXTS))
    numbers = compression.numbers(encoder.embed(TEXTS))
    assert column(config.output).dtype == numbers.dtype
    same = (column(config.output) == numbers).mean()
    assert same > 0.99  # a number at the end of a step may fall on either side
    if form == "binary-rescored":
        assert (column(config.output, "bits") == compression.bits(encoder.embed(TEXTS))).all()
    (tmp_path / "queries.txt").write_text("\n".join(QUERIES))
    asked = replace(
        config, inputs=(str(tmp_path / "queries.txt"),), output=tmp_path / "queries", side="query"
    )
    run(replace(asked, compress=str(config.output)))
    kept = read_compression(config.output / "compression.npz")
    vectors = encoder.embed(QUERIES)
    expected = kept.numbers(vectors) if form == "binary-both" else kept.queries(vectors)
    assert np.allclose(column(tmp_path / "queries"), expected, atol=1e-5)


def test_one_file_has_its_compression_beside_it(config, tmp_path):
    single = replace(config, output=tmp_path / "vectors.npy", compress="int8")
    run(single)
    assert np.load(single.output).dtype == np.int8
    other = replace(config, output=tmp_path / "others", compress=str(single.output))
    run(other)
    # The ranges are those of the file, so that the same texts have the same numbers.
    assert np.array_equal(column(other.output), np.load(single.output))


def test_a_damaged_shard_is_made_again_with_the_first_ranges(config):
    small = replace(config, shard_size=64, compress="int8")
    run(small)
    before = column(config.output)
    (config.output / "part-00001.parquet").unlink()
    run(small)
    assert np.array_equal(column(config.output), before)


def test_an_output_goes_on_with_its_own_compression_only(config):
    """Numbers of both are float32, so only the name of the form tells them apart."""
    run(replace(config, compress="pca-64"))
    with pytest.raises(UserError, match="begun with another `compress` \\(pca-64, now None\\)"):
        run(config)


def test_a_compression_is_fitted_on_the_vectors_that_are_stored(config, tmp_path):
    """Texts without a side have the plain prompt, and not that of documents."""
    prompts = Prompts(document="the old city by the river and the sea ")
    encoder = load_encoder(config.model, device="cpu").with_prompts(prompts)
    save_model(encoder, tmp_path / "model")
    run(replace(config, model=str(tmp_path / "model"), compress="int8"))
    ranges = read_compression(config.output / "compression.npz").ranges
    expected = Compression.fit("int8", encoder.embed(TEXTS)).ranges
    assert np.allclose(ranges, expected, atol=1e-5)


ASKED = ["the big cat", INDEXED[7], "zebra", "old city river"]


@pytest.mark.parametrize(
    "form", [name for name in FORMS if "256" not in name and "128" not in name]
)
def test_an_index_ranks_as_the_measurement_does(toy_model, tmp_path, form):
    index = SearchIndex.create(
        tmp_path / "index", str(toy_model), {"year": "int"}, compress=form, fit_on=INDEXED
    )
    metadata = [{"year": year} for year in YEARS]
    index.add(INDEXED, [f"t{i}" for i in range(len(INDEXED))], metadata)
    index.refresh()
    index = SearchIndex.open(tmp_path / "index")
    encoder = load_encoder(str(toy_model), device="cpu")
    passages, queries = encoder.embed(INDEXED), encoder.embed(ASKED)
    compression = Compression.fit(form, passages)
    [(_, expected)] = compression.score_blocks(queries, passages)
    found = index.search(ASKED, k=10)
    assert form == "float32" or form in found.protocol
    for scores, hits in zip(expected, found.hits, strict=True):
        best = -np.sort(-scores)[:10]
        places = [int(hit.id[1:]) for hit in hits]
        assert np.allclose(scores[places], best, atol=1e-3)  # ties stand in any order
        if not form.startswith("binary"):
            assert np.allclose([hit.cosine for hit in hits], best, atol=1e-3)
    some = index.search(ASKED, k=5, where="year < 1910")
    assert all(hit.metadata["year"] < 1910 for hits in some.hits for hit in hits)
    assert [len(hits) for hits in index.search(ASKED, k=5, hybrid=True).hits] == [5] * 4
    again = index.add(INDEXED[:3], ["t0", "t1", "t2"], metadata[:3])
    assert again.unchanged == 3


def test_the_command_stores_a_form(toy_model, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("\n".join(INDEXED), encoding="utf-8")
    words = "index", tmp_path / "texts.txt", "--to", tmp_path / "index", "--model", toy_model
    assert command(capsys, *words, "--compress", "int8")[0] == 0
    assert (tmp_path / "index" / "compression.npz").is_file()
    assert command(capsys, "search", "zebra", "--index", tmp_path / "index")[0] == 0
    status, _, err = command(capsys, *words, "--compress", "binary")
    assert (status, "--compress" in err) == (2, True)
    (tmp_path / "index" / "compression.npz").write_bytes(b"no zip")
    with pytest.raises(UserError, match=r"compression\.npz"):
        SearchIndex.open(tmp_path / "index")
