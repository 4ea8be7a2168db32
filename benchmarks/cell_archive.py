"""Store the finished runs of a study in one small file: scores, no weights, and no test data.

A study of hours can go on at another machine, and be compared again without training. The file
is npz in xz: an array for each column of the test items, with a row for each cell (`base`,
`ROW/seed-N`, `baselines/ROW`), and their results as JSON. Ranks are exact. Displacements, which
only intervals need, are float16. Cosines of STS pairs have 256 levels, and a shift that restores
their exact correlation with the gold scores.
"""

from __future__ import annotations

import io
import json
import lzma
import math
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import rankdata

from isospace.comparison.runs import Baseline
from isospace.config import CorpusConfig, TrainConfig
from isospace.errors import UserError
from isospace.evaluation.benchmark import Benchmark
from isospace.evaluation.hybrid import NO_SHARED
from isospace.evaluation.pairs import TextPairs
from isospace.evaluation.retrieval import DISPLACEMENT, Items
from isospace.evaluation.sts import load_labels, load_sts_data
from isospace.objectives import OBJECTIVES
from isospace.statistics.gains import spearman
from isospace.system import typed_json
from isospace.system.files import atomic_path, read_arrays, sync_tree, write_arrays
from isospace.system.settings import to_dict
from isospace.training.run import Run

_BASE, BASELINES = "base", "baselines/"
_RESULTS, _SETTINGS, _SCORES, _ITEMS = "results.json", "config.json", "scores.json", "items.npz"
_GROUPS, _TEXTS = "MRR group", "results"
_PREFIX = "other_text/"
_SHIFT = " shift"
_LEVELS = 256


def read(archive: Path) -> tuple[dict[str, Any], dict[str, Items]]:
    """Return the results of each cell, and its stored items; nothing where there is no file."""
    if not archive.exists():
        return {}, {}
    arrays = dict(np.load(io.BytesIO(lzma.decompress(archive.read_bytes()))))
    results: dict[str, Any] = json.loads(arrays.pop(_TEXTS).tobytes())
    for cell in results.values():
        if cell and "config" in cell:
            _drop_unknown(cell["config"])
    for column, rows in arrays.items():
        if rows.dtype == np.uint8:
            arrays[column] = np.cumsum(rows, axis=0, dtype=np.uint8)
    return results, {
        cell: {column: rows[place] for column, rows in arrays.items()}
        for place, cell in enumerate(results)
    }


def _drop_unknown(config: dict[str, Any]) -> None:
    """Drop the settings that isospace no longer has; no archived run used them."""
    for values, kind in (
        (config, TrainConfig),
        (config["text"], CorpusConfig),
        (config["objective"], OBJECTIVES[config["objective"]["name"]]),
    ):
        for name in values.keys() - {"name", *(field.name for field in fields(kind))}:
            del values[name]


def _write(archive: Path, results: dict[str, Any], items: dict[str, Items]) -> None:
    cells = sorted(results)
    arrays = {name: np.stack([items[cell][name] for cell in cells]) for name in items[_BASE]}
    for column, rows in arrays.items():
        if rows.dtype == np.uint8:  # the seeds of a row differ little
            arrays[column] = np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1]))
    text = json.dumps({cell: results[cell] for cell in cells})
    buffer = io.BytesIO()
    np.savez(buffer, **arrays, **{_TEXTS: np.frombuffer(text.encode(), np.uint8)})
    with atomic_path(archive) as temporary:
        temporary.write_bytes(lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def pack(runs: Path, archive: Path) -> None:
    """Add the finished runs of a comparison of one base model to an archive, without paths.

    Args:
        runs: the comparison's folder.
        archive: a file; the cells that it has stay as they are.
    """
    results, items = read(archive)
    there, known = len(results), {}
    for path in sorted(runs.glob(f"*/seed-*/{_RESULTS}")):
        run, name = Run(path.parent), "/".join(path.parts[-3:-1])
        known = known or {part: run.items(part) for part in ("group", "gold", "seen")}
        if not results:
            results[_BASE], items[_BASE] = None, _stored(_state(run, "before"), known)
        if name not in results:
            settings = to_dict(run.config)
            found = json.loads(typed_json.to_json(replace(run.finished, config=settings)))
            results[name] = _placed(found, "CORPUS", "STS", name)
            items[name] = _stored(_state(run, "after"), known)
    for folder in sorted(runs.glob(f"{BASELINES}*")):
        name, baseline = f"{BASELINES}{folder.name}", Baseline.read(folder)
        if baseline is not None and name not in results:
            about = replace(baseline.about, model=Path(baseline.about.model).name)
            results[name] = json.loads(typed_json.to_json(about))
            items[name] = _stored(read_arrays(folder / _ITEMS), known)
    if len(results) > there:
        _write(archive, results, items)


def unpack(archive: Path, runs: Path, corpus: Path, sts: Path) -> None:
    """Put the cells of an archive where a comparison finds them, but for those that it has.

    Args:
        archive: what `pack` made.
        runs: the comparison's folder.
        corpus: the text that they were trained on; named in their settings, not read.
        sts: the STS sets, whose gold scores and sentences are read there.

    Raises:
        UserError: the sets are not those of the archive.
    """
    results, items = read(archive)
    known: dict[str, Items] = {}
    # Baselines come last: a run knows their gold scores.
    for name in sorted(results, key=lambda name: (name.startswith(BASELINES), name)):
        folder = runs / name
        # Where there is a checkpoint the run was trained here.
        here = (_RESULTS, _SCORES, "checkpoints")
        if name == _BASE or any((folder / part).exists() for part in here):
            continue
        # Apart until it is whole, since results make a run a finished one.
        new = folder.with_name(f".{folder.name}.tmp")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        if name.startswith(BASELINES):
            write_arrays(new / _ITEMS, **_restored(items[name], known))
            (new / _SCORES).write_text(json.dumps(results[name]), encoding="utf-8")
        else:
            placed = _placed(results[name], str(corpus), str(sts), str(folder))
            placed["config"] = to_dict(TrainConfig(**placed["config"]))  # with later settings
            (new / _RESULTS).write_text(json.dumps(placed), encoding="utf-8")
            (new / _SETTINGS).write_text(json.dumps(placed["config"]), encoding="utf-8")
            run = Run(new)
            known = known or _test_pairs(run, items[_BASE])
            states = {"before": items[_BASE], "after": items[name]}
            run.write_items(**known, **_parted({k: _restored(v, known) for k, v in states.items()}))
        sync_tree(new)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)


