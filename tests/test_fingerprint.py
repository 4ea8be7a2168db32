"""Recorded numbers of training and evaluation: the mathematics stays the same to 1e-9.

Training is on the toy in float64, where machines differ in the last bits alone. Evaluations are of
vectors that a generator draws for each text, so that no encoder's rounding is in them.
`PYTHONPATH=tests/support python tests/test_fingerprint.py` adds the objectives that the file lacks.
Delete the file first to record all numbers anew: that is a change of results, to be explained.
"""

import json
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from accelerate import Accelerator
from toy import sentences, write_toy_model

from isospace.config import TrainConfig
from isospace.corpus.lines import tokenise
from isospace.encoders.loading import load_encoder
from isospace.evaluation import retrieval
from isospace.evaluation.benchmark import HeldOut
from isospace.evaluation.pairs import TextPairs
from isospace.evaluation.transfer import nested_k_fold
from isospace.objectives import OBJECTIVES
from isospace.training.build import build_training
from isospace.training.examples import Examples
from isospace.training.loop import Loop

RECORD = Path(__file__).with_suffix(".json")
NEEDS_MORE = ("declutr", "tsdae", "diffcse", "sbert-softmax", "rankcse")
"""Objectives that need documents, a decoder, labels or a teacher, and not sentences alone."""
NAMES = tuple(name for name in OBJECTIVES if name not in NEEDS_MORE)
SMALL = {name: {"projector": (16, 16)} for name in ("scd", "barlow-twins", "vicreg")}
TEXTS = sentences(120)


def train(model, cache, name):
    """20 updates of one objective: losses, gradient norms, weights, retrieval by the result."""
    objective = OBJECTIVES[name](**SMALL.get(name, {}))
    config = TrainConfig(objective=objective, batch_size=16, learning_rate=1e-3, seed=7)
    encoder = load_encoder(str(model), device="cpu").double()
    tokens = tokenise(TEXTS, "texts", encoder.tokens.ids, encoder.tokens.fingerprint(None), cache)
    examples = Examples.from_lines(np.arange(len(TEXTS)))
    loop = Loop(build_training(config, encoder, [tokens], examples, Accelerator(cpu=True)), 20)
    loop.training.head.double()
    steps = list(loop)
    first = encoder.model[0].model.encoder.layer[0].attention.self.query.weight
    words = encoder.model[0].model.embeddings.word_embeddings.weight
    found = retrieval.evaluate_retrieval(encoder.embed, retrieval.halves(TEXTS))
    return {
        "losses": [step.loss for step in steps],
        "gradient norms": [step.gradient_norm for step in steps],
        "weights": [*first[0, :4].tolist(), *words[20, :4].tolist()],
        "head": [float(p.detach().sum()) for p in loop.training.head.parameters()],
        "MRR": found.mrr,
    }


def vectors(texts):
    """(text, 24) drawn from a generator that the text seeds; a common part makes cosines differ."""
    rows = []
    for text in texts:
        seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
        rows.append(np.random.default_rng(seed).standard_normal(24))
    words = [[len(text), text.count("a"), text.count("e")] * 8 for text in texts]
    return np.array(rows) + 0.05 * np.array(words)


def evaluate():
    """Measures of held-out text, and SentEval's nested folds, of drawn vectors."""
    x, pairs = vectors(TEXTS), TextPairs("", tuple(TEXTS[:60]), tuple(TEXTS[60:]))
    noisy = x[:, 0] + np.random.default_rng(2).standard_normal(len(x))  # says the label in part
    outcome = nested_k_fold(x.astype(np.float32), (noisy > np.median(noisy)).astype(int))
    measured = HeldOut(TEXTS, pairs).measure(vectors, lambda t: vectors([f"{x}." for x in t]))
    return {"held out": measured.values, "classifier": [outcome.dev, outcome.test]}


def numbers(value):
    """The same, with numbers that are compared to 1e-9."""
    if isinstance(value, dict):
        return {key: numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [numbers(part) for part in value]
    return pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value


@pytest.mark.parametrize("name", NAMES)
def test_twenty_updates_are_those_recorded(toy_model, tmp_path, name):
    recorded = json.loads(RECORD.read_text())["training"]
    assert name in recorded, __doc__
    assert train(toy_model, tmp_path, name) == numbers(recorded[name])


def test_evaluations_are_those_recorded():
    assert evaluate() == numbers(json.loads(RECORD.read_text())["evaluation"])


def record():
    """Write what the file of the tests lacks."""
    content = json.loads(RECORD.read_text()) if RECORD.exists() else {"evaluation": evaluate()}
    known = content.get("training", {})
    with tempfile.TemporaryDirectory() as folder:
        model = write_toy_model(Path(folder, "bert"))
        found = {name: known.get(name) or train(model, Path(folder), name) for name in NAMES}
    content = {"training": found, "evaluation": content["evaluation"]}
    RECORD.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(record())
