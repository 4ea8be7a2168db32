"""The tables of a report: runs, comparisons, the papers' columns, and their three formats."""

from dataclasses import replace

import pytest
from report_runs import LOST, STS, change, finish, page_of, results_of, write_comparison, write_run

from isospace.comparison.results import read_results
from isospace.config import AdaptConfig, CorpusConfig
from isospace.encoders.places import ADAPT_SETTINGS
from isospace.objectives import ConSERT, SimCSE
from isospace.recipes import RECIPES
from isospace.report import tables
from isospace.report.run_set import collect
from isospace.system import typed_json
from isospace.system.tables import Table, write_tables


@pytest.fixture
def which(tmp_path):
    write_comparison(tmp_path / "which")
    return tmp_path / "which"


def test_runs_that_differ_in_more_than_their_seed_are_several_rows(tmp_path):
    facts = results_of().corpus
    changed = replace(facts, digest="b" * 64)
    finish(write_run(tmp_path / "1", seed=1), corpus=replace(facts, digest="a" * 64))
    finish(write_run(tmp_path / "2", seed=2), corpus=changed)
    finish(write_run(tmp_path / "3", seed=3, text=CorpusConfig(corpus=("a/notes.txt",))))
    finish(write_run(tmp_path / "4", seed=4, text=CorpusConfig(corpus=("b/notes.txt",))))
    for name, option in (("5", True), ("6", False)):
        finish(write_run(tmp_path / name, objective=ConSERT(with_dropout=option)))
    for name, minutes in (("7", 6.0), ("8", 20.0)):
        finish(write_run(tmp_path / name))
        typed_json.write(tmp_path / name / ADAPT_SETTINGS, AdaptConfig(budget=(minutes, "minutes")))
    for names in ("12", "34", "56", "78"):
        assert list(collect([tmp_path / name for name in names]).groups()) == list(names)


def test_seeds_are_one_row_and_other_settings_another(tmp_path):
    for seed, gain in ((1, 0.02), (2, 0.04)):
        finish(write_run(tmp_path / f"s{seed}", seed=seed), gain=gain)
    finish(write_run(tmp_path / "hot", objective=SimCSE(temperature=0.2)))
    write_run(tmp_path / "s3", seed=3)
    rows = tables.runs_table(collect([tmp_path / name for name in ("s1", "s2", "hot", "s3")])).rows
    assert [row["run"] for row in rows] == ["s1, s2", "hot", "s3"]
    assert [row["objective"] for row in rows] == ["simcse"] * 3
    assert (rows[0]["n"], rows[0]["verdict"]) == ("2", "2 adapted")
    assert (rows[0]["MRR base model"], rows[0]["MRR adapted"]) == ("50.00", "53.00 ± 1.41")
    assert (rows[0]["gain in MRR"], rows[0]["cost"]) == ("+3.00", "12 s, 1.6 GB")
    assert rows[0]["kept"] == "step 4, step 4 (label-free)"
    assert (rows[1]["MRR adapted"], rows[2]["verdict"]) == ("55.00", "unfinished")


def test_published_rows_are_marked_and_grouped_by_their_start(tmp_path):
    run = finish(write_run(tmp_path / "run", model="bert-base-uncased"), sts=True)
    table = tables.papers_table(collect([run.folder]))
    start, ours, same, *others = table.rows
    assert table.columns == ("", "n", *STS, "base model", "source")
    assert (start["source"], start["STS12"]) == ("ours", "70.00")
    assert (ours["source"], ours["STS12"], ours["Avg"]) == ("ours", "75.00", "78.00")
    assert same[""] == "simcse-bert-base, published"
    assert same["source"] == "published: SimCSE, Table 5"
    assert same["base model"] == "bert-base-uncased, cls"
    assert float(same["Avg"]) == RECIPES["simcse-bert-base"].published["Avg"]
    # SimCSE's authors have rows of bert-large-uncased, roberta-base and roberta-large too.
    assert {row["base model"] for row in others} == {"bert-base-uncased, cls"}
    assert page_of(run.folder).count('<tr class="published">') == len(others) + 1


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


def test_transfer_tasks_stand_beside_the_published_ones(tmp_path):
    model = "/models/bert-base-uncased"  # a folder of the papers' model
    runs = [finish(write_run(tmp_path / str(n), seed=n, model=model)) for n in (1, 2)]
    found = collect([run.folder for run in runs])
    assert tables.transfer_table(found) is None
    row = dict.fromkeys(("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC"), 80.0)
    for run, average in zip(runs, (80.0, None), strict=True):
        run.write_transfer({"row": {**row, "Avg": average}, "row_protocol": "accuracy"})
    table = tables.transfer_table(found)
    ours, first, *others = table.rows
    shown = [ours[key] for key in ("n", "MR", "Avg", "source")]
    assert shown == ["2", "80.00 ± 0.00", "80.00", "ours"]
    assert "Ours by: accuracy." in table.note
    name = first[""].removesuffix(", published")
    assert first["SST2"] == f"{RECIPES[name].published_transfer['SST2']:.2f}"
    assert not tables.is_published(ours)
    assert all(map(tables.is_published, (first, *others)))


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
    one = finish(write_run(tmp_path / "one", seed=1))
    row = {"other text": "definitions", "base model": "66.00", "adapted": "65.00"}
    [shown] = tables.other_text_table(collect([one.folder])).rows
    assert shown.items() > (row | {"gain": "-1.00 (-2.00 to +0.00)"}).items()
    other = finish(write_run(tmp_path / "two", seed=2))
    lost = one.finished.other_text["definitions"]
    worse = replace(lost, adapted=0.64, gain=replace(lost.gain, mean=-0.02))
    change(other, other_text={"definitions": worse})
    [shown] = tables.other_text_table(collect([one.folder, other.folder])).rows
    assert shown.items() > (row | {"adapted": "64.50 ± 0.71", "gain": "-1.50 ± 0.71"}).items()
    for run in (one, other):
        change(run, other_text={})
    assert tables.other_text_table(collect([one.folder, other.folder])) is None
