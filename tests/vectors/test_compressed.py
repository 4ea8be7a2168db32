"""Compressed vectors in files and indexes."""

from dataclasses import replace

import numpy as np
import pytest
from command_line import run as command
from encode_files import TEXTS, column, run
from search_index import TEXTS as INDEXED, YEARS

from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.operators.compression import compressed, restored, score_blocks
from isospace.operators.forms import FORMS
from isospace.operators.nearest import unit_rows
from isospace.search import SearchIndex


@pytest.mark.parametrize("numbers", ["float16", "int8", "binary"])
def test_files_hold_the_smaller_numbers(config, encoder, numbers):
    run(replace(config, compress=numbers))
    stored, expected = column(config.output), compressed(encoder.embed(TEXTS), numbers)
    assert (stored.dtype, stored.shape) == (expected.dtype, expected.shape)
    # A number at the end of a step may fall on either side.
    assert (stored == expected).mean() > (0.7 if numbers == "float16" else 0.99)
    assert np.allclose(restored(stored, 32), restored(expected, 32), atol=0.01)


def test_one_file_holds_the_smaller_numbers(config, tmp_path):
    single = replace(config, output=tmp_path / "vectors.npy", compress="int8")
    run(single)
    assert np.load(single.output).dtype == np.int8
    run(replace(config, compress="int8"))
    assert np.array_equal(column(config.output), np.load(single.output))


def test_an_output_goes_on_with_its_own_numbers_only(config):
    run(replace(config, compress="int8"))
    with pytest.raises(UserError, match="begun with another `compress` \\(int8, now float32\\)"):
        run(config)


ASKED = ["the big cat", INDEXED[7], "zebra", "old city river"]


@pytest.mark.parametrize("form", FORMS)
def test_an_index_ranks_as_the_measurement_does(toy_model, tmp_path, form):
    index = SearchIndex.create(tmp_path / "index", str(toy_model), {"year": "int"}, compress=form)
    metadata = [{"year": year} for year in YEARS]
    index.add(INDEXED, [f"t{i}" for i in range(len(INDEXED))], metadata)
    index.refresh()
    index = SearchIndex.open(tmp_path / "index")
    encoder = load_encoder(str(toy_model), device="cpu")
    passages, queries = encoder.embed(INDEXED), encoder.embed(ASKED)
    [(_, expected)] = score_blocks(form, queries, passages)
    found = index.search(ASKED, k=10)
    stored = np.concatenate([*index.database._vectors()])  # in any order
    cosines = -np.sort(-unit_rows(queries) @ stored.T)[:, :10]
    if form != "binary-rescored":  # to the last digit, though float16 changes the lengths
        told = [[hit.cosine for hit in hits] for hits in found.hits]
        assert np.allclose(told, cosines, atol=1e-6)
    assert form == "float32" or form in found.protocol
    for scores, hits in zip(expected, found.hits, strict=True):
        best = -np.sort(-scores)[:10]
        places = [int(hit.id[1:]) for hit in hits]
        assert np.allclose(scores[places], best, atol=1e-3)  # ties stand in any order
    some = index.search(ASKED, k=5, where="year < 1910")
    assert all(hit.metadata["year"] < 1910 for hits in some.hits for hit in hits)
    assert [len(hits) for hits in index.search(ASKED, k=5, hybrid=True).hits] == [5] * 4
    assert index.add(INDEXED[:3], ["t0", "t1", "t2"], metadata[:3]).unchanged == 3


def test_the_command_stores_a_form(toy_model, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("\n".join(INDEXED), encoding="utf-8")
    words = "index", tmp_path / "texts.txt", "--to", tmp_path / "index", "--model", toy_model
    assert command(capsys, *words, "--compress", "int8")[0] == 0
    assert command(capsys, "search", "zebra", "--index", tmp_path / "index")[0] == 0
    status, _, err = command(capsys, *words, "--compress", "binary")
    assert (status, "--compress" in err) == (2, True)
