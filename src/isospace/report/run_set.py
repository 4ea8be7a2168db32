"""The runs of a report, named and grouped by their settings, and their comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isospace.comparison.results import ComparisonResults, read_results
from isospace.config import AdaptConfig, read_settings
from isospace.encoders.places import ADAPT_SETTINGS
from isospace.system.settings import to_dict
from isospace.system.unicode import without_surrogates
from isospace.training.run import Run, begun


@dataclass(frozen=True)
class NamedRun:
    """A run, its name, and the name of its settings (`group`), which all its seeds share.

    The group of a run of no comparison is named by its runs.
    """

    run: Run
    name: str
    group: str


@dataclass(frozen=True)
class RunSet:
    """The runs and comparisons of a report.

    Runs of comparisons come first. `home` is the default folder of the report.
    """

    title: str
    runs: tuple[NamedRun, ...]
    comparisons: dict[str, ComparisonResults | None]
    home: Path | None

    def groups(self) -> dict[str, list[Run]]:
        """Return name of the settings -> runs, which differ only in their seed."""
        groups: dict[str, list[Run]] = {}
        for named in self.runs:
            groups.setdefault(named.group, []).append(named.run)
        return groups


def collect(folders: Sequence[Path]) -> RunSet:
    """Find the runs in folders of runs and in folders of comparisons."""
    folders = list(dict.fromkeys(folder.resolve() for folder in folders))
    runs: list[NamedRun] = []
    loose: list[Run] = []
    comparisons: dict[str, ComparisonResults | None] = {}
    for folder, name in zip(folders, _names(folders), strict=True):
        cells = sorted(cell.parent for cell in folder.glob("*/seed-*/config.json"))
        if cells and not begun(folder):
            path = folder / "results.json"
            results = comparisons[name] = read_results(path) if path.is_file() else None
            prefix = f"{name}/" if len(folders) > 1 else ""
            rows = {cell: cell.parent.name for cell in cells}
            if results is not None:  # other cells are not part of it
                rows = {folder / run: row for row, its in results.runs.items() for run in its}
            for cell in filter(rows.__contains__, cells):
                group = f"{prefix}{rows[cell]}"
                runs.append(NamedRun(Run(cell), f"{group}/{cell.name}", group))
        else:
            loose.append(Run(folder))
    names = _names([run.folder for run in loose])
    runs += map(NamedRun, loose, names, _groups(loose, names))
    alone = len(folders) == 1
    title = _names(folders)[0] if alone else f"{len(runs)} runs"
    return RunSet(title, tuple(runs), comparisons, folders[0] if alone else None)


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the names of folders, or the whole paths if two names are equal."""
    names = [without_surrogates(folder.name) for folder in folders]
    alike = len(set(names)) < len(names)
    return [without_surrogates(str(folder)) for folder in folders] if alike else names


def _groups(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """Return for each run the names of all runs that differ from it only in seed and folder."""
    keys = [_key(run) for run in runs]
    return [
        ", ".join(name for name, other in zip(names, keys, strict=True) if other == key)
        for key in keys
    ]


def _key(run: Run) -> tuple[str, str | None]:
    """Return the settings of a run, or of its adapt, without seed and folder, and its text."""
    adapted = (run.folder / ADAPT_SETTINGS).is_file()
    config = read_settings(run.folder / ADAPT_SETTINGS, AdaptConfig) if adapted else run.config
    values = to_dict(config)
    del values["seed"], values["output"]
    return str(values), None if adapted or run.results is None else run.results.corpus.digest
