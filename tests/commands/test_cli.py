"""Every command as a user types it: output, exit status, no traceback."""

import json
import os
import shlex
import subprocess
import sys

import pytest
from command_line import run, run_well
from toy import sentences

from isospace.cli import _parse
from isospace.recipes import find


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train"], "--corpus is missing"),
        (["train", "--resume", "no-such-run"], "not a run (no such folder)"),
        (["train", "--budget", "--seed", "3"], "--budget: expected a number"),
        (["train", "--budget", "10", "--seed", "3"], "--budget: expected a number"),
        (["train", "--budget", "10", "minuts"], "--budget minuts: expected sentences, tokens"),
        (["train", "--modle", "y"], "--modle: no such option. Did you mean --model"),
        (["trian", "x"], "trian: no such command. Did you mean train?"),
        (
            ["train", "--precision=bf61"],
            "isospace: --precision bf61: expected auto, bf16 or float32. `isospace train --help-all`",
        ),
        (["whiten", "--by", "words"], "isospace: --by words: expected pairs or texts. `iso"),
        (["whiten", "--power", "half"], "isospace: --power half: expected a number or auto."),
        (["whiten", "--model", "x"], "isospace: --model: write its value alone, without"),
        (["adapt", "--max-drop", "x"], "isospace: --max-drop x: expected a number. `iso"),
        (["train", "simcse", "--head", "x"], "isospace: --head x: expected "),
        (["train", "--seed", "3", "simsce"], "simsce: no such objective. Did you mean simcse"),
        (["train", "--corpus", "x", "simsce"], "simsce: no such objective. Did you mean simcse"),
        (
            ["train", "vicreg", "--temperature=x"],
            "`isospace train vicreg --help` lists the options",
        ),
        (["train", "simcse", "vicreg"], "isospace: vicreg: a training has one objective. `iso"),
        (["train", "simcse", "--temprature", "1"], "no such option. Did you mean --temperature"),
        (["train", "--seed", 99 * "x"], f"--seed {99 * 'x'}: expected a whole number. `iso"),
        (["train", "--seed", 5_000 * "9"], "9: expected a whole number of at most 4,300 digits"),
        (["encode", "minilm", "t.txt", "-o", ""], "--output (empty): expected a path. `iso"),
        (["search", "x", "--index="], "--index (empty): expected a path. `iso"),
        (["encode"], "isospace: MODEL and --output: missing. `isospace encode --help` lists"),
        (["search", "--hybrid=yes", "x"], "isospace: --hybrid: ignored explicit argument 'yes'"),
        (["encode", "--bogus"], "--bogus: no such option"),
        (["encode", "-x"], "isospace: -x: no such option. `isospace encode --help` lists all"),
        (["adapt", "-x"], "isospace: -x: no such option. `isospace adapt --help-all` lists all"),
        (["train", "--corpus", "x", "--model", "./nowhere"], "./nowhere: not a folder"),
        (["train", "--resume", "run", "--seed", "3"], "Leave other settings out"),
    ],
)
def test_bad_words_exit_with_2_and_say_why_in_a_line(capsys, monkeypatch, words, message):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert message in err.splitlines()[-1]


def test_train_then_report_and_evaluate(capsys, toy_model, toy_corpus, tmp_path):
    run_folder = tmp_path / "run"
    words = ["train", "--corpus", toy_corpus, "--model", toy_model, "--batch-size", "16"]
    words += ["--budget", "64", "sentences", "--evaluations", "1", "--output", run_folder]
    out, err = run_well(capsys, *words)
    assert out == ""
    assert "verdict" in err
    ended = err[err.index("\nverdict ") :].strip().splitlines()
    assert len(ended) <= 6
    assert "SentenceTransformer(" in ended[-2]
    assert ended[-1].split() == ["report", str(run_folder / "report.html")]

    out, _ = run_well(capsys, "report", run_folder, "--json")
    assert json.loads(out)["runs"][0]["objective"] == "simcse"

    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{a}\t{a} and more\n" for a in sentences(20)), encoding="utf-8")
    for model in (run_folder, run_folder / "model"):
        out, _ = run_well(capsys, "evaluate", model, "--own", pairs, "--json")
        assert json.loads(out)["own"][0]["n"] == 20
    out, _ = run_well(capsys, "evaluate", run_folder, "--own", pairs)
    assert "MRR" in out


