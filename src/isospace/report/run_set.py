"""The runs of a report, named and grouped by their settings, and their comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isospace.adaptation.adapt_config import AdaptConfig
from isospace.comparison.results import ComparisonResults, read_results
from isospace.system.run_folder import ADAPT_SETTINGS
from isospace.system.settings import to_dict
from isospace.system.unicode import without_surrogates
from isospace.training.run import Run, begun


@dataclass(frozen=True)
class NamedRun:
    """A run, its name, and the name of its settings (`group`), which all its seeds share."""

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
    """Find the runs in folders of runs and in folders of comparisons.

    Raises:
        UserError: a folder is neither, or a run's settings cannot be read.
    """
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
            for cell, row in _rows(folder, cells, results).items():
                group = f"{prefix}{row}"
                runs.append(NamedRun(Run(cell), f"{group}/{cell.name}", group))
        else:
            loose.append(Run(folder))
    names = _names([run.folder for run in loose])
    runs += map(NamedRun, loose, names, _labels(_with_text(loose)))
    alone = len(folders) == 1
    title = _names(folders)[0] if alone else f"{len(runs)} runs"
    return RunSet(title, tuple(runs), comparisons, folders[0] if alone else None)


def _rows(
    folder: Path, cells: Sequence[Path], results: ComparisonResults | None
) -> dict[Path, str]:
    """Return cell -> row; for a finished comparison only the cells in its results."""
    if results is None:
        return {cell: cell.parent.name for cell in cells}
    about = {folder / cell: row for row, cells in results.runs.items() for cell in cells}
    return {cell: about[cell] for cell in cells if cell in about}


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the names of folders, or the whole paths if two names are equal."""
    names = [without_surrogates(folder.name) for folder in folders]
    alike = len(set(names)) < len(names)
    return [without_surrogates(str(folder)) for folder in folders] if alike else names


def _labels(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Return the objective of each run, with the settings in which its runs differ."""
    labels = []
    for own in settings:
        same = [other for other in settings if other["objective"] == own["objective"]]
        differing = [key for key in own if len({str(other.get(key)) for other in same}) > 1]
        details = ", ".join(f"{key.replace('_', ' ')} {_in_words(own[key])}" for key in differing)
        labels.append(f"{own['objective']} ({details})" if details else str(own["objective"]))
    return labels


def _in_words(value: Any) -> str:
    """Return the value of a setting as text for people.

    >>> _in_words((3200, "sentences")), _in_words(None)
    ('3200 sentences', 'none')
    """
    if isinstance(value, list | tuple):
        return " ".join(map(_in_words, value)) or "none"
    return "none" if value is None else without_surrogates(str(value))


def _with_text(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the settings of each run.

    A digest of the text is added if runs with the same settings read different texts.
    """
    settings, digests = [_settings(run) for run in runs], [_digest(run) for run in runs]
    texts: dict[str, set[str | None]] = {}
    for own, digest in zip(settings, digests, strict=True):
        texts.setdefault(str(own), set()).add(digest)
    return [
        own | {"text": digest or "unknown"} if len(texts[str(own)] - {None}) > 1 else own
        for own, digest in zip(settings, digests, strict=True)
    ]


def _digest(run: Run) -> str | None:
    """Return the digest of a finished run's text; `None` for runs of adapt."""
    results = None if (run.folder / ADAPT_SETTINGS).is_file() else run.results
    return None if results is None else results.corpus.digest[:8]


def _settings(run: Run) -> dict[str, Any]:
    """Return the settings of the run, or of its adapt, as one flat dict without seed and output."""
    if (run.folder / ADAPT_SETTINGS).is_file():
        values = to_dict(AdaptConfig.read(run.folder / ADAPT_SETTINGS))
        objective = {"objective": "adapt"}
    else:
        values = run.config.to_dict()
        own = values.pop("objective")
        objective = {"objective": own.pop("name"), **own}
    parts = {**values.pop("text"), **values}
    del parts["seed"], parts["output"]
    return objective | parts
