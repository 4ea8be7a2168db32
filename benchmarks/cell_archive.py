"""What the finished runs of a comparison came to, in small files: no weights, and no test data.

So a comparison that takes hours can be gone on with on another machine, and judged again when the
statistics change, without training again.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from isospace.comparison.baselines import Baseline
from isospace.comparison.shared_items import Items
from isospace.errors import UserError
from isospace.evaluation.benchmark import Benchmark, load_labels, load_sts_data
from isospace.evaluation.pairs import TextPairs
from isospace.statistics.correlation import spearman
from isospace.system import typed_json
from isospace.system.files import atomic_path, sync_tree
from isospace.training.run import Run

_SETTINGS, _RESULTS, _METRICS, _ITEMS = "config.json", "results.json", "metrics.jsonl", "after.npz"
_START = "start.npz"
_BASELINE = "baseline-"
"""How the names of the files begin that hold what an untrained encoder came to."""
_GROUPS = "MRR group"
"""Beside what the start came to; archives of before there were groups have none."""
_OTHER_TEXT = "elsewhere/"
"""Begins the columns of other text; older archives have none."""


def pack(runs: Path, archive: Path) -> None:
    """Put the finished runs of a comparison of one start into an archive, without paths.

    Args:
        runs: the comparison's folder.
        archive: a folder, with a file for each run; those that are there stay as they are.
    """
    for folder in sorted(path.parent for path in runs.glob(f"*/seed-*/{_RESULTS}")):
        file = archive / f"{folder.parent.name}-{folder.name}.tar.xz"
        run, name = Run(folder), f"{folder.parent.name}/{folder.name}"
        if run.results is None or file.exists():
            continue
        if not (archive / _START).exists():
            with atomic_path(archive / _START) as temporary:
                groups = {_GROUPS: run.items("group")["MRR"]}
                temporary.write_bytes(_arrays(_state(run, "before") | groups))
        evaluations = [
            json.dumps(line) + "\n"
            for line in run.metrics()
            if line["kind"] in ("evaluation", "look")
        ]
        contents = {
            _METRICS: "".join(evaluations).encode(),
            _ITEMS: _arrays(_state(run, "after")),
            _RESULTS: _placed(run.results_path, "CORPUS", "STS", name),
            _SETTINGS: _placed(folder / _SETTINGS, "CORPUS", "STS", name),
        }
        _write(file, {f"{name}/{part}": content for part, content in contents.items()})
    for folder in sorted(runs.glob("baselines/*")):
        file, baseline = archive / f"{_BASELINE}{folder.name}.tar.xz", Baseline.read(folder)
        if baseline is not None and not file.exists():
            about = replace(baseline.about, model=Path(baseline.about.model).name)
            with TemporaryDirectory() as copy:
                Baseline(about, baseline.items, baseline.other_text).write(Path(copy))
                parts = {part.name: part.read_bytes() for part in sorted(Path(copy).iterdir())}
            _write(file, {f"baselines/{folder.name}/{part}": parts[part] for part in parts})


def _write(file: Path, contents: Mapping[str, bytes]) -> None:
    """A compressed archive of these files, by path."""
    with atomic_path(file) as temporary, tarfile.open(temporary, "w:xz", preset=9) as tar:
        for path, content in contents.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def unpack_baselines(archive: Path, runs: Path) -> dict[str, Baseline]:
    """Row -> what an encoder that was not trained came to, of an archive; the files go to `runs`.

    Its model is known by name alone.
    """
    for file in sorted(archive.glob(f"{_BASELINE}*.tar.xz")):
        with tarfile.open(file) as tar:
            tar.extractall(runs, filter="data")
    there = {folder.name: Baseline.read(folder) for folder in sorted(runs.glob("baselines/*"))}
    return {name: baseline for name, baseline in there.items() if baseline is not None}


def unpack(archive: Path, runs: Path, corpus: Path, sts: Path) -> None:
    """Put the runs of an archive where a comparison finds them, but for those that it has.

    Args:
        archive: what `pack` made.
        runs: the comparison's folder.
        corpus: the text that they were trained on; named in their settings, not read.
        sts: the STS sets, whose gold scores and sentences are read there.

    Raises:
        UserError: the sets are not those of the archive.
    """
    shared: dict[str, Items] = {}
    for file in sorted(archive.glob("*-seed-*.tar.xz")):
        with tarfile.open(file) as tar:
            folder = runs / Path(tar.getnames()[0]).parent
            # Where there is a checkpoint the run was trained here.
            if any((folder / part).exists() for part in (_RESULTS, "checkpoints")):
                continue
            # Beside its place until it is whole, since results make a run a finished one.
            new = folder.with_name(f".{folder.name}.tmp")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            for part in tar.getnames():
                member = tar.extractfile(part)
                if member is not None:
                    (new / Path(part).name).write_bytes(member.read())
        for name in (_RESULTS, _SETTINGS):
            path = new / name
            path.write_bytes(_placed(path, str(corpus), str(sts), str(folder)))
        run = Run(new)
        if not shared:
            before, other = _parted(archive / _START)
            shared = _test_pairs(run, before) | {"other_text_before": other}
        after, other = _parted(new / _ITEMS)
        run.write_items(after=after, other_text_after=other, **shared)
        (new / _ITEMS).unlink()
        sync_tree(new)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)


def _test_pairs(run: Run, before: Items) -> dict[str, Items]:
    """What a run knows of its test pairs, and what the start came to, where the sets are its own.

    The pairs of MRR have no text here: where the archive knows no groups each is its own.
    """
    groups = before.pop(_GROUPS, np.arange(len(before["MRR"])))
    config = run.config
    tasks = load_sts_data(config.data) if config.data else {}
    labels = load_labels(config.labels, tasks) if config.select == "labels" else None
    tests = {name: task.test_only() for name, task in tasks.items()}
    known = Benchmark(TextPairs("", (), ()), "", tests, labels, ()).test_pairs()
    recorded = {} if run.finished.base.sts is None else run.finished.base.sts.known()
    for column, score in recorded.items():
        cosines, gold = before.get(column, np.array([])), known["gold"].get(column, np.array([]))
        if column != "Avg" and (
            len(cosines) != len(gold) or round(100 * spearman(cosines, gold), 2) != score
        ):
            raise UserError(
                f"{config.output}: comes from the archive, and was scored on other pairs of "
                f"{column} than {config.data} has"
            )
    return {"before": before, **known, "group": known["group"] | {"MRR": groups}}


def _state(run: Run, state: str) -> Items:
    """What every item came to before or after training, those of other text among them."""
    other = run.items(f"other_text_{state}")
    return run.items(state) | {f"{_OTHER_TEXT}{name}": array for name, array in other.items()}


def _parted(path: Path) -> tuple[Items, Items]:
    """What `_state` gave: of the runs' own items, and of other text."""
    items: tuple[Items, Items] = {}, {}
    for name, array in np.load(path).items():
        items[name.startswith(_OTHER_TEXT)][name.removeprefix(_OTHER_TEXT)] = array
    return items


def _arrays(columns: dict[str, np.ndarray]) -> bytes:
    """Not compressed: xz does that better."""
    buffer = io.BytesIO()
    np.savez(buffer, **columns)
    return buffer.getvalue()


def _placed(path: Path, corpus: str, sts: str, output: str) -> bytes:
    """Settings or results with these paths in them."""
    # The sum is of other paths.
    values = typed_json.without_sum(json.loads(path.read_text(encoding="utf-8")))
    config = values.get("config", values)
    config["text"]["corpus"], config["output"] = [corpus], output
    config["data"] = config["data"] and sts
    return (json.dumps(values, indent=2) + "\n").encode()
