"""What is refused before an encoder is loaded, such as sentences where documents are needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isospace.errors import UserError
from isospace.training.prepare import require_usable


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