def _test_pairs(run: Run, base: Items) -> dict[str, Items]:
    """Return what a run knows of its test pairs; refuse STS sets that are not its own."""
    config = run.config
    tasks = load_sts_data(config.data) if config.data else {}
    labels = load_labels(config.labels, tasks) if config.select == "labels" else None
    tests = {name: task.test_only() for name, task in tasks.items()}
    known = Benchmark(TextPairs("", (), ()), "", tests, labels, ()).test_pairs()
    recorded = run.finished.base.sts
    for column in ({} if recorded is None else recorded.paper_row).keys() - {"Avg"}:
        gold, found = known["gold"].get(column, np.array([])), math.nan
        if len(gold) == len(base[column]):
            found = 100 * spearman(_cosines(base[column], base[column + _SHIFT], gold), gold)
        if not abs(found - recorded.paper_row[column]) < 0.5:  # that of `unseen` pairs is exact
            raise UserError(
                f"{config.output}: comes from the archive, and was scored on other pairs of "
                f"{column} than {config.data} has"
            )
    return {**known, "group": known["group"] | {"MRR": base[_GROUPS]}}


def _state(run: Run, state: str) -> Items:
    """Return the item columns "before" or "after" training, other text included."""
    other = run.items(f"other_text_{state}")
    return run.items(state) | {f"{_PREFIX}{name}": array for name, array in other.items()}


def _parted(states: dict[str, Items]) -> dict[str, Items]:
    """Undo `_state` for each state."""
    parted: dict[str, Items] = {}
    for state, columns in states.items():
        for name, array in columns.items():
            other = "other_text_" * name.startswith(_PREFIX)
            parted.setdefault(other + state, {})[name.removeprefix(_PREFIX)] = array
    return parted


def _stored(columns: Items, known: dict[str, Items]) -> Items:
    """Return compact arrays of what pages show: of runs on STS, the sets and the MRR."""
    stored: Items = {_GROUPS: known["group"]["MRR"]}
    for name, array in columns.items():
        if name in known["gold"]:
            gold, unseen = known["gold"][name], ~known["seen"][name]
            order, shift = rankdata(array, "dense") - 1, 0.0
            if order.max() >= _LEVELS:  # fewer are kept as they are
                order = _LEVELS * (rankdata(array) - 0.5) / len(array)
                shift = _shift(np.floor(order), array, gold, unseen)
            stored[name], stored[name + _SHIFT] = order.astype(np.uint8), np.array(shift)
        elif name == "MRR" or not (known["gold"] or name == f"{NO_SHARED}{DISPLACEMENT}"):
            if name.endswith(DISPLACEMENT):
                array = array.astype(np.float16)
            elif array.dtype.kind == "f":  # reciprocal ranks, with halves
                array = np.round(2 / array).astype(np.uint32)
            stored[name] = array
    return stored


def _restored(stored: Items, known: dict[str, Items]) -> Items:
    """Undo `_stored`, as far as that is possible."""
    columns: Items = {}
    for name, array in stored.items():
        if name in known["gold"]:
            columns[name] = _cosines(array, stored[name + _SHIFT], known["gold"][name])
        elif array.dtype == np.uint32:
            columns[name] = 2 / array
        elif name.endswith(DISPLACEMENT):
            columns[name] = array.astype(np.float64)
        elif name != _GROUPS and not name.endswith(_SHIFT):
            columns[name] = array
    # Pages show no intervals of what has no displacement here, and no BM25 of runs on STS.
    for name in ("BM25", "fused"):
        columns.setdefault(name, columns["MRR"])
    for name in {"MRR", "BM25", "fused", NO_SHARED} & columns.keys():
        columns.setdefault(f"{name}{DISPLACEMENT}", np.zeros((2, len(columns["MRR"]))))
    return columns


def _cosines(levels: np.ndarray, shift: Any, gold: np.ndarray) -> np.ndarray:
    """Return numbers in the order of the cosines, but for pairs of one of many levels."""
    if not shift:
        return levels.astype(np.float64)
    within = np.random.default_rng(0).random(len(levels))
    return np.asarray(levels + within + shift * rankdata(gold) / len(gold))


def _shift(levels: np.ndarray, cosines: np.ndarray, gold: np.ndarray, unseen: np.ndarray) -> float:
    """Return the shift that gives pairs that no label holds the correlation of their cosines."""
    exact = spearman(cosines[unseen], gold[unseen])

    def excess(shift: float) -> float:
        return spearman(_cosines(levels, shift, gold)[unseen], gold[unseen]) - exact

    return float(brentq(excess, -_LEVELS, _LEVELS))


def _placed(results: dict[str, Any], corpus: str, sts: str, output: str) -> dict[str, Any]:
    """Return results with these paths in their settings."""
    config = results["config"]
    config["text"]["corpus"], config["output"] = [corpus], output
    config["data"] = config["data"] and sts
    return results
