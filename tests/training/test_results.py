"""results.json of a run: written and read back, other formats refused, damage named."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from report_runs import results_of

from isospace.errors import UserError
from isospace.training.results import RunResults, read_results, write_results


def test_gains_over_the_base_model_are_named_as_the_table_names_its_rows():
    results = results_of()
    found = results.verdict.gain
    results = replace(results, with_bm25={"BM25": found, "adapted + BM25": found})
    assert results.over_base("mine").keys() == {"BM25", "mine", "mine + BM25"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:200], r"results\.json: cannot be read as the results of a run"),
        (lambda text: text.replace('"steps": 4', '"steps": "many"'), "steps: .* damaged"),
        (
            lambda text: text.replace(f'"format": {RunResults.format}', '"format": 99'),
            "another version .* 99",
        ),
    ],
)
def test_a_damaged_file_is_named_with_the_field(tmp_path, change, words):
    path = tmp_path / "results.json"
    write_results(path, results_of())
    content = json.loads(path.read_text())
    path.write_text(change(json.dumps(content, indent=2)))
    with pytest.raises(UserError, match=words):
        read_results(path)
