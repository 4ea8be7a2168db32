"""Decoders as encoders: read at the last token, with their own mask or without it."""

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from toy import sentences
from toy_decoder import END, write_toy_decoder

from isospace.encoders.encoder import PROBES
from isospace.encoders.loading import is_causal, load_encoder
from isospace.encoders.saving import save_model

TEXTS = [*sentences(20), "x", *PROBES]


@pytest.mark.parametrize("family", ["qwen3", "llama", "llama, padded left", "gemma", "gpt2"])
def test_a_folder_is_read_at_the_last_token_as_sentence_transformers_reads_it(tmp_path, family):
    """Of the same folder, and of the one that is written; the empty text too."""
    family, *left = family.split(", ")
    folder = write_toy_decoder(tmp_path / "decoder", family, "left" if left else "right")
    encoder = load_encoder(str(folder), device="cpu")
    assert encoder.pooling == "lasttoken"
    assert is_causal(encoder)
    assert encoder.tokenizer.pad_token == END
    transformer = Transformer(str(folder))
    transformer.tokenizer.pad_token = transformer.tokenizer.eos_token
    theirs = SentenceTransformer(modules=[transformer, Pooling(32, "lasttoken")], device="cpu")
    np.testing.assert_allclose(encoder.embed(TEXTS), theirs.encode(TEXTS), atol=2e-6)
    save_model(encoder, tmp_path / "model")
    again = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(again.encode(TEXTS), encoder.embed(TEXTS), atol=2e-6)
    assert load_encoder(str(tmp_path / "model"), device="cpu").pooling == "lasttoken"
