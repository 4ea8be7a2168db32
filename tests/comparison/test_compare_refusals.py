"""What cannot be compared is refused, before the first run where that can be known."""

from dataclasses import replace

import pytest
from report_runs import change
from sts_files import write_senteval

from isospace.cli import main
from isospace.comparison.compare import candidate, compare
from isospace.config import CorpusConfig
from isospace.errors import UserError
from isospace.objectives import WhitenedCSE
from isospace.system.progress import Silent
from isospace.training.run import Run


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("simsce:head=none", "simsce: no such objective. Did you mean simcse"),
        ("simcse:temprature=1", "temprature: no such field.*temperature"),
        ("simcse:dropout=high", "`dropout` 'high': expected a number"),
    ],
)
def test_bad_contestants_are_refused(base, text, words):
    with pytest.raises(UserError, match=words):
        candidate(text, base)


@pytest.mark.parametrize(
    ("rows", "verdict_on", "words"),
    [
        ({}, "pairs", "nothing to compare"),
        ({"simcse": {}}, "sts", r"`verdict_on` sts: .*`data`"),
        ({"simcse": {"text": CorpusConfig(corpus=("-",))}}, "pairs", "`corpus` -"),
        ({"base model": {}}, "pairs", "base model: "),
        (
            {"dcl": {}, "cut": {"objective": WhitenedCSE(groups=5)}},
            "pairs",
            "32 dimensions cannot be cut into 5 groups",
        ),
        (
            {"dcl": {}, "scd": {"pooling": "last2", "other_text": ("other.txt",)}},
            "pairs",
            "dcl and scd differ in `pooling`, `other_text`",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_before_the_first_run(
    base, tmp_path, rows, verdict_on, words
):
    settings = {name: replace(base, **changes) for name, changes in rows.items()}
    with pytest.raises(UserError, match=words):
        compare(settings, 1, tmp_path / "c", verdict_on)
    assert not (tmp_path / "c").exists()


def test_an_average_that_the_labels_leave_nothing_of_is_refused_first(base, tmp_path):
    write_senteval(tmp_path / "sts")
    labels = tmp_path / "labels.tsv"
    labels.write_text("0 a\t70 b\t5\n0 a\t5 b\t1\n")
    chosen = replace(base, data=str(tmp_path / "sts"), select="labels", labels=str(labels))
    with pytest.raises(UserError, match=r"labels\.tsv, leave too few test pairs of STS-B, SICK-R"):
        compare({"simcse": chosen}, 1, tmp_path / "c", "sts")
    assert not (tmp_path / "c").exists()


def test_the_results_of_something_else_stay(base, tmp_path):
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(UserError, match=r"holds results\.json or .* of something else"):
        compare({"dcl": candidate("dcl", base)}, 1, tmp_path)
    assert (tmp_path / "report.html").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["simcse", "--recipe", "dropout"], "simcse and --recipe dropout: a comparison is of"),
        (["--recipe", "simcse-bert-bas"], "Did you mean simcse-bert-base"),
    ],
)
def test_recipes_that_cannot_be_compared(tmp_path, capsys, words, told):
    assert main(["compare", *words, "--output", str(tmp_path / "c")]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_cells_of_other_settings_or_another_text_are_refused(base, tmp_path, toy_corpus):
    """Gains are taken item by item, so that all runs need the same items."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(toy_corpus.read_text())
    base = replace(base, text=replace(base.text, corpus=(str(corpus),)))
    settings = {"simcse": candidate("simcse", base)}
    compare(settings, 1, tmp_path / "c")
    other = {"simcse": replace(settings["simcse"], learning_rate=1e-3)}
    with pytest.raises(UserError, match=r"learning_rate was 3e-05, is 0\.001"):
        compare(other, 1, tmp_path / "c")
    with corpus.open("a") as file:
        file.write("one more sentence that nobody has read before\n")
    with pytest.raises(UserError, match=r"seed-42: .*corpus"):
        compare(settings, 2, tmp_path / "c")
    assert (tmp_path / "c" / "results.json").is_file()
    corpus.write_text(toy_corpus.read_text())
    moved = (tmp_path / "c").rename(tmp_path / "moved")
    same = {"simcse": replace(settings["simcse"], checkpoint_minutes=9.0)}
    compare(same, 2, moved)
    change(Run(moved / "simcse" / "seed-43"), benchmark="other")
    with pytest.raises(UserError, match=r"seed-42 and .*seed-43"):
        compare(same, 2, moved)


def test_a_folder_where_another_comparison_runs_is_refused(base, tmp_path):
    settings = {"simcse": candidate("simcse", base)}

    class Another(Silent):
        """Compares in the same folder as soon as a run has begun."""

        def line(self, label, text):
            if label == "train":
                with pytest.raises(UserError, match="another process"):
                    compare(settings, 1, tmp_path / "c")
                asked.append(label)

    asked = []
    compare(settings, 1, tmp_path / "c", progress=Another())
    assert asked == ["train"]
    compare(settings, 1, tmp_path / "c")  # it has let go
