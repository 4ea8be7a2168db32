"""Reports: the page of finished and unfinished runs, its pictures, and the command."""

import json

import numpy as np
import pytest
from report_runs import finish, page_of, write_run, write_sample

from isospace.cli import main
from isospace.config import CorpusConfig
from isospace.errors import UserError
from isospace.report.figures import curve, losses, spectrum
from isospace.report.run_set import collect


@pytest.fixture
def run(tmp_path):
    """A finished run with everything, and names that would break careless HTML."""
    return write_sample(finish(write_run(tmp_path / "a <run>", model="<b>evil</b>"), sts=True))


def values(chart, layer=0):
    made = chart.to_dict()
    data = made["layer"][layer].get("data", made.get("data"))
    return data["values"] if "values" in data else made["datasets"][data["name"]]


def test_pictures_hold_the_logged_values(run):
    found = collect([run.folder])
    drawn = values(losses(run))
    assert [row["sentences"] for row in drawn] == [64, 128, 192, 256]
    assert [row["loss"] for row in drawn] == [1, 1 / 2, 1 / 3, 1 / 4]
    assert drawn[-1]["mean"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    drawn = values(curve(found, "uniformity"))
    points = [(row["sentences"], row["value"]) for row in drawn]
    assert points == [(0, -2.0), (128, -2.2), (256, -2.4)]


def test_spectrum_of_known_singular_values():
    source = np.random.default_rng(0)
    left = np.linalg.qr(np.c_[np.ones(9), source.normal(size=(9, 3))])[0][:, 1:]  # centred columns
    right = np.linalg.qr(source.normal(size=(3, 3)))[0]
    vectors = left @ np.diag([6.0, 3.0, 1.0]) @ right + 5.0
    assert spectrum(vectors) == pytest.approx([0.6, 0.3, 0.1], abs=1e-9)
    assert spectrum(np.ones((5, 3), dtype=np.float32)).max() == 0.0


def test_an_unfinished_run_is_gone_on_with_by_a_command_that_works(tmp_path):
    page = page_of(write_run(tmp_path / "my run; x", text=CorpusConfig(corpus=("-",))).folder)
    command = f"isospace train --resume &#39;{tmp_path / 'my run; x'}&#39;"
    assert f"<code>{command}</code>, with the same text on standard input" in page


def test_page_is_self_contained_and_escaped(run):
    page = page_of(run.folder)
    assert "a &lt;run&gt;" in page
    for text in ("<run>", "<script", "<b>evil", "<b>processor", "<link", "@import"):
        assert text not in page
    assert "Content-Security-Policy\" content=\"default-src 'none'; " in page
    assert "<title>a &lt;run&gt;, 128 sentences: 0.52</title></path>" in page
    assert page.count("<svg") == 6
    assert "Adapted: yes." in page
    assert "60 held-out sentences" in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")
    ids = [part.split('"')[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))


def test_several_runs_need_a_file(run, tmp_path):
    other = write_run(tmp_path / "other" / "a <run>")
    with pytest.raises(UserError, match="`output`"):
        page_of(run.folder, other.folder)
    page = page_of(run.folder, other.folder, output=tmp_path / "both.html")
    assert page.count("<h2") == 4
    assert "isospace train --resume" in page  # the other one is not finished
    (tmp_path / "notes.txt").write_text("mine")
    for output in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(UserError, match=rf"^`output` {output}: "):
            page_of(run.folder, output=output)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_the_command(run, tmp_path, capsys):
    assert main(["report", str(run.folder), "--output", str(tmp_path / "p.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["verdict"] == "adapted"
    tables = ("other-text", "retrieval", "sts")
    written = {f"p-{table}.{suffix}" for table in tables for suffix in ("md", "tex")} | {"p.html"}
    assert {path.name for path in tmp_path.glob("p*")} == written
