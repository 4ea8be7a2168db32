"""Encoders that a comparison does not train: scored once, on the test items of its runs.

Each has a folder: `items.npz` holds the value of each test item, by column, and `scores.json`,
which is written last, the rest.
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

FORMAT = 3
"""Of scores.json."""
_PREFIX = "other_text/"
_SCORES, _ITEMS = "scores.json", "items.npz"


@dataclass(frozen=True)
class BaselineScores:
    """Contents of scores.json.

    Attributes:
        model: as `load_encoder` takes it.
        benchmark: digest of the test items, as a run's results have it.
        scores: every number with its protocol.
        weights: the `weights_hash` of what was scored; `None` in archives.
        format: of the file.
    """

    model: str
    benchmark: str
    scores: BenchmarkScores
    weights: str | None = None
    format: int = FORMAT


@dataclass(frozen=True)
class Baseline:
    """An encoder and its scores.

    Attributes:
        about: the model and its scores.
        items: as `Benchmark.items` gives them.
        other_text: as `OtherText.items` gives them.
    """

    about: BaselineScores
    items: Items
    other_text: Items

    @classmethod
    def score(cls, model: str, data: Data, progress: Progress) -> Baseline:
        """Load an encoder, with the pooling that is its own, and score it.

        Args:
            model: as `load_encoder` takes it.
            data: what it is scored on; its validation pairs choose the weight of BM25.
            progress: shows the texts that are encoded.

        Raises:
            UserError: it cannot be loaded.
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
        """Whether the model has changed since it was scored; false where that cannot be told."""
        if self.about.weights is None:
            return False
        try:
            encoder = load_encoder(self.about.model)
        except UserError:  # it is gone or damaged, but its scores are known
            return False
        return weights_hash(encoder, *encoder.prompts.sides) != self.about.weights

    @classmethod
    def read(cls, folder: Path) -> Baseline | None:
        """Read what `write` wrote; `None` where there is nothing.

        Raises:
            UserError: a file is damaged, or of another format.
        """
        path = folder / _SCORES
        if not path.is_file():
            return None
        about = typed_json.read(path, BaselineScores, "scores of a model", FORMAT)
        items: tuple[Items, Items] = {}, {}
        for name, array in read_arrays(folder / _ITEMS).items():
            items[name.startswith(_PREFIX)][name.removeprefix(_PREFIX)] = array
        return cls(about, *items)

    def write(self, folder: Path) -> None:
        """Write both files over those of another model."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _SCORES).unlink(missing_ok=True)
        other = {f"{_PREFIX}{name}": array for name, array in self.other_text.items()}
        write_arrays(folder / _ITEMS, **self.items, **other)
        typed_json.write(folder / _SCORES, self.about)


def named_models(baselines: Sequence[str]) -> dict[str, str]:
    """Parse texts NAME=MODEL into row -> model.

    >>> named_models(["glove=glove:vectors.txt", "flow=runs/flow"])
    {'glove': 'glove:vectors.txt', 'flow': 'runs/flow'}

    Raises:
        UserError: another text, or a name twice.
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
