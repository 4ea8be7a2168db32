"""Compare several objectives with several seeds on one corpus.

Each run has a folder `FOLDER/NAME/seed-S`, and each baseline a folder `FOLDER/baselines/NAME`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

from isospace.comparison.cells import Cell, SaidOnce, require_runnable, run_cells
from isospace.comparison.results import ComparisonResults
from isospace.comparison.runs import Baseline, compare_runs
from isospace.config import CorpusConfig, TrainConfig, shared_options
from isospace.errors import UserError
from isospace.evaluation.benchmark import BASE, Benchmark
from isospace.evaluation.sts import UnseenItems, sts_data
from isospace.objectives import OBJECTIVES
from isospace.system import typed_json
from isospace.system.cluster import Engine, connected
from isospace.system.files import expanded, require_writable
from isospace.system.lifecycle import stoppable, working_in
from isospace.system.progress import Logged, Progress
from isospace.system.signals import is_main_process
from isospace.training.prepare import Data, require_usable
from isospace.training.run import REPORT, Run, begun

Measure = Literal["pairs", "sts"]
_CONFIG_KEYS = ("learning_rate", "dropout", "batch_size")
"""Settings that a candidate may change besides those of its objective; never the budget."""
_SHARED = (
    "model", "pooling", "query_prompt", "document_prompt", "pairs", "data", "select", "labels",
    "other_text",
)  # fmt: skip
"""Settings that all candidates share, besides the text."""
_COMMA = re.compile(r",(?![^\[]*\])")
"""A comma between two settings, and not inside a list."""
_RESULTS = "results.json"
_CONTINUE = "nothing is lost. Continue with the same command"


def candidate(text: str, base: TrainConfig) -> TrainConfig:
    """Parse the settings of one candidate, NAME or NAME:FIELD=VALUE,FIELD=VALUE.

    FIELD is an option of the objective NAME, or one of `_CONFIG_KEYS`. `base` has all other
    settings, and the options of its objective that NAME shares.
    """
    name, _, rest = text.partition(":")
    kind = OBJECTIVES[name]
    own = {field.name for field in fields(kind)}
    options, changes = dict[str, Any](), dict[str, Any]()
    for part in filter(None, _COMMA.split(rest)):
        key, equals, value = part.partition("=")
        if not equals or key not in own | set(_CONFIG_KEYS):
            known = ", ".join(sorted(own | set(_CONFIG_KEYS)))
            wrong = "no such field" if equals else "expected FIELD=VALUE"
            raise UserError(f"{text}: {key}: {wrong}. Candidates can differ in {known}")
        (options if key in own else changes)[key] = _parse(value)
    try:
        objective = kind(**options)
        for option, value in shared_options(base.objective, kind).items():
            if option not in options:
                with suppress(UserError):  # the option has no effect on this objective
                    objective = replace(objective, **{option: value})
        return replace(base, objective=objective, **changes)
    except UserError as error:
        raise UserError(f"{text}: {error}") from error


def _parse(value: str) -> Any:
    """Parse a number, a list, true, false or null; anything else is text."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError):  # of thousands of digits or brackets
        return value


def compare(
    candidates: Mapping[str, TrainConfig],
    seeds: int,
    folder: Path | str,
    measure: Measure = "pairs",
    jobs: int = 1,
    baselines: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    engine: Engine = "local",
) -> ComparisonResults | None:
    """Run all unfinished cells and compare them; `None` in all processes but the first.

    Args:
        candidates: name -> settings, such as `{"scd": TrainConfig(objective=SCD())}`. Seeds count
            up from the candidate's seed. All have one base model.
        seeds: number of runs for each candidate.
        folder: folder of a new or stopped comparison.
        measure: score of the verdict: MRR of the test pairs, or the average of the STS sets.
        jobs: number of runs at a time; several run in processes of their own.
        baselines: name -> model, for `isospace.load`. Each becomes a row, which is never selected.
        progress: shows the progress; default: the log.
        engine: run on this machine, or on a Ray cluster.

    Raises:
        UserError: bad input, refused before the first run; or the folder has other settings.
        Stopped: a cell was stopped or diverged. Another call continues.
    """
    folder, baselines, progress = expanded(folder), baselines or {}, SaidOnce(progress or Logged())
    with connected(engine), stoppable(lambda: _CONTINUE):
        _require_comparable(candidates, seeds, folder, jobs)
        _require_different_names((*candidates, *baselines))
        # Kept in the settings, because a resumed comparison may find another environment.
        settings = {n: replace(c, data=sts_data(c.data)) for n, c in candidates.items()}
        if measure == "sts" and not all(config.data for config in settings.values()):
            raise UserError("`verdict_on` sts: name the STS sets with `data` or ISOSPACE_DATA")
        cells = [
            _cell(folder, name, replace(config, seed=config.seed + number))
            for number in range(seeds)
            for name, config in settings.items()
        ]
        require_runnable(cells, jobs, engine)
        scored = _scored_before(folder, baselines)
        scored_now: dict[str, Baseline] = {}
        missing = not all(cell.finished for cell in cells) or scored.keys() != baselines.keys()
        if missing:
            data = require_usable(list(settings.values()))
            if measure == "sts":
                _require_average(cells[0].config, data.benchmark)
            _require_same_text(cells, data.corpus.digest)
            if is_main_process():
                scored_now = _score(baselines, scored, data, progress)
        with working_in(folder, _CONTINUE):
            if missing:
                for old in (_RESULTS, REPORT):  # of fewer cells; none is lost with them
                    (folder / old).unlink(missing_ok=True)
            for name, baseline in scored_now.items():
                baseline.write(_baseline_folder(folder, name))
            run_cells(cells, jobs, engine, progress)
            if not is_main_process():  # several processes share each run
                return None
            runs = {n: [Run(cell.folder) for cell in cells if cell.name == n] for n in settings}
            rows = {name: [(scored | scored_now)[name]] for name in baselines}
            results = compare_runs(runs, "Avg" if measure == "sts" else "MRR", rows)
            typed_json.write(folder / _RESULTS, results)
        return results


