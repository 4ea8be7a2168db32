"""The tables of a report: runs, comparisons, the papers' columns, and their three formats."""

from dataclasses import replace

import pytest
from report_runs import LOST, STS, change, finish, page_of, results_of, write_comparison, write_run

from isospace.comparison.results import read_results
from isospace.report import tables
from isospace.report.run_set import collect
from isospace.system.tables import Table, write_tables


@pytest.fixture
def which(tmp_path):
    write_comparison(tmp_path / "which")
    return tmp_path / "which"


def test_runs_of_no_comparison_have_a_row_each(tmp_path):
    for seed, gain in ((1, 0.02), (2, 0.04)):
        finish(write_run(tmp_path / f"s{seed}", seed=seed), gain=gain)
    write_run(tmp_path / "s3", seed=3)
    rows = tables.runs_table(collect([tmp_path / name for name in ("s1", "s2", "s3")])).rows
    assert [row["run"] for row in rows] == ["s1", "s2", "s3"]
    assert [row["objective"] for row in rows] == ["simcse"] * 3
    assert [row["verdict"] for row in rows] == ["adapted", "adapted", "unfinished"]
    assert (rows[0]["MRR base model"], rows[1]["MRR adapted"]) == ("50.00", "54.00")
    assert (rows[0]["gain in MRR"], rows[0]["cost"]) == ("+2.00", "12 s, 1.6 GB")
    assert rows[0]["kept"] == "step 4 (label-free)"


def test_seeds_of_a_comparison_are_one_row(which):
    done = collect([which]).runs[1].run
    change(done, adapted=results_of(gain=0.07).adapted)
    row = tables.runs_table(collect([which])).rows[0]
    assert (row["run"], row["n"], row["verdict"]) == ("dcl", "2", "2 adapted")
    assert (row["MRR base model"], row["MRR adapted"]) == ("50.00", "56.00 ± 1.41")
    assert row["kept"] == "step 4, step 4 (label-free)"
    assert tables.retrieval_table(collect([which])).rows[2]["state"] == "base model + BM25"
    assert tables.retrieval_table(collect([which])).rows[3]["MRR"] == "56.00 ± 1.41"
    lost = done.finished.other_text["definitions"]
    worse = replace(lost, adapted=0.64, gain=replace(lost.gain, mean=-0.02))
    change(done, other_text={"definitions": worse})
    other = tables.other_text_table(collect([which])).rows[0]
    assert (other["gain"], other["adapted"]) == ("-1.50 ± 0.71", "64.50 ± 0.71")


def test_sts_in_the_papers_columns(tmp_path):
    run = finish(write_run(tmp_path / "run", model="bert-base-uncased"), sts=True)
    table = tables.papers_table(collect([run.folder]))
    start, ours = table.rows
    assert table.columns == ("", "n", *STS, "base model", "selected on")
    assert (start[""], start["STS12"], start["selected on"]) == ("base model", "70.00", "")
    assert (ours[""], ours["STS12"], ours["Avg"]) == ("run", "75.00", "78.00")
    change(run, labels="stsb-dev")
    table = tables.papers_table(collect([run.folder]))
    assert table.rows[1]["selected on"] == "stsb-dev"
    assert "1,131" in table.note


def test_a_gain_is_without_what_selection_by_the_same_pairs_has_added(tmp_path):
    """Selection by the same pairs had added 4 points; the run ships the base model."""
    run = finish(write_run(tmp_path / "few"), 0.4386, 0.0597, model_step=0)
    found = run.finished
    ways = ("BM25", "base model + BM25", "adapted + BM25")
    verdict = replace(found.verdict, gain=replace(found.verdict.gain, mean=0.0162, candidates=9))
    change(run, verdict=verdict, with_bm25=dict.fromkeys(ways, LOST), split=False)
    [row] = tables.runs_table(collect([run.folder])).rows
    assert (row["run"], row["gain in MRR"]) == ("few (not shipped)", "+1.62")
    assert (row["MRR base model"], row["MRR adapted"]) == ("43.86", "49.83")
    rows = {row["state"]: row for row in tables.retrieval_table(collect([run.folder])).rows}
    result = rows["adapted (not shipped)"]
    assert result["MRR"] == "49.83"
    assert result["MRR over the base model"].startswith("+1.62 (")
    [lost] = tables.other_text_table(collect([run.folder])).rows
    assert lost["run"] == "few (not shipped)"


def test_transfer_tasks_in_the_papers_columns(which):
    found = collect([which])
    assert tables.transfer_table(found) is None
    row = dict.fromkeys(("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC"), 80.0)
    for named, average in zip(found.runs, (80.0, None), strict=False):
        named.run.write_transfer({"row": {**row, "Avg": average}, "row_protocol": "accuracy"})
    table = tables.transfer_table(found)
    [shown] = table.rows
    assert [shown[key] for key in ("", "n", "MR", "Avg")] == ["dcl", "2", "80.00", "80.00"]
    assert "Measured by: accuracy." in table.note
    change(found.runs[0].run, model_step=0)
    [shown] = tables.transfer_table(collect([which])).rows
    assert shown[""] == "dcl (base model kept by 1 of 2)"


