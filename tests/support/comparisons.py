"""What the tests of comparisons share."""

import signal

import pytest
from warm import WarmProcess, isospace_main

from isospace.comparison.cells import Ended
from isospace.config import CorpusConfig, TrainConfig
from isospace.objectives import SimCSE


class WarmJob:
    """A command as `isospace.comparison.cells` runs it, in a warm process; no pipe ends it."""

    def __init__(self, job, variables, _lifeline):
        self._log = job.log
        command = job.command.index("isospace") + 1
        self._process = WarmProcess(isospace_main, list(job.command[command:]), **variables)

    def ended(self):
        return None if self._process.running else self.wait()

    def terminate(self):
        self._process.send(signal.SIGTERM)

    def wait(self):
        status = self._process.wait()
        said = self._process.out + self._process.err
        with self._log.open("a", encoding="utf-8") as log:
            log.write(said)
        return Ended(status, "".join(said.splitlines()[-1:]))


@pytest.fixture
def warm_jobs(monkeypatch):
    monkeypatch.setattr("isospace.comparison.cells._Process", WarmJob)


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
