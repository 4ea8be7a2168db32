"""Indexes of models whose queries pass other modules than documents (`Router`)."""

from __future__ import annotations

import json

import numpy as np
import pytest
from prompted import load_again
from routed import write_routed
from search_index import TEXTS, run

from isospace.operators.nearest import unit_rows
from isospace.search import SearchIndex
from isospace.search.about import About

QUERY = "the big red dog reads"


@pytest.mark.parametrize("by", ["base", "routed"])
def test_an_index_of_either_model_is_searched_by_the_other(toy_model, tmp_path, capsys, by):
    base, routed = write_routed(toy_model, tmp_path)
    made, other = (base, routed) if by == "base" else (routed, base)
    texts = TEXTS[:30]
    SearchIndex.create(tmp_path / "index", str(made), {}).add(texts, list(map(str, range(30))))
    assert About.read(tmp_path / "index").model == str(made)
    documents = unit_rows(load_again(base).encode_document(texts))
    for model in (made, other):
        words = ["--index", tmp_path / "index", "--model", model, "-k", 30, "--exact", "--json"]
        status, out, _ = run(capsys, "search", QUERY, *words)
        assert status == 0
        found = {int(hit["id"]): hit["cosine"] for hit in json.loads(out)["queries"][0]["hits"]}
        wanted = documents @ unit_rows(load_again(model).encode_query([QUERY]))[0]
        assert np.allclose([found[row] for row in range(30)], wanted, atol=1e-5)
