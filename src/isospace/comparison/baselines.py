"""Baselines of a comparison: encoders that it does not train, scored once on its test items.

Each has a folder with `items.npz` (column -> value of each test item) and `scores.json` (all other
results), which is written last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isospace.encoders.loading import load_encoder, weights_hash
from isospace.errors import UserError
from isospace.evaluation.retrieval import Items
from isospace.evaluation.scores import BenchmarkScores
from isospace.system import typed_json
from isospace.system.arrays import read_arrays, write_arrays
from isospace.system.progress import Progress
from isospace.training.finish import ModelScores
from isospace.training.prepare import Data

_PREFIX = "other_text/"
_SCORES, _ITEMS = "scores.json", "items.npz"


@dataclass(frozen=True)
class BaselineScores:
    """Contents of scores.json: `benchmark` and `weights` are hashes of test items and model."""

    model: str
    benchmark: str
    scores: BenchmarkScores
    weights: str
    format: int = 5


@dataclass(frozen=True)
class Baseline:
    """An encoder's scores, and the values of `Benchmark.items` and `OtherText.items`."""

    about: BaselineScores
    items: Items
    other_text: Items

    @classmethod
    def score(cls, model: str, data: Data, progress: Progress) -> Baseline:
        """Load an encoder with its own pooling, and score it.

        The validation pairs of `data` select the weight of BM25.
        """
        try:
            encoder = load_encoder(model)
        except UserError as error:
            raise UserError(f"`baselines` {error}") from error
        found = ModelScores.of_base_model(encoder, data, progress)
        weights = weights_hash(encoder, *encoder.prompts.sides)
        about = BaselineScores(model, data.benchmark.digest(), found.measured.scores, weights)
        items = data.benchmark.items(found.measured)
        return cls(about, items, data.other_text.items(found.other_text))

    @property
    def outdated(self) -> bool:
        """True if the model has changed since it was scored; false if that is not known."""
        try:
            encoder = load_encoder(self.about.model)
        except UserError:  # the model is gone or damaged, but its scores are known
            return False
        return weights_hash(encoder, *encoder.prompts.sides) != self.about.weights

    @classmethod
    def read(cls, folder: Path) -> Baseline | None:
        """Read the files of `write`; `None` if there are none."""
        path = folder / _SCORES
        if not path.is_file():
            return None
        about = typed_json.read(path, BaselineScores, "scores of a model")
        items: tuple[Items, Items] = {}, {}
        for name, array in read_arrays(folder / _ITEMS).items():
            items[name.startswith(_PREFIX)][name.removeprefix(_PREFIX)] = array
        return cls(about, *items)

    def write(self, folder: Path) -> None:
        """Write both files, replacing those of another model."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _SCORES).unlink(missing_ok=True)
        other = {f"{_PREFIX}{name}": array for name, array in self.other_text.items()}
        write_arrays(folder / _ITEMS, **self.items, **other)
        typed_json.write(folder / _SCORES, self.about)


def named_models(baselines: Sequence[str]) -> dict[str, str]:
    """Parse NAME=MODEL texts into a dictionary from row names to models.

    >>> named_models(["glove=glove:vectors.txt", "flow=runs/flow"])
    {'glove': 'glove:vectors.txt', 'flow': 'runs/flow'}
    """
    models: dict[str, str] = {}
    for text in baselines:
        name, _, model = text.partition("=")
        if not name or not model:
            raise UserError(f"`baselines` {text}: write NAME=MODEL, such as glove=glove:FILE")
        if name in models:
            raise UserError(
                f"`baselines` {text}: {name} already stands for {models[name]}. Give another name"
            )
        models[name] = model
    return models
