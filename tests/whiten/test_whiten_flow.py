"""`whiten --kind flow`: a flow is chosen, judged and written by the way of a whitening."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from toy import sentences
from warm import run_together

from isospace.config import CorpusConfig
from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.operators.fitted_whitening import Whitening
from isospace.system import typed_json
from isospace.whiten.results import FILE, WhiteningResults
from isospace.whiten.whiten import whiten_model
from isospace.whiten.whiten_config import WhitenConfig

TEXTS = sentences(30, seed=3)


@pytest.fixture
def setting(toy_model: Path, toy_corpus: Path, tmp_path: Path) -> WhitenConfig:
    return WhitenConfig(
        model=str(toy_model),
        text=CorpusConfig(corpus=(str(toy_corpus),), near_duplicates=False),
        whitening=Whitening(kind="flow"),
        output=tmp_path / "out",
    )


def test_auto_has_the_choice_between_the_flow_and_the_model_as_it_is(setting):
    outcome = whiten_model(setting)
    assert list(outcome.candidates) == ["base model", "flow"]
    assert outcome.sentences == 360
    written = typed_json.read(setting.output / FILE, WhiteningResults, "results")
    assert written == outcome


def test_a_flow_that_is_asked_for_is_written_and_cited(setting):
    outcome = whiten_model(replace(setting, power=1))
    assert outcome.whitened
    assert "the whitened model (flow)" in outcome.text
    card = (setting.output / "README.md").read_text()
    assert "li-etal-2020-sentence" in card
    assert "whitened (flow)" in card
    ours = load_encoder(str(setting.output), device="cpu").embed(TEXTS)
    theirs = SentenceTransformer(str(setting.output), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert not np.allclose(ours, load_encoder(setting.model, device="cpu").embed(TEXTS), atol=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"power": 0.5}, r"`power` 0\.5: a flow goes all the way or not at all"),
        ({"whitening": Whitening(kind="flow", dim=8)}, "`dim` needs .*; got flow"),
        ({"whitening": Whitening(kind="flow", shrinkage=0.1)}, "no effect without `kind` pca or"),
    ],
)
def test_settings_that_a_flow_does_not_have_are_refused(setting, changes, message):
    with pytest.raises(UserError, match=message):
        whiten_model(replace(setting, **changes))
    assert not setting.output.exists()


@pytest.mark.exhaustive
def test_two_processes_equal_one(setting, tmp_path):
    """The vectors come in the order of the text, whichever process has encoded them."""
    setting = replace(setting, power=1)
    whiten_model(replace(setting, output=tmp_path / "1"))
    run_together(2, whiten_model, replace(setting, output=tmp_path / "2"))
    one, two = (load_encoder(str(tmp_path / n), device="cpu").embed(TEXTS) for n in ("1", "2"))
    np.testing.assert_allclose(two, one, atol=1e-3)
