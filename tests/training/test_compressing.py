"""`isospace evaluate --compress`: the table of forms, on a run, pairs, judged queries."""

import json

import numpy as np
import pytest
from sts_files import write

from isospace.cli import main
from isospace.evaluation.pairs import TextPairs, sided
from isospace.training.compressing import MOST_LOST, measure_forms

RANDOM = np.random.default_rng(0)
CENTRES = RANDOM.normal(size=(400, 32)).astype(np.float32) + 0.5
NOISE = RANDOM.normal(size=(400, 32)).astype(np.float32)


def encode(texts):
    """The text "7 q" lies near "7 d"."""
    numbers = [int(text.split()[0]) for text in texts]
    far = np.array([[1.2 * text.endswith("q")] for text in texts], np.float32)
    return CENTRES[numbers] + far * NOISE[numbers]


def pairs(numbers):
    first, second = (tuple(f"{n} {side}" for n in numbers) for side in "qd")
    return TextPairs("pairs", first, second, groups=tuple(map(str, numbers)))


def test_the_smallest_form_is_selected_on_validation_pairs_and_measured_on_test_pairs():
    test, validation = pairs(range(200)), pairs(range(200, 400))
    found = measure_forms(sided(encode), "m", test, "200 pairs", validation)
    assert list(found.forms) == ["float32", "float16", "int8", "binary", "binary-rescored"]
    assert [form.bytes for form in found.forms.values()] == [128, 64, 32, 4, 36]
    full = found.forms["float32"]
    bits, int8 = found.forms["binary"], found.forms["int8"]
    assert bits.changes["MRR"].mean == pytest.approx(bits.values["MRR"] - full.values["MRR"])
    assert bits.changes["MRR"].high < -0.02
    assert abs(int8.changes["MRR"].mean) < 0.01
    assert bits.lost > MOST_LOST
    # Fewest bytes of those that lose little on other pairs than those of the table.
    good = {form.bytes for form in found.forms.values() if form.lost <= MOST_LOST}
    assert found.forms[found.smallest].bytes == min(good)
    again = measure_forms(sided(encode), "m", test, "")
    assert again.forms["binary"].lost != found.forms["binary"].lost


def test_a_run_is_measured_on_its_test_pairs(finished_run, capsys):
    assert main(["evaluate", str(finished_run.folder), "--compress", "--json"]) == 0
    [shown] = json.loads(capsys.readouterr().out)
    results = finished_run.finished
    mrr = shown["forms"]["float32"]["values"]["MRR"]
    assert mrr == pytest.approx(results.adapted.pairs.mrr, abs=1e-6)
    assert f"{results.adapted.pairs.queries:,} test pairs of the run" in shown["tested_on"]


def test_own_pairs_and_judged_queries_are_measured(toy_model, tmp_path, capsys):
    words = ["the cat", "a dog", "big house", "red tree", "old city", "new river"]
    rows = [f"{word} runs\t{word} sat on the mat" for word in words]
    (tmp_path / "pairs.tsv").write_text("\n".join(rows))
    judged = tmp_path / "judged"
    lines = "\n".join(json.dumps({"_id": word, "text": f"{word} runs"}) for word in words)
    write(judged / "queries.jsonl", lines)
    write(judged / "corpus.jsonl", lines.replace("runs", "sat on the mat"))
    write(judged / "qrels" / "test.tsv", "\n".join(f"{w}\t{w}\t1" for w in words))
    own = [str(tmp_path / "pairs.tsv"), str(judged)]
    assert main(["evaluate", str(toy_model), "--compress", "--own", *own, "--json"]) == 0
    of_pairs, of_queries = json.loads(capsys.readouterr().out)
    assert list(of_pairs["forms"]["int8"]["changes"]) == ["MRR", "nDCG@10"]
    assert list(of_queries["forms"]["int8"]["changes"]) == ["MRR@10", "nDCG@10"]


def test_what_cannot_be_measured_is_refused(toy_model, capsys):
    for words, named in (((), "--corpus"), (("--bm25-weight", "3"), "--bm25-weight")):
        assert main(["evaluate", str(toy_model), "--compress", *words]) == 2
        assert named in capsys.readouterr().err
