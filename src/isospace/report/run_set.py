"""The runs of a report, named and grouped by their settings, and their comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isospace.comparison.results import ComparisonResults, read_results
from isospace.system.unicode import without_surrogates
from isospace.training.run import Run, begun


@dataclass(frozen=True)
class NamedRun:
    """A run, its name, and the name of its row: in a comparison, all seeds of a candidate."""

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
        """Return name of a row -> its runs."""
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
    runs += map(NamedRun, loose, names, names)
    alone = len(folders) == 1
    title = _names(folders)[0] if alone else f"{len(runs)} runs"
    return RunSet(title, tuple(runs), comparisons, folders[0] if alone else None)


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the names of folders, or the whole paths if two names are equal."""
    names = [without_surrogates(folder.name) for folder in folders]
    alike = len(set(names)) < len(names)
    return [without_surrogates(str(folder)) for folder in folders] if alike else names
