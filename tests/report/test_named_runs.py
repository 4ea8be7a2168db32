"""Runs that are named one by one: tested against each other, or the reason why not."""

from __future__ import annotations

import shutil

from report_runs import finish, write_run

from isospace.adaptation.adapt_config import AdaptConfig
from isospace.cli import main
from isospace.comparison.compare import candidate, compare
from isospace.objectives import SimCSE
from isospace.report.run_set import NAMED_RUNS, collect
from isospace.system.progress import Silent
from isospace.system.run_folder import ADAPT_SETTINGS

SEEDS = ("seed-0", "seed-1")


def test_named_runs_are_tested_as_a_comparison_tests_them(base, tmp_path, capsys):
    settings = {name: candidate(name, base) for name in ("dcl", "simcse")}
    wanted = compare(settings, 2, tmp_path / "which", progress=Silent())
    runs = [run.folder for run in map(lambda named: named.run, collect([tmp_path / "which"]).runs)]
    found = collect(runs).comparisons[NAMED_RUNS]
    assert found.differences == wanted.differences
    assert found.gains == wanted.gains
    assert found.verdict.kind == wanted.verdict.kind
    capsys.readouterr()
    page = tmp_path / "page.html"
    assert main(["report", *map(str, runs), "--output", str(page)]) == 0
    out = capsys.readouterr().out
    assert f"Comparison {NAMED_RUNS}: differences in MRR" in out
    assert found.verdict.text in out
    assert (tmp_path / "page-differences.csv").is_file()
    assert found.verdict.text[:20] in page.read_text()

    # A run of the same seed again is no further seed.
    again = shutil.copytree(runs[0], tmp_path / "again")
    assert collect([*runs, again]).untested == "dcl: two runs have the same seed. Name one of them"


def test_why_named_runs_are_not_tested_is_said(tmp_path, capsys):
    one = finish(write_run(tmp_path / "one"))
    hot = {"objective": SimCSE(temperature=0.2)}
    finish(write_run(tmp_path / "other", select="last", **hot))
    write_run(tmp_path / "begun", **hot)
    finish(write_run(tmp_path / "adapted", **hot))
    (tmp_path / "adapted" / ADAPT_SETTINGS).write_text(AdaptConfig().to_json())
    for name, reason in (
        ("other", "differ in `select`"),
        ("begun", "begun: is not finished"),
        ("adapted", "adapted: `adapt` made it"),
    ):
        found = collect([one.folder, tmp_path / name])
        assert NAMED_RUNS not in found.comparisons
        assert reason in found.untested
    words = ["report", str(one.folder), str(tmp_path / "other")]
    assert main([*words, "--output", str(tmp_path / "page.html")]) == 0
    assert "tests     none between these runs. " in capsys.readouterr().err
    assert collect([one.folder]).untested == ""
