"""The finished runs of a comparison in one small file: what they came to, without the weights.

So a comparison that takes hours can be gone on with on another machine, and judged again when the
statistics change, without training again.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

from isospace.files import atomic_path
from isospace.report.run_set import collect
from isospace.report.write import write_report

_SETTINGS, _RESULTS = "config.json", "results.json"
_KEPT = (_SETTINGS, _RESULTS, "items.npz", "metrics.jsonl")


def pack(runs: Path, archive: Path) -> None:
    """Put the finished runs of a comparison into an archive, without the paths of this machine.

    Args:
        runs: the comparison's folder.
        archive: made anew (.tar.xz).
    """
    folders = sorted(path.parent for path in runs.glob("*/seed-*/report.html"))
    folders = [folder for folder in folders if (folder / _RESULTS).is_file()]
    with atomic_path(archive) as temporary, tarfile.open(temporary, "w:xz", preset=9) as file:
        for folder in folders:
            name = folder.relative_to(runs).as_posix()
            for part in _KEPT:
                content = (folder / part).read_bytes()
                if part in (_SETTINGS, _RESULTS):
                    content = _placed(content, "CORPUS", "STS", Path(name))
                entry = tarfile.TarInfo(f"{name}/{part}")
                entry.size = len(content)
                file.addfile(entry, io.BytesIO(content))


def unpack(archive: Path, runs: Path, corpus: Path, sts: Path) -> None:
    """Put the runs of an archive where a comparison finds them, but for those that it has.

    Args:
        archive: what `pack` made.
        runs: the comparison's folder.
        corpus: the text that they were trained on; its digest is checked when they are judged.
        sts: the STS sets.
    """
    with tarfile.open(archive) as file:
        entries = {entry.name: file.extractfile(entry).read() for entry in file}
    for name in dict.fromkeys(entry.rpartition("/")[0] for entry in entries):
        folder = runs / name
        if (folder / _SETTINGS).is_file():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        for part in reversed(_KEPT):  # the settings last: with them it is a run
            content = entries[f"{name}/{part}"]
            if part in (_SETTINGS, _RESULTS):
                content = _placed(content, str(corpus), str(sts), folder)
            (folder / part).write_bytes(content)
        write_report(collect([folder]))


def _placed(content: bytes, corpus: str, sts: str, output: Path) -> bytes:
    """Settings or results with these paths in them."""
    values: dict[str, Any] = json.loads(content)
    config = values.get("config", values)
    config["text"]["corpus"], config["output"] = [corpus], str(output)
    config["data"] = config["data"] and sts
    return (json.dumps(values, indent=2) + "\n").encode()