def test_a_comparison_comes_with_its_verdict(which):
    found = collect([which])
    assert [named.name for named in found.runs] == [
        "dcl/seed-1", "dcl/seed-2", "simcse:head=none/seed-1", "simcse:head=none/seed-2",
    ]  # fmt: skip
    assert list(found.groups()) == ["dcl", "simcse:head=none"]
    comparison = read_results(which / "results.json")
    assert comparison.verdict.text.split(";")[0] in page_of(which)
    table = tables.comparison_table("which", comparison)
    assert [row[""] for row in table.rows] == list(comparison.scores)
    assert table.rows[1]["MRR"] == "52.00 ± 1.41"
    assert table.rows[1]["95 % interval"] == "+0.50 to +3.50"
    assert [row["validation MRR"] for row in table.rows] == ["", "54.00", "50.00"]
    assert tables.gains_table("which", comparison) is None  # no other score than that
    table = tables.bm25_table("which", comparison)
    mrr = {row[""]: row["MRR"] for row in table.rows}
    assert mrr == {"BM25": "40.00", "dcl + BM25": "49.00 ± 1.41"}
    assert table.rows[0]["MRR over the base model"] == "-3.00 (-5.00 to -1.00)"
    assert tables.other_text_gains_table("which", comparison).rows == [
        {"": "simcse:head=none", "definitions": "-1.00 (-2.00 to +0.00)"},
        {"": "dcl", "definitions": "+0.10 (-0.30 to +0.50)"},
    ]
    assert tables.other_text_gains_table("which", replace(comparison, other_text={})) is None


def test_runs_that_the_verdict_is_not_about_are_not_on_its_page(which):
    write_run(which / "dcl" / "seed-3")
    write_run(which / "scd" / "seed-1")
    assert list(collect([which]).groups()) == ["dcl", "simcse:head=none"]
    assert "seed-3" not in page_of(which)
    (which / "results.json").unlink()
    assert list(collect([which]).groups()) == ["dcl", "scd", "simcse_head=none"]
    assert "The comparison which is not finished" in page_of(which)
    names = [table.name for table in tables.all_tables(collect([which]))]
    assert names == ["runs", "retrieval", "other-text"]


def test_differences_say_what_they_show(tmp_path):
    found = write_comparison(tmp_path / "scored", sts=True)
    assert tables.gains_table("which", found).rows[0][""] == "Avg"
    [row] = tables.differences_table("which", found).rows
    assert list(row.values()) == [
        "simcse:head=none over dcl", "+5.00", "+3.00 to +7.00", "0.004", "shown",
    ]  # fmt: skip
    [ahead] = found.differences
    near = replace(ahead.gain, mean=0.001, low=-0.002, high=0.004)
    behind = replace(ahead, ahead="dcl", behind="simcse:head=none", gain=near, holm_p=0.5)
    unsure = replace(ahead, gain=replace(near, high=0.02), holm_p=0.5)
    [row] = tables.differences_table("which", replace(found, differences=(behind,))).rows
    assert (row[""], row["found"]) == ("dcl over simcse:head=none", "within a point")
    [row] = tables.differences_table("which", replace(found, differences=(unsure,))).rows
    assert row["found"] == "cannot tell"
    assert tables.differences_table("which", replace(found, differences=())) is None


def test_tables_in_both_formats(tmp_path):
    rows = [{"": "a_b & 50 %", "x": "1.00 ± 0.10"}, {"": "c|d -1", "x": "4e-05", "y, z": "<2>"}]
    written = write_tables([Table("runs", "A caption", rows, "A note.")], tmp_path / "page.html")
    assert [path.name for path in written] == ["page-runs.md", "page-runs.tex"]
    markdown, latex = (path.read_text(encoding="utf-8") for path in written)
    head = "A caption\n\n|  | x | y, z |\n|---|---|---|\n"
    body = "| a_b & 50 % | 1.00 ± 0.10 |  |\n"
    assert markdown == f"{head}{body}| c\\|d -1 | 4e-05 | <2> |\n\nA note.\n"
    assert latex.startswith("% A caption\n% A note.\n\\begin{tabular}{lrl}\n\\toprule\n & x & y, z")
    assert "\na\\_b \\& 50 \\% & 1.00 $\\pm$ 0.10 &  \\\\\n" in latex
    assert "\nc|d $-$1 & 4$\\cdot10^{-5}$ & <2> \\\\\n\\bottomrule\n" in latex


def test_other_text_before_and_after(tmp_path):
    run = finish(write_run(tmp_path / "one", seed=1))
    row = {"other text": "definitions", "base model": "66.00", "adapted": "65.00"}
    [shown] = tables.other_text_table(collect([run.folder])).rows
    assert shown.items() > (row | {"gain": "-1.00 (-2.00 to +0.00)"}).items()
    change(run, other_text={})
    assert tables.other_text_table(collect([run.folder])) is None
