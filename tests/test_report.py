from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from isospace.config import TrainConfig
from isospace.errors import UserError
from isospace.report import curves, runs_table, write_curves, write_report
from isospace.run import Run


@pytest.fixture
def run(tmp_path) -> Run:
    """An unfinished run with a corpus name that would break careless HTML."""
    run = Run.create(TrainConfig(model="<b>evil</b>", output=tmp_path / "a <run>"))
    for step in range(1, 5):
        run.log("step", {"step": step, "sentences": 64 * step, "terms": {"info_nce": 1 / step}})
    for step in (0, 2, 4):
        look = {"pairs_mrr": 2.0 - step / 10, "alignment": 0.2, "uniformity": -2.0 - step / 10}
        run.log("look", {"step": step, **look, "effective_rank": 10.0})
    return run


def test_curves_hold_the_logged_values(run):
    losses, criterion, space, rank = curves(run).axes
    raw, smooth = losses.get_lines()
    assert list(raw.get_xdata()) == [64, 128, 192, 256]
    assert list(raw.get_ydata()) == [1, 1 / 2, 1 / 3, 1 / 4]
    assert list(smooth.get_ydata())[-1] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert list(criterion.get_lines()[0].get_xdata()) == [0, 128, 256]
    assert list(criterion.get_lines()[0].get_ydata()) == [2.0, 1.8, 1.6]
    assert [line.get_label() for line in space.get_lines()] == ["alignment", "uniformity"]
    assert list(rank.get_lines()[0].get_ydata()) == [10.0] * 3


def test_page_is_self_contained_and_escaped(run):
    page = write_report(run).read_text(encoding="utf-8")
    assert "<svg" in page
    assert "a &lt;run&gt;" in page
    assert "isospace train --resume" in page
    assert not any(word in page for word in ("<script src", "<link", "@import", "<b>evil"))
    assert runs_table([run])[0]["verdict"] == "unfinished"


def test_several_runs_need_a_file(run, tmp_path):
    with pytest.raises(UserError, match="--output"):
        write_report([run, run])
    assert write_report([run, run], tmp_path / "both.html").read_text().count("<h2>") == 2


def test_pictures_by_suffix(run, tmp_path):
    write_curves(run, tmp_path / "new" / "curves.svg")
    ElementTree.parse(tmp_path / "new" / "curves.svg")
    with pytest.raises(UserError, match=r"curves\.xyz"):
        write_curves(run, tmp_path / "curves.xyz")


def test_a_torn_last_line_is_left_out_and_rewound(run):
    with run.metrics_path.open("a") as file:
        file.write('{"kind": "step", "st')
    assert len(run.metrics()) == 7
    run.rewind(2)
    assert [line["step"] for line in run.metrics()] == [1, 2, 0, 2]
    assert all(json.loads(line) for line in run.metrics_path.read_text().splitlines())
