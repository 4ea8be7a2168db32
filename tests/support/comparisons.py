"""What the tests of comparisons share."""

import pytest
from warm import WarmProcess, isospace_main

from isospace.comparison.cells import Ended, share
from isospace.config import CorpusConfig, TrainConfig
from isospace.objectives import SimCSE


def warm_process(command, log, place, at_once, _lifeline):
    """A command as `isospace.comparison.cells` runs it, in a warm process; no pipe ends it."""
    words = list(command[command.index("isospace") + 1 :])
    process = WarmProcess(isospace_main, words, **share(place, at_once))
    status = process.wait()
    said = process.out + process.err
    with log.open("a", encoding="utf-8") as file:
        file.write(said)
    return Ended(status, "".join(said.splitlines()[-1:]))


@pytest.fixture
def warm_processes(monkeypatch):
    monkeypatch.setattr("isospace.comparison.cells.run_process", warm_process)


@pytest.fixture(scope="session")
def base(toy_model, toy_corpus):
    """What the candidates of a comparison share: a run of four updates."""
    return TrainConfig(
        text=CorpusConfig(corpus=(str(toy_corpus),), held_out=40),
        objective=SimCSE(head="none"),
        model=str(toy_model),
        batch_size=8,
        learning_rate=3e-5,
        budget=(32, "sentences"),
        evaluations=1,
        select="last",
        precision="float32",
    )
