"""What `make fuzz` feeds for minutes, for a moment: files that are damaged inside and outside."""

import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))

from damage import damaged
from targets import TARGETS, run

_LONG = {"corpus": 8, "word": 8, "parquet": 15}
"""Targets that take tens of milliseconds a content."""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The seeds of a target, and the folder that it reads in."""
    made = {}

    def place(name):
        if name not in made:
            scratch = tmp_path_factory.mktemp("fuzz")
            (scratch / "read").mkdir()
            made[name] = TARGETS[name].seeds(scratch), scratch / "read"
        return made[name]

    return place


@pytest.mark.filterwarnings("ignore")  # what libraries say of damage
@pytest.mark.parametrize("name", TARGETS)
def test_every_damage_is_read_or_refused(places, name):
    if name == "man" and not shutil.which("mandoc"):
        pytest.skip("no mandoc here")
    seeds, folder = places(name)
    assert any([run(TARGETS[name], seed, folder) for seed in seeds])

    @settings(
        max_examples=_LONG.get(name, 25),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=True))
    def read(draw):
        content = draw.choice(seeds)
        for _ in range(draw.randint(1, 2)):
            content = damaged(content, draw)
        run(TARGETS[name], content, folder)

    read()
    assert any([run(TARGETS[name], seed, folder) for seed in seeds])
