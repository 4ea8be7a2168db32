"""Word vectors as a base model: the released averages, the file format, what can be done with them."""

import gzip

import numpy as np
import pytest
from golden_files import files

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder, weights_hash
from isospace.encoders.saving import cosines, save_model
from isospace.encoders.settings import EncoderSettings
from isospace.encoders.words import read_vectors, word_model
from isospace.errors import UserError

LINES = "the 1 0 0 0\ncat 0 2 0 0\nsat 0 0 3 0\n. 0 0 0 4\nUpper 1 1 1 1\n"
TEXTS = ["The cat, sat.", "the cat sat .", "nothing known", "", "sat sat Upper"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(LINES, encoding="utf-8")
    return path


@files("glove_average")
@pytest.mark.parametrize("tokens", ["whitespace_stop", "whitespace"])
def test_averages_match_the_released_code(path, tokens):
    with np.load(path) as file:
        data = dict(file)
    name = f"official_{tokens}"
    stop_words = data["stop_words"].tolist() if tokens == "whitespace_stop" else ()
    model = word_model(data["vocab"].tolist(), data["vectors"], stop_words)
    encoder = Encoder(model, "golden")
    texts = data["sentences"].tolist()
    expected = [[i + 1 for i in row if i >= 0] for row in data[f"{name}_ids"].tolist()]
    assert encoder.tokens.ids(texts) == expected
    found = encoder.embed(texts)
    np.testing.assert_allclose(found, data[f"{name}_mean_f64"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(model.encode(texts), found, rtol=0, atol=1e-6)
    for row, wanted in zip(found, data[f"{name}_cosine_f64"], strict=True):
        own = cosines(found, np.broadcast_to(row, found.shape))
        np.testing.assert_allclose(own, wanted, rtol=0, atol=1e-5)


def test_a_file_is_a_model(file):
    plain = load_encoder(f"glove:{file}")
    # "the" and "." are stop words; "Upper" is known as it is, not in lower case.
    assert plain.embed(TEXTS).tolist() == [
        [0, 1, 1.5, 0], [0, 1, 1.5, 0], [0] * 4, [0] * 4,
        [pytest.approx(x) for x in (1 / 3, 1 / 3, 7 / 3, 1 / 3)],
    ]  # fmt: skip
    assert plain.pooling == "mean"
    assert not plain.is_fast
    assert "dropout none" in plain.summary("float32")
    assert weights_hash(plain) == weights_hash(load_encoder(f"glove:{file}"))


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_the_first_words_may_hold_blanks_and_digits(tmp_path, header):
    path = tmp_path / "v.txt"
    path.write_text(f"{header}. . . 1 2\nat 5 3 4\nb 5 6\n", encoding="utf-8")
    words, vectors = read_vectors(path)
    assert words == [". . .", "at 5", "b"]
    assert vectors.tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a 1 2\nb 1\n", r"line 2: not a word and 2 numbers"),
        ("a 1 2\nb 1 x\n", r"line 2: not a word and 2 numbers"),
        ("", "holds no word vectors"),
        ("a 1 nan\n", "not finite"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path, content, message):
    path = tmp_path / "v.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        load_encoder(f"glove:{path}")


def test_files_that_are_not_there_or_not_whole_are_named(tmp_path, file):
    with pytest.raises(UserError, match=r"glove:none\.txt: no such file"):
        load_encoder("glove:none.txt")
    with pytest.raises(UserError, match="are named glove:FILE"):
        load_encoder(str(file))
    (tmp_path / "v.gz").write_bytes(gzip.compress(LINES.encode() * 100)[:-20])
    with pytest.raises(UserError, match=r"v\.gz: cannot be read"):
        load_encoder(f"glove:{tmp_path / 'v.gz'}")


def test_what_sentence_transformers_knows_is_written_as_its_own(tmp_path, file):
    encoder = load_encoder(f"glove:{file}")
    assert save_model(encoder, tmp_path / "model") < 1e-6
    again = load_encoder(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.embed(TEXTS), encoder.embed(TEXTS))
    with pytest.raises(UserError, match="`pooling` cls"):
        load_encoder(str(tmp_path / "model"), EncoderSettings(pooling="cls"))
    assert load_encoder(str(tmp_path / "model"), EncoderSettings(pooling="mean")).pooling == "mean"
