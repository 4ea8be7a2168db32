"""The runs that a report is about: named, grouped by their settings; and comparisons of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isospace.adaptation.adapt_config import AdaptConfig
from isospace.comparison.compare import require_alike
from isospace.comparison.judgement import judge_runs
from isospace.comparison.results import ComparisonResults, read_results
from isospace.errors import UserError
from isospace.system.run_folder import ADAPT_SETTINGS
from isospace.system.settings import to_dict
from isospace.system.unicode import without_surrogates
from isospace.training.run import Run, begun

NAMED_RUNS = "of these runs"
"""Name of the comparison of runs that were named one by one."""


@dataclass(frozen=True)
class NamedRun:
    """A run with a name of its own, and that of its settings, which other seeds share (`group`)."""

    run: Run
    name: str
    group: str


@dataclass(frozen=True)
class RunSet:
    """What a report is about.

    Attributes:
        title: a few words.
        runs: those of comparisons first, by name and seed; then the others as given.
        comparisons: name -> what it says, `None` while unfinished; runs that were named one by one
            are a comparison `NAMED_RUNS` of their settings.
        home: the folder where the report belongs; `None` for runs that share none.
        untested: why named runs of several settings are not tested against each other; else empty.
    """

    title: str
    runs: tuple[NamedRun, ...]
    comparisons: dict[str, ComparisonResults | None]
    home: Path | None
    untested: str = ""

    def groups(self) -> dict[str, list[Run]]:
        """Return runs that differ in their seed alone, by the name of their settings."""
        return _groups(self.runs)


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
    named = list(map(NamedRun, loose, names, _labels(_with_text(loose))))
    groups = _groups(named)
    untested = ""
    if len(groups) > 1:
        try:
            comparisons[NAMED_RUNS] = _tested(groups)
        except UserError as error:
            untested = str(error)
    runs += named
    alone = len(folders) == 1
    title = _names(folders)[0] if alone else f"{len(runs)} runs"
    return RunSet(title, tuple(runs), comparisons, folders[0] if alone else None, untested)


def _groups(runs: Sequence[NamedRun]) -> dict[str, list[Run]]:
    """Return runs that differ in their seed alone, by the name of their settings."""
    groups: dict[str, list[Run]] = {}
    for named in runs:
        groups.setdefault(named.group, []).append(named.run)
    return groups


def _tested(groups: Mapping[str, Sequence[Run]]) -> ComparisonResults:
    """Compare runs with each other as `compare` does its candidates.

    Raises:
        UserError: they cannot be tested; the message says why.
    """
    for group, runs in groups.items():
        for run in runs:
            if (run.folder / ADAPT_SETTINGS).is_file():
                raise UserError(f"{run.folder}: `adapt` made it, from candidates of its own")
            if run.results is None:
                raise UserError(f"{run.folder}: is not finished")
        if len({run.config.seed for run in runs}) < len(runs):
            raise UserError(f"{group}: two runs have the same seed. Name one of them")
    require_alike({group: runs[0].config for group, runs in groups.items()})
    return judge_runs(groups, "MRR")


def _rows(
    folder: Path, cells: Sequence[Path], results: ComparisonResults | None
) -> dict[Path, str]:
    """Return the row of each cell; of a finished comparison only cells that it is about."""
    if results is None:
        return {cell: cell.parent.name for cell in cells}
    about = {folder / cell: row for row, cells in results.runs.items() for cell in cells}
    return {cell: about[cell] for cell in cells if cell in about}


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the last parts of folders, or whole paths if two parts are alike."""
    names = [without_surrogates(folder.name) for folder in folders]
    alike = len(set(names)) < len(names)
    return [without_surrogates(str(folder)) for folder in folders] if alike else names


def _labels(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Return each run's objective, with the settings in which runs of that objective differ."""
    labels = []
    for own in settings:
        same = [other for other in settings if other["objective"] == own["objective"]]
        differing = [key for key in own if len({str(other.get(key)) for other in same}) > 1]
        details = ", ".join(
            f"{key.replace('_', ' ')} {_told_apart(own[key], [other.get(key) for other in same])}"
            for key in differing
        )
        labels.append(f"{own['objective']} ({details})" if details else str(own["objective"]))
    return labels


def _told_apart(value: Any, values: Sequence[Any]) -> str:
    """Return a value in the shortest words that no other of `values` has.

    >>> _told_apart("a/notes.txt", ["a/notes.txt", "a/texts.txt"])
    'notes.txt'
    >>> _told_apart("a/notes.txt", ["a/notes.txt", "b/notes.txt"])
    'a/notes.txt'
    """
    others = [other for other in values if str(other) != str(value)]

    def short(value: Any) -> str:
        return without_surrogates(_in_words(value))

    def full(value: Any) -> str:
        return without_surrogates(_in_words(value, whole_paths=True))

    unlike = (form for form in (short, full) if form(value) not in map(form, others))
    return next(unlike, ascii)(value)


def _in_words(value: Any, whole_paths: bool = False) -> str:
    """Write a setting's value for people.

    >>> _in_words((3200, "sentences")), _in_words(("texts/notes.txt",)), _in_words(None)
    ('3200 sentences', 'notes.txt', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return " ".join(_in_words(part, whole_paths) for part in value) or "none"
    if isinstance(value, str) and "/" in value and not whole_paths:
        return Path(value).name
    return str(value)


def _with_text(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the settings of each run, and a digest of its text if equal settings read several."""
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
    """Return all settings but seed and output, in one level; for a run of adapt its own."""
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
