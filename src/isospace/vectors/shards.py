"""Folder of shards with a manifest of the finished shards, so that encoding can resume.

A shard is written atomically, and then entered in the manifest with a hash. A shard without an
entry, left by a kill, is made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from isospace.errors import UserError
from isospace.system import typed_json
from isospace.system.files import file_hash, locked, remove_torn

MANIFEST = "manifest.json"
_LOCK = ".lock"

_WORDS = {
    "model": "model",
    "dtype": "`compress`",
    "text": "text to encode",
    "key": "`id_column`",
}
"""Setting -> its name in messages, if that is not the name of the field."""


@dataclass(frozen=True)
class Shard:
    """A finished shard, with a hash of its bytes."""

    file: str
    rows: int
    hash: str


@dataclass(frozen=True)
class Manifest:
    """Content of the manifest: the settings and the finished shards."""

    isospace: str
    complete: bool
    settings: dict[str, Any]
    shards: tuple[Shard, ...]
    format: int = 1


class Shards:
    """The shards of one output; use them while the folder is `held`.

    A folder can resume with the same `settings` only. The last shard may have fewer than
    `shard_size` rows.

    Raises:
        UserError: the folder was begun with other settings, or is damaged.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], rows: int, shard_size: int, suffix: str
    ) -> None:
        self.folder, self.rows, self.shard_size, self._suffix = folder, rows, shard_size, suffix
        self._settings = {**settings, "shard_size": shard_size, "rows": rows}
        self.done: dict[int, Shard] = {}
        if (folder / MANIFEST).is_file():
            self._read()
        else:
            self.write_manifest(folder / MANIFEST)
        remove_torn(folder)

    def __len__(self) -> int:
        return -(-self.rows // self.shard_size)

    def size(self, index: int) -> int:
        """Return the number of rows of a shard."""
        return min(self.shard_size, self.rows - index * self.shard_size)

    def path(self, index: int) -> Path:
        """Return the path of a shard."""
        return self.folder / f"part-{index:05d}{self._suffix}"

    @property
    def rows_done(self) -> int:
        """Number of rows in the finished shards."""
        return sum(shard.rows for shard in self.done.values())

    def finish(self, index: int, digest: str) -> None:
        """Enter a written shard in the manifest."""
        self.done[index] = Shard(self.path(index).name, self.size(index), digest)
        self.write_manifest(self.folder / MANIFEST)

    def write_manifest(self, path: Path) -> None:
        """Write settings and finished shards to a JSON file."""
        shards = tuple(self.done[index] for index in sorted(self.done))
        complete = len(shards) == len(self)
        typed_json.write(path, Manifest(version("isospace"), complete, self._settings, shards))

    def _read(self) -> None:
        path = self.folder / MANIFEST
        way_out = f"Remove {self.folder}, or give another `output`"
        try:
            manifest = typed_json.read(path, Manifest, "entries of a manifest")
        except UserError as error:
            raise UserError(f"{error}. {way_out}") from error
        self._require_same(manifest.settings)
        by_file = {self.path(index).name: index for index in range(len(self))}
        for shard in manifest.shards:
            if shard.file not in by_file or shard.rows != self.size(by_file[shard.file]):
                raise UserError(f"{path} is damaged (no such shard: {shard.file!r}). {way_out}")
            shard_path = self.folder / shard.file
            if not shard_path.is_file():
                continue  # the shard is made again
            if file_hash(shard_path) != shard.hash:
                raise UserError(
                    f"{shard_path} is damaged: these are not the bytes that were written. Delete "
                    "this file and run the same command again"
                )
            self.done[by_file[shard.file]] = shard

    def _require_same(self, settings: Mapping[str, Any]) -> None:
        for name in [*self._settings, *settings]:  # only some outputs have `compress`
            value = self._settings.get(name)
            if settings.get(name) != value:
                what = _WORDS.get(name, f"`{name}`")
                raise UserError(
                    f"{self.folder}: was begun with another {what} ({settings.get(name)}, now "
                    f"{value}). Give the old value, or another `output`"
                )


def held(folder: Path) -> AbstractContextManager[None]:
    """Make a folder for shards and lock it; the lock ends if the process dies."""
    busy = f"{folder}: another process is writing it; wait for it, or give another `output`"
    return locked(folder / _LOCK, busy)


def require_shards(folder: Path) -> None:
    """Refuse a path that is a file, or a folder with content but without a manifest."""
    if (folder / MANIFEST).is_file() or not folder.exists():
        return
    ours = (_LOCK, f".{MANIFEST}.")  # files left by a kill before the first manifest
    if not folder.is_dir() or any(not path.name.startswith(ours) for path in folder.iterdir()):
        raise UserError(f"{folder}: exists already and has no {MANIFEST}. Give another `output`")
