"""What a card says of the model that its own was made from."""

from __future__ import annotations

import pytest

from isospace.training.card import CLASSIC, plain_card
from isospace.training.results import Origin


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