def test_train_prints_json_only_when_asked(capsys, toy_model, toy_corpus, tmp_path):
    words = ["train", "--json", "--corpus", toy_corpus, "--model", toy_model, "--evaluations", "1"]
    words += ["--budget", "64", "sentences", "--output", tmp_path / "run", "whitenedcse"]
    out, err = run_well(capsys, *words)
    assert err == ""
    found = json.loads(out)
    assert found["config"]["objective"]["name"] == "whitenedcse"
    assert found["use"].startswith("Use ")
    assert found["load_it"] == f'SentenceTransformer("{tmp_path / "run" / "model"}")'


@pytest.mark.parametrize(
    ("words", "buffered", "output", "status", "said"),
    [
        ("train --help", "", "| true", 1, ""),  # a reader that has seen enough
        ("--version", "", "| true", 1, ""),
        ("--version", "1", "> /dev/full", 1, "isospace: [Errno 28] No space left on device\n"),
        ("--version", "", ">&-", 0, ""),
    ],
)
def test_what_cannot_be_printed_is_no_traceback(words, buffered, output, status, said):
    script = f"set -o pipefail; {shlex.quote(sys.executable)} -m isospace {words} {output}"
    environment = os.environ | {"PYTHONUNBUFFERED": buffered}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, stderr=subprocess.PIPE, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (status, said)


def test_an_error_is_one_line_that_cannot_steer_the_terminal(capsys, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"te\x1b[2Jxt\nsecond",b\nc,d\n')
    status, out, err = run(capsys, "train", "--corpus", str(path))
    assert (status, out) == (2, "")
    assert "a.csv" in err
    assert "te [2Jxt second" in err
    assert [line.split()[0] for line in err.splitlines()] == ["reading", "isospace:"]
    assert err.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "words",
    [
        "--batch-size=8 --seed 3",
        "--seed 3 --batch-size 8 simcse",
        "simcse --seed 3 --batch-size 8",
        "--seed 3 --batch-size 8 --no-near-duplicates simcse",
        "--seed 3 --batch-size 8 -oruns simcse",
    ],
)
def test_options_have_one_meaning_in_every_spelling(words):
    config = _parse(["train", "--corpus", "a", "b", *words.split()]).config
    assert (config.text.corpus, config.batch_size, config.seed) == (("a", "b"), 8, 3)


def test_an_option_of_many_words_may_be_repeated_and_another_counts_last():
    config = _parse("adapt a --corpus b c --corpus d --seed 3 --seed 4".split()).config
    assert (config.text.corpus, config.seed) == (("b", "c", "d"), 4)
    recipes = "--recipe simcse-bert-base --recipe pairs"
    assert [*_parse(f"compare {recipes}".split()).recipe_settings] == ["simcse-bert-base", "pairs"]
    assert _parse(f"train {recipes} simcse".split()).config.budget == find("pairs").config.budget


@pytest.mark.parametrize("words", ["--temperature 2 simcse", "simcse --temperature 2"])
def test_options_of_an_objective_stand_anywhere(words):
    objective = _parse(["train", *words.split(), "--budget", "1", "minute"]).objective
    assert (type(objective).__name__, objective.temperature) == ("SimCSE", 2)


@pytest.mark.parametrize("words", [["--budget", "2 minutes"], ["--budget=2 minutes"]])
def test_an_amount_may_be_one_word(words):
    assert _parse(["adapt", *words, "2 minutes"]).config.budget == (2, "minutes")


def test_none_is_the_value_of_a_setting_that_may_be_missing():
    words = ["encode", "None", "a", "-o", "x", "--as", "None", "--passage-words", "None"]
    config = _parse(words).config
    assert (config.model, config.side, config.reading.passage_words) == ("None", None, None)
    assert _parse(["adapt", "a", "--output", "None"]).config.output is None


def test_words_of_a_command_may_begin_with_a_hyphen():
    assert _parse(["search", "-k5", "--", "-x", "--hybrid"]).queries == ("-x", "--hybrid")
    assert _parse(["search", "-", "--where", "-1 < year", "-k", "5"]).where == "-1 < year"