def _require_comparable(
    candidates: Mapping[str, TrainConfig], seeds: int, folder: Path, jobs: int
) -> None:
    for name, count in {"candidates": len(candidates), "seeds": seeds, "jobs": jobs}.items():
        if count < 1:
            raise UserError(f"`{name}` {count}: expected 1 or more")
    if any("-" in config.text.corpus for config in candidates.values()):
        raise UserError("`corpus` -: every run reads the text. Give a file")
    require_writable(folder, inside=True)
    ours = any(folder.glob("*/seed-*/config.json")) or (folder / "baselines").is_dir()
    others = any((folder / name).exists() for name in (_RESULTS, REPORT))
    if begun(folder) or (others and not ours):
        raise UserError(f"`output` {folder}: holds results of something else. Give another folder")
    require_alike(candidates)


def require_alike(candidates: Mapping[str, TrainConfig]) -> None:
    """Refuse candidates with another base model, text, selection or test items."""
    (first, own), *others = candidates.items()
    for name, config in others:
        texts = [field.name for field in fields(CorpusConfig)]
        differing = [n for n in _SHARED if getattr(config, n) != getattr(own, n)]
        differing += [n for n in texts if getattr(config.text, n) != getattr(own.text, n)]
        if differing:
            names = ", ".join(f"`{setting}`" for setting in differing)
            raise UserError(f"{first} and {name} differ in {names}. Give all the same value")


def _require_different_names(names: Iterable[str]) -> None:
    """Refuse a row whose name or folder another row has."""
    rows = {_slug(BASE): BASE}
    for name in names:
        if other := rows.get(_slug(name)):
            raise UserError(f"{name}: the row {other} has this name or folder. Give another name")
        rows[_slug(name)] = name


def _scored_before(folder: Path, baselines: Mapping[str, str]) -> dict[str, Baseline]:
    """Return the scored baselines in the folder whose weights have not changed."""
    found = {}
    for name, model in baselines.items():
        there = Baseline.read(_baseline_folder(folder, name))
        if there is not None and there.about.model == model and not there.outdated:
            found[name] = there
    return found


def _score(
    baselines: Mapping[str, str], scored: Mapping[str, Baseline], data: Data, progress: Progress
) -> dict[str, Baseline]:
    """Score the baselines that were not scored on these test items."""
    found = {}
    for name, model in baselines.items():
        if name not in scored or scored[name].about.benchmark != data.benchmark.digest():
            progress.line("baseline", f"scoring {name}, {model} ...")
            found[name] = Baseline.score(model, data, progress)
    return found


def _require_average(config: TrainConfig, benchmark: Benchmark) -> None:
    """Refuse, before hours of training, a comparison that `compare_runs` would refuse."""
    labels = config.labels if config.select == "labels" else None
    shared = UnseenItems.of_test_pairs(benchmark.test_pairs(), labels)
    if not shared.complete:
        raise UserError(f"`verdict_on` sts: no average of the STS sets: {shared.why_incomplete}")


def _require_same_text(cells: Sequence[Cell], digest: str) -> None:
    for cell in cells:
        results = Run(cell.folder).results if cell.begun else None
        if results is not None and results.corpus.digest != digest:
            raise UserError(
                f"{cell.folder}: the corpus has changed since. Restore it, or give another `output`"
            )


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in "+-._=" else "_" for c in name)


def _baseline_folder(folder: Path, name: str) -> Path:
    return folder / "baselines" / _slug(name)


def _cell(folder: Path, name: str, config: TrainConfig) -> Cell:
    run_folder = folder / _slug(name) / f"seed-{config.seed}"
    return Cell(name, run_folder, replace(config, output=run_folder))
