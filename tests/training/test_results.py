"""results.json of a run: written and read back, older formats read, damage named."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from report_runs import results_of

from isospace.errors import UserError
from isospace.statistics.verdict import VerdictKind
from isospace.training.results import RunResults, read_results, write_results

ARCHIVE = Path(__file__).parents[2] / "docs" / "results" / "comparison-cells"


def test_what_is_written_is_read(tmp_path):
    results = results_of(sts=True, labels="stsb-dev")
    write_results(tmp_path / "results.json", results)
    assert read_results(tmp_path / "results.json") == results


def test_a_run_of_the_first_format_is_read(tmp_path):
    """One of the comparison's own, trained before results.json had a format number."""
    with tarfile.open(ARCHIVE / "iso-seed-0.tar.xz") as tar:
        file = tar.extractfile("iso/seed-0/results.json")
        assert file is not None
        content = file.read()
    (tmp_path / "results.json").write_bytes(content)
    old, results = json.loads(content), read_results(tmp_path / "results.json")
    assert results.benchmark == old["exam"]
    assert list(results.evaluations) == old["looks"]
    assert results.labels == "stsb-dev"
    assert results.result.pairs.recall[10] == old["result"]["scores"]["pairs"]["recall@10"]
    assert results.result.sts is not None
    assert results.result.sts.paper_row["Avg"] == 78.53
    assert (results.verdict.gain.items, results.verdict.gain.groups) == (443, 443)
    assert results.verdict.kind is VerdictKind.ADAPTED
    assert results.split


def of_before(results: RunResults) -> RunResults:
    """Without what formats before the fifth and the sixth did not know."""
    states = {
        state: replace(
            scores,
            pairs=replace(scores.pairs, ndcg_10=None, mrr_10=None, no_shared=None),
            beside=None,
        )
        for state, scores in (("start", results.start), ("result", results.result))
    }
    return replace(results, beside=None, elsewhere={}, **states)


def test_a_number_that_a_disk_has_changed_is_noticed(tmp_path):
    path = tmp_path / "results.json"
    write_results(path, results_of(sts=True))
    whole = path.read_text()
    path.write_text(json.dumps(json.loads(whole)))  # laid out in another way
    assert read_results(path) == results_of(sts=True)
    place = whole.index("0.", whole.index('"result"')) + 2
    path.write_text(whole[:place] + str((int(whole[place]) + 1) % 10) + whole[place + 1 :])
    with pytest.raises(UserError, match=r"not what was written \(sha256\)\. The file is damaged"):
        read_results(path)


def test_a_run_of_the_sixth_format_has_no_gains_of_bm25_over_the_start(tmp_path):
    results = results_of()
    found = results.verdict.gain
    beside = replace(results.beside, over_start={"BM25": found, "result + BM25": found})
    results = replace(results, beside=beside)
    assert results.over_start("taken").keys() == {"BM25", "taken", "taken + BM25"}
    write_results(tmp_path / "results.json", results)
    assert read_results(tmp_path / "results.json") == results
    content = json.loads((tmp_path / "results.json").read_text())
    del content["beside"]["over_start"]
    (tmp_path / "results.json").write_text(json.dumps({**content, "format": 6, "sha256": None}))
    older = read_results(tmp_path / "results.json")
    assert older == replace(results, beside=replace(beside, over_start={}))
    assert older.over_start() == {}


def test_a_run_of_the_fifth_format_knows_nothing_of_elsewhere(tmp_path):
    results = results_of(sts=True)
    write_results(tmp_path / "results.json", results)
    content = json.loads((tmp_path / "results.json").read_text())
    assert content.pop("elsewhere")["definitions"]["gain"]["mean"] == -0.01
    (tmp_path / "results.json").write_text(json.dumps({**content, "format": 5, "sha256": None}))
    assert read_results(tmp_path / "results.json") == replace(results, elsewhere={})


def test_a_run_of_the_fourth_format_knows_neither_bm25_nor_ndcg(tmp_path):
    results = results_of(sts=True)
    write_results(tmp_path / "results.json", results)
    content = json.loads((tmp_path / "results.json").read_text())
    del content["beside"], content["elsewhere"]
    for state in ("start", "result"):
        del content[state]["beside"]
        for name in ("ndcg_10", "mrr_10", "no_shared"):
            del content[state]["pairs"][name]
    (tmp_path / "results.json").write_text(json.dumps({**content, "format": 4, "sha256": None}))
    older = read_results(tmp_path / "results.json")
    assert older == of_before(results)
    assert list(older.start.cells())[:5] == ["MRR", "R@1", "R@10", "R@100", "STS12"]


def test_a_run_of_the_third_format_has_no_memory(tmp_path):
    results = of_before(results_of())
    assert results.cost == "12 s, 1.6 GB"
    write_results(tmp_path / "results.json", results)
    content = json.loads((tmp_path / "results.json").read_text())
    del content["memory_mb"]
    (tmp_path / "results.json").write_text(json.dumps({**content, "format": 3, "sha256": None}))
    older = read_results(tmp_path / "results.json")
    assert older == replace(results, memory_mb=None)
    assert older.cost == "12 s"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:200], r"results\.json: cannot be read as the results of a run"),
        (lambda text: "[1, 2]", "expected an object"),
        (lambda text: text.replace('"steps": 4', '"steps": "many"'), "steps: .* damaged"),
        (lambda text: text.replace('"steps": 4,', ""), "steps: Field required"),
        (lambda text: text.replace('"format": 7', '"format": 99'), "newer isospace .* 99"),
        (lambda text: '{"isospace": "0.0.1"}', "result is missing"),
        (lambda text: '{"result": {}, "looks": 1, "start": [], "verdict": 2}', "damaged"),
        (lambda text: "[" * 100_000, "recursion"),
    ],
)
def test_a_damaged_file_is_named_with_the_field(tmp_path, change, words):
    path = tmp_path / "results.json"
    write_results(path, results_of())
    content = json.loads(path.read_text())
    del content["sha256"]
    path.write_text(change(json.dumps(content, indent=2)))
    with pytest.raises(UserError, match=words):
        read_results(path)
