"""A run: one folder with everything about one training.

config.json     the settings
adapt.json      the settings of adapt, if it made the run
metrics.jsonl   a line for each logged update ("step") and each evaluation ("evaluation")
checkpoints/    last.pt (resumes bit for bit), kept.safetensors (weights of the kept checkpoint)
items.npz       rank of each test item before and after, and its group; for STS pairs also the gold
                score, and whether they selected the checkpoint
sample.npz      held-out sentences with their vectors before and after
transfer.json   scores of transfer tasks, after `evaluate --transfer`
results.json    scores with their protocols, the selected checkpoint, the verdict, the environment
model/          the encoder, for sentence-transformers
report.html     the results for people
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from isospace.config import TrainConfig, objective_name, read_settings
from isospace.encoders.places import (
    ADAPT_SETTINGS,
    MODEL,
    folder_of,
    resume_command,
    run_model,
)
from isospace.errors import UserError
from isospace.evaluation.sts import sts_data
from isospace.system.files import (
    expanded,
    is_occupied,
    read_arrays,
    require_writable,
    write_arrays,
    write_text,
)
from isospace.system.lifecycle import stoppable
from isospace.system.signals import StopRequest
from isospace.system.typed_json import read_json, to_json
from isospace.training.results import RunResults, read_results

Config = TypeVar("Config")
"""Settings of a command that makes a run, with the fields `output` and `data`."""

_RUNS = Path("runs")
"""Default folder for new runs."""
REPORT = "report.html"  # in the folder of a run or of a comparison


@dataclass(frozen=True)
class Sample:
    """Held-out sentences (n), and their vectors (n, dim) of the base and the adapted model."""

    sentences: tuple[str, ...]
    before: np.ndarray
    after: np.ndarray


class Run:
    """The folder of an existing run; `Run.create` makes a new one."""

    def __init__(self, folder: Path) -> None:
        folder = expanded(folder)
        if not begun(folder):
            found = "no config.json in it" if folder.is_dir() else "no such folder"
            raise UserError(
                f"{folder}: not a run ({found}). Name a folder that train or adapt has written"
            )
        self.folder = folder
        self.metrics_path = folder / "metrics.jsonl"
        self.last_checkpoint = folder / "checkpoints" / "last.pt"
        self.kept_weights = folder / "checkpoints" / "kept.safetensors"
        self.model_folder = folder / MODEL
        self.items_path = folder / "items.npz"
        self.sample_path = folder / "sample.npz"
        self.transfer_path = folder / "transfer.json"
        self.results_path = folder / "results.json"

    @classmethod
    def create(cls, config: TrainConfig, work: str = "", adapt: str = "", models: int = 1) -> Run:
        """Make the folder of a new run.

        `adapt` are the settings of `adapt` as JSON, if it makes the run. An unnamed folder gets its
        name from the date, `work` (default: the objective), and the model or number of `models`.
        """
        try:
            folder = _new_folder(config, work, models) if config.output is None else config.output
            require_free(folder)
            folder.mkdir(parents=True, exist_ok=True)
            if adapt:
                write_text(folder / ADAPT_SETTINGS, adapt + "\n")
            write_text(folder / "config.json", to_json(config) + "\n")  # a run from here on
        except OSError as error:
            where = config.output or "runs"
            raise UserError(
                f"`output` {where}: cannot be written ({error.strerror}). Give another folder"
            ) from error
        return cls(folder)

    @property
    def config(self) -> TrainConfig:
        """The settings of the run."""
        return read_settings(self.folder / "config.json", TrainConfig)

    def write_config(self, config: TrainConfig) -> None:
        """Write other settings into config.json, before a training has begun."""
        write_text(self.folder / "config.json", to_json(config) + "\n")

    @property
    def settings_digest(self) -> str:
        """Digest of config.json."""
        return hashlib.sha256((self.folder / "config.json").read_bytes()).hexdigest()

    @property
    def to_resume(self) -> tuple[str, str]:
        """The command that resumes the run, and what else it needs, or empty."""
        needs = "with the same text on standard input" if "-" in self.config.text.corpus else ""
        return resume_command(self.folder), needs

    @property
    def how_to_resume(self) -> str:
        """Advice on how to resume the run."""
        return f"nothing is lost. Continue with: {', '.join(filter(None, self.to_resume))}"

    @property
    def results(self) -> RunResults | None:
        """Results of the run; `None` if it is not finished."""
        return read_results(self.results_path) if self.results_path.is_file() else None

    @property
    def lacks_model(self) -> bool:
        """True if the model was removed, or moved away, and resuming the run makes it again."""
        return not self.model_folder.is_dir() and self.last_checkpoint.is_file()

    @property
    def finished(self) -> RunResults:
        """Results of the run."""
        results = self.results
        if results is None:
            raise UserError(f"{self.folder}: this run is not finished; {self.how_to_resume}")
        return results

    def write_items(self, **parts: Mapping[str, np.ndarray]) -> None:
        """Write items.npz: part ("before", "after", "gold", ...) -> column -> array."""
        arrays = {
            f"{part}/{name}": array
            for part, columns in parts.items()
            for name, array in columns.items()
        }
        write_arrays(self.items_path, **arrays)

    def items(self, part: str) -> dict[str, np.ndarray]:
        """Return one part of items.npz: column -> array."""
        arrays = read_arrays(self.items_path, f"{part}/")
        return {name.removeprefix(f"{part}/"): array for name, array in arrays.items()}

    def write_sample(self, sentences: Sequence[str], before: np.ndarray, after: np.ndarray) -> None:
        """Write sample.npz with vectors (n, dim), in half precision if the values fit."""
        write_arrays(
            self.sample_path,
            sentences=np.frombuffer(json.dumps(list(sentences)).encode(), np.uint8),
            before=_half(before),
            after=_half(after),
        )

    @property
    def sample(self) -> Sample | None:
        """Content of sample.npz; `None` without the file."""
        if not self.sample_path.is_file():
            return None
        arrays = read_arrays(self.sample_path)
        try:
            sentences = json.loads(arrays["sentences"].tobytes())
        except ValueError as error:
            raise UserError(f"{self.sample_path}: the file is damaged") from error
        before, after = (arrays[state].astype(np.float32) for state in ("before", "after"))
        return Sample(tuple(sentences), before, after)

    @property
    def transfer(self) -> dict[str, Any]:
        """Scores of the transfer tasks; empty if they were not measured."""
        if not self.transfer_path.is_file():
            return {}
        content: dict[str, Any] = read_json(self.transfer_path)
        return content

    def write_transfer(self, scores: Mapping[str, Any]) -> None:
        """Write the scores of the transfer tasks into transfer.json."""
        write_text(self.transfer_path, json.dumps(scores, indent=2) + "\n")

    def log(self, kind: str, values: Mapping[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        with self.metrics_path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, **values}) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, without a last line that a kill cut off."""
        if not self.metrics_path.is_file():
            return []
        lines = []
        content = self.metrics_path.read_text(encoding="utf-8", errors="replace")
        for text in content.split("\n"):
            with suppress(ValueError):
                lines.append(json.loads(text))
        return lines

    def steps(self) -> list[dict[str, Any]]:
        """The logged updates; all have the same terms."""
        return [line for line in self.metrics() if line["kind"] == "step"]

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the evaluations, each with the number of sentences seen before it."""
        config = self.config
        per_step = config.batch_size * config.accumulate
        return [
            {**line, "sentences": line["step"] * per_step}
            for line in self.metrics()
            if line["kind"] == "evaluation"
        ]

    def rewind(self, step: int) -> None:
        """Drop the metrics of updates after `step`, which a resumed run will repeat."""
        earlier = [line for line in self.metrics() if line.get("step", 0) <= step]
        write_text(self.metrics_path, "".join(json.dumps(line) + "\n" for line in earlier))


def _half(vectors: np.ndarray) -> np.ndarray:
    fits = np.abs(vectors).max(initial=0.0) <= np.finfo(np.float16).max
    return vectors.astype(np.float16 if fits else np.float32)


def run_of(model: str) -> Run | None:
    """Return the finished run that made a model, or `None`.

    `model` is the folder of the run or its folder `model`; others in it are not the run's.
    """
    folder = folder_of(model)
    if folder is None:
        return None
    made = folder.resolve()
    for place in (folder, made.parent) if made.name == MODEL else (folder,):
        if run_model(place) is not None:
            return Run(place)
    return None


def selected_weight(model: str) -> float | None:
    """Return the BM25 weight of the run that made a model, or `None`."""
    run = run_of(model)
    return None if run is None else run.finished.base.with_bm25.weight


@dataclass(frozen=True)
class FinishedRun:
    """A finished run and its results; `earlier` if it was already finished."""

    run: Run
    results: RunResults
    earlier: bool = False

    @property
    def verdict(self) -> str:
        """The verdict, and the change on other text."""
        return self.results.summary

    @property
    def model_folder(self) -> Path:
        """Folder of the model, for `SentenceTransformer(str(model_folder))`."""
        return self.run.model_folder


def start_or_resume(
    config: Config | None,
    resume: Path | str | None,
    read: Callable[[Run], Config],
    work: Callable[[Config, Run | None, StopRequest], FinishedRun],
) -> FinishedRun:
    """Make a new run, continue a stopped one, or return the results of a finished one.

    The settings are `config`, or `read` returns those of the run in `resume`. `work` does the work.
    """
    run = None if resume is None else Run(Path(resume))
    with stoppable(lambda: "no run was begun" if run is None else run.how_to_resume) as stop:
        if config is not None and run is None:
            given = cast(Any, config)
            require_free(given.output)
            # In the settings, because a resumed run may find another environment.
            config = cast(Config, replace(given, data=sts_data(given.data)))
        elif config is None and run is not None:
            config = read(run)
            if (results := run.results) is not None and not run.lacks_model:
                return FinishedRun(run, results, earlier=True)
        else:
            raise UserError("give either the settings of a new run or the folder of a run")
        finished = work(config, run, stop)
        run = finished.run
        return finished


def begun(folder: Path) -> bool:
    """Return true if a folder holds a run, finished or not."""
    return (folder / "config.json").is_file()


def require_free(folder: Path | None) -> None:
    """Refuse an output folder that is not empty, or that cannot be made."""
    if folder is None:  # a new name, which is always free
        require_writable(_RUNS, inside=True)
        return
    # A kill may leave these files before the run begins. With other files, they are the user's.
    names = (".config.json.*.tmp", f".{ADAPT_SETTINGS}.*.tmp", ADAPT_SETTINGS)
    torn = {path for name in names for path in folder.glob(name)}
    if torn and torn == set(folder.iterdir()):
        for path in torn:
            path.unlink()
    if is_occupied(folder):
        advice = "Give another folder"
        if begun(folder):
            advice += f", or continue it with {resume_command(folder)}"
        raise UserError(f"`output` {folder}: exists already. {advice}")
    require_writable(folder, inside=True)


def _new_folder(config: TrainConfig, work: str, models: int) -> Path:
    """Make an empty folder with an unused name, even if several runs start in one second."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    work = work or objective_name(config.objective)
    model = f"{models}-models" if models > 1 else Path(config.model).name or "model"
    name = f"{stamp}-{work}-{model}"
    _RUNS.mkdir(exist_ok=True)
    for number in count(1):
        folder = _RUNS / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            break
    return folder
