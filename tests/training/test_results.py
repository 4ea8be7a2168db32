"""Results of a run: the checkpoint that is chosen, the origin of the model, results.json."""

import json
import math
import re
from dataclasses import replace

import pytest
from report_runs import results_of

from isospace.errors import UserError
from isospace.training.card import CLASSIC, plain_card
from isospace.training.results import Origin, read_results, select_checkpoint, write_results


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
        (lambda text: re.sub('"format": [0-9]+', '"format": 99', text), "another version .* 99"),
    ],
)
def test_a_damaged_file_is_named_with_the_field(tmp_path, change, words):
    path = tmp_path / "results.json"
    write_results(path, results_of())
    path.write_text(change(json.dumps(json.loads(path.read_text()), indent=2)))
    with pytest.raises(UserError, match=words):
        read_results(path)


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("---\nlanguage: en\nlicense: apache-2.0\ntags: [a]\n---\n# x", "apache-2.0"),
        ('---\nlicense: "mit"  \n---\n', "mit"),
        ("---\nlanguage: en\n---\nlicense: mit\n", None),
        ("license: mit\n", None),
    ],
)
def test_the_licence_is_what_the_models_card_states(tmp_path, text, licence):
    (tmp_path / "README.md").write_text(text)
    assert Origin.from_model(str(tmp_path)) == Origin(tmp_path.name, None, licence)
    card = plain_card(str(tmp_path), "", CLASSIC)
    assert (f"license: {licence}\n" in card) == (licence is not None)


def evaluation(step, mrr, rank=100.0, overlap=0.8, labels=0.0):
    kept = {"step": step, "pairs_mrr": mrr, "labels_spearman": labels}
    return kept | {"effective_rank": rank, "neighbour_overlap": overlap}


BASE = evaluation(0, 0.5, overlap=1.0, labels=0.8)


@pytest.mark.parametrize(
    ("evaluations", "by_pairs", "last"),
    [
        ([evaluation(1, 0.7), evaluation(2, 0.6)], 1, 2),
        ([evaluation(1, 0.4), evaluation(2, 0.45)], 0, 2),  # nothing beats the base model
        ([evaluation(1, 0.5)], 0, 1),  # a tie keeps the base model
        ([evaluation(1, 0.9, rank=49.0), evaluation(2, 0.6)], 2, 2),  # collapsed rank
        ([evaluation(1, 0.6), evaluation(2, 0.9, overlap=0.05)], 1, 1),  # neighbours lost
        ([evaluation(1, math.nan), evaluation(2, 0.3)], 0, 2),
        ([evaluation(1, 0.9, rank=math.nan)], 0, 0),
    ],
)
def test_label_free_with_natural_pairs_and_without(evaluations, by_pairs, last):
    found = [select_checkpoint([BASE, *evaluations], "label-free", by) for by in (True, False)]
    assert [choice.step for choice in found] == [by_pairs, last]
    assert [choice.criterion for choice in found] == ["pairs_mrr", "step"]


def test_labels_and_last():
    later = [evaluation(n, 0.9 / n, labels=x) for n, x in ((1, 0.7), (2, 0.9), (3, 0.85))]
    assert select_checkpoint([BASE, *later], "labels", False).step == 2
    assert select_checkpoint([BASE, *later], "last", True).step == 3
    assert select_checkpoint([BASE, later[0]], "labels", True).step == 0


def test_a_base_model_that_does_not_compete_is_kept_where_all_else_has_collapsed():
    def chosen(*evaluations):
        return select_checkpoint([BASE, *evaluations], "label-free", True, base_competes=False)

    assert chosen(evaluation(5, 0.45), evaluation(9, 0.4)).step == 5
    assert chosen(evaluation(5, 0.45, rank=10.0), evaluation(9, 0.4)).step == 9
    kept = chosen(evaluation(9, 0.4, rank=10.0))
    assert (kept.step, kept.collapsed) == (0, (9,))
    assert chosen().step == 0
