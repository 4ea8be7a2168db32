"""Indexes of small vectors: they rank as the table of forms was measured."""

from __future__ import annotations

import numpy as np
import pytest
from search_index import TEXTS, YEARS, run

from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.operators.compression import Compression
from isospace.operators.forms import FORMS, Form
from isospace.search import SearchIndex

QUERIES = ["the big cat", TEXTS[7], "zebra", "old city river"]


@pytest.fixture(autouse=True)
def _narrow_forms(monkeypatch):
    """PCA to 8 of the toy's 32 dimensions, and 40 passages are most of an index."""
    monkeypatch.setitem(FORMS, "pca-64", Form("float32", 8))
    monkeypatch.setitem(FORMS, "pca-64-int8", Form("int8", 8))


@pytest.mark.parametrize(
    "form", [name for name in FORMS if "256" not in name and "128" not in name]
)
def test_an_index_ranks_as_the_measurement_does(toy_model, tmp_path, form):
    index = SearchIndex.create(
        tmp_path / "index", str(toy_model), {"year": "int"}, compress=form, fit_on=TEXTS
    )
    metadata = [{"year": year} for year in YEARS]
    index.add(TEXTS, [f"t{i}" for i in range(len(TEXTS))], metadata)
    index.refresh()
    index = SearchIndex.open(tmp_path / "index")
    encoder = load_encoder(str(toy_model), device="cpu")
    passages, queries = encoder.embed(TEXTS), encoder.embed(QUERIES)
    compression = Compression.fit(form, passages)
    [(_, expected)] = compression.score_blocks(queries, passages)
    found = index.search(QUERIES, k=10)
    assert form == "float32" or form in found.protocol
    for scores, hits in zip(expected, found.hits, strict=True):
        best = -np.sort(-scores)[:10]
        places = [int(hit.id[1:]) for hit in hits]
        assert np.allclose(scores[places], best, atol=1e-3)  # ties stand in any order
        if not form.startswith("binary"):
            assert np.allclose([hit.cosine for hit in hits], best, atol=1e-3)
    some = index.search(QUERIES, k=5, where="year < 1910")
    assert all(hit.metadata["year"] < 1910 for hits in some.hits for hit in hits)
    assert [len(hits) for hits in index.search(QUERIES, k=5, hybrid=True).hits] == [5] * 4
    again = index.add(TEXTS[:3], ["t0", "t1", "t2"], metadata[:3])
    assert again.unchanged == 3


def test_the_command_stores_a_form(toy_model, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    words = "index", tmp_path / "texts.txt", "--to", tmp_path / "index", "--model", toy_model
    assert run(capsys, *words, "--compress", "int8")[0] == 0
    assert (tmp_path / "index" / "compression.npz").is_file()
    assert run(capsys, "search", "zebra", "--index", tmp_path / "index")[0] == 0
    status, _, err = run(capsys, *words, "--compress", "binary")
    assert (status, "--compress" in err) == (2, True)
    (tmp_path / "index" / "compression.npz").write_bytes(b"no zip")
    with pytest.raises(UserError, match=r"compression\.npz"):
        SearchIndex.open(tmp_path / "index")
