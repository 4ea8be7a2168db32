"""What is refused before an encoder is loaded, such as sentences where documents are needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sentence_transformers.sentence_transformer.modules import Dense
from toy import sentences, short_run

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.modules import rebuilt
from isospace.errors import UserError
from isospace.objectives import ISBERT, TSDAE, DeCLUTR, PromptBERT, SimCSE
from isospace.training.build import parts_of
from isospace.training.prepare import require_usable

SPANS = DeCLUTR(min_span=4, max_span=16)


def config_for(toy_model, tmp_path, texts):
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    config = short_run(toy_model, file, tmp_path / "run")
    text = replace(config.text, passage_words=None)
    return replace(config, objective=SPANS, batch_size=8, text=text)


def test_states_of_another_width_than_the_vectors_are_refused(config, toy_model):
    encoder = load_encoder(str(toy_model), "mean", device="cpu")
    model = rebuilt(encoder.model, [*encoder.model, Dense(encoder.dim, 8)])
    narrow = Encoder(model, "narrow")
    for objective in (TSDAE(), ISBERT(), PromptBERT()):
        with pytest.raises(UserError, match=r"8 dimensions.* token states"):
            parts_of(replace(config, objective=objective), narrow)
    parts_of(replace(config, objective=SimCSE()), narrow)


def test_documents_serve(toy_model, tmp_path):
    texts = sentences(600)
    documents = [" ".join(texts[i : i + 10]) for i in range(0, 600, 10)]
    assert len(require_usable([config_for(toy_model, tmp_path, documents)]).corpus) == 60


def test_sentences_are_refused_before_the_encoder_is_loaded(toy_model, tmp_path):
    (tmp_path / "config.json").touch()
    config = replace(config_for(toy_model, tmp_path, sentences(60)), model=str(tmp_path))
    config = replace(config, objective=replace(SPANS, max_span=64))
    with pytest.raises(UserError, match=r"0 of \d+ texts have the 256 tokens.*Give documents"):
        require_usable([config])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"similar": 32}, "`similar` 32:"),
        (
            {"hold_to_base": 2e3},
            "`hold_to_base` 2000: with `learning_rate` 0.001 .* 1000 or less",
        ),
    ],
)
def test_sizes_that_do_not_go_together_are_refused(config, settings, message):
    with pytest.raises(UserError, match=message):
        require_usable([replace(config, model="no such model", **settings)])
