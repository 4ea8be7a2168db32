"""Looks at encoders that are broken: nothing that is not a number gets into a run's files."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from isospace.encoders.encoder import Encoder
from isospace.encoders.parity import PROBES
from isospace.errors import Stopped, UserError
from isospace.training import checkpoint
from isospace.training.run import Run
from isospace.training.train import train
from isospace.views import View


def forbid(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.parametrize(("select", "updates"), [("label-free", 20), ("last", 1)])
def test_a_look_at_vectors_that_are_no_numbers_ends_the_run(config, select, updates):
    """The update before it had a finite loss and gradient; the evaluation comes first to see its end."""
    budget = {"evaluations": updates, "budget": (16 * updates, "sentences")}
    with pytest.raises(Stopped, match=r"diverged at step 1: .* is nan.*\(step 0\)"):
        train(replace(config, learning_rate=1e30, select=select, **budget))
    run = Run(config.output)
    state = checkpoint.load(run.last_checkpoint)
    assert state["step"] == 0
    assert all(value.isfinite().all() for value in state["encoder"].values())
    for line in run.metrics_path.read_text().splitlines():
        json.loads(line, parse_constant=forbid)


def test_a_base_model_whose_vectors_are_no_numbers_is_refused(config, monkeypatch):
    measured = {"pairs_mrr": math.nan}
    monkeypatch.setattr("isospace.training.fit.run_evaluation", lambda *_: measured)
    with pytest.raises(UserError, match=r"`model` .*pairs_mrr of the base model is nan"):
        train(config)


def test_an_evaluation_of_a_start_is_what_it_is_without_the_cache(config, monkeypatch, tmp_path):
    """Clean vectors of the base model are kept; a second run from it encodes none of them again."""
    monkeypatch.setenv("ISOSPACE_CACHE", str(tmp_path / "cache"))
    config = replace(config, select="last")
    first = train(replace(config, output=tmp_path / "first")).results.training.evaluations
    encoded = []
    embed = Encoder.embed

    def counted(encoder, texts, view=View(dropout=0.0), *rest, **options):  # noqa: B008 - frozen
        if tuple(texts) != PROBES:  # by which the base model is tried
            encoded.append(view.dropout == 0.0)
        return embed(encoder, texts, view, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "embed", counted)
        patch.setattr("isospace.training.fit.Fit._train", lambda *_: pytest.fail("far enough"))
        with pytest.raises(pytest.fail.Exception, match="far enough"):
            train(replace(config, output=tmp_path / "second"))
    assert encoded
    assert not any(encoded)
    monkeypatch.setattr("isospace.training.fit.cache_folder", lambda: None)
    assert train(replace(config, output=tmp_path / "third")).results.training.evaluations == first
