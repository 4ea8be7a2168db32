"""Score a model on every task in `TASKS` that has data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from isospace.config import EvaluateConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import Model, as_encoder
from isospace.encoders.settings import Precision
from isospace.errors import UserError
from isospace.evaluation.geometry import geometry_task
from isospace.evaluation.own import OwnFilesScores, own_files_task, tables_of_gains
from isospace.evaluation.own_data import load_own_files
from isospace.evaluation.pairs import PromptedEncoders, embed_with_bar
from isospace.evaluation.sts import PAPER_COLUMNS, load_sts_data, sts_data, sts_task
from isospace.evaluation.task import Conditions, Request, Task, TaskScores, TitledRows
from isospace.evaluation.transfer import transfer_task
from isospace.system.files import expanded
from isospace.system.progress import Logged, Progress

TASKS: dict[str, Task] = {
    "sts": sts_task,
    "geometry": geometry_task,
    "transfer": transfer_task,
    "own": own_files_task,
}
"""Key in the JSON of an evaluation -> task, in the order in which they are scored and shown."""


@dataclass(frozen=True)
class Evaluation:
    """Scores of one model; `scores` has those of each scored task, by its name in `TASKS`."""

    conditions: Conditions
    scores: Mapping[str, TaskScores]

    def to_json(self) -> dict[str, Any]:
        """Return every number with its protocol; a task that was not scored holds `None`."""
        by_task: dict[str, Any] = dict.fromkeys(TASKS)
        by_task |= {name: scores.to_json() for name, scores in self.scores.items()}
        return asdict(self.conditions) | by_task

    def tables(self) -> list[TitledRows]:
        """Return tables for people."""
        return [table for one in self.scores.values() for table in one.tables(self.conditions)]


def evaluate(
    model: Model,
    config: EvaluateConfig = EvaluateConfig(),  # noqa: B008 - frozen
    progress: Progress | None = None,
) -> Evaluation:
    """Score a model.

    `model` is "minilm", a model folder, a run's folder, a Hub name, or glove:FILE for word vectors;
    or a loaded model.

    Raises:
        UserError: there is no data, or the data is bad; raised before the model is loaded.
    """
    [evaluation] = evaluate_models([model], config, progress)
    return evaluation


def evaluate_models(
    models: Sequence[Model], config: EvaluateConfig, progress: Progress | None = None
) -> list[Evaluation]:
    """Score several models on the same data, as `evaluate` scores one."""
    own = load_own_files(config)
    where = sts_data(config.data)
    folder = expanded(where) if where and where != "hub" else None
    if folder is None and config.transfer:  # before anything is downloaded
        raise UserError("`transfer`: needs the folder of the tasks. Name it with `data` FOLDER")
    request = Request(config, folder, load_sts_data(where) if where else {}, own)
    loaded = {name: task(request) for name, task in TASKS.items()}
    tasks = {name: score for name, score in loaded.items() if score is not None}
    if not tasks:
        raise UserError(
            "nothing to score on. Name the folder of the STS sets (`data` FOLDER, or "
            f"ISOSPACE_DATA), or `data` hub for {', '.join(PAPER_COLUMNS)} from the Hub, or your "
            "own file (`own` FILE)"
        )
    encoders = [as_encoder(model, config) for model in models]
    shown = progress or Logged()
    return [_evaluation(encoder, tasks, config.precision, shown) for encoder in encoders]


def tables_of(evaluations: Sequence[Evaluation]) -> list[TitledRows]:
    """Return the tables of one or several models, and the gains over the first in retrieval.

    Tables with the same title become one table with a row for each model; equal rows, such as those
    of BM25, become one.
    """
    own = {found.conditions.model: found.scores.get("own") for found in evaluations}
    gained = tables_of_gains(
        {m: files for m, files in own.items() if isinstance(files, OwnFilesScores)}
    )
    if len(evaluations) == 1:
        return [*evaluations[0].tables(), *gained]
    merged: dict[str, TitledRows] = {}
    for evaluation in evaluations:
        for table in evaluation.tables():
            rows = merged.setdefault(table.title, table._replace(rows=[])).rows
            for row in table.rows:
                _add_row(rows, {"model": evaluation.conditions.model} | row)
    return [*merged.values(), *gained]


def _add_row(rows: list[dict[str, str]], new: dict[str, str]) -> None:
    for row in rows:
        if all(row[column] == new[column] for column in row.keys() & new.keys()):
            row.update(new)
            return
    rows.append(new)


def _evaluation(
    encoder: Encoder,
    tasks: Mapping[str, Callable[[PromptedEncoders], TaskScores]],
    precision: Precision,
    shown: Progress,
) -> Evaluation:
    if encoder.prompts.summary:
        shown.line("prompts", encoder.prompts.summary)
    embed = partial(embed_with_bar, encoder, shown, precision=precision)
    conditions = Conditions(encoder.source, encoder.pooling, precision)
    encode = PromptedEncoders.of_prompts(encoder.prompts, embed)
    return Evaluation(conditions, {name: score(encode) for name, score in tasks.items()})
