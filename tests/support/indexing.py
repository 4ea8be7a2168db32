"""Indexing by one call with the settings as arguments."""

from __future__ import annotations

from isospace.search import files
from isospace.system.progress import Silent
from isospace.vectors.encode_config import IndexConfig


def index_files(inputs, to, model=None, progress=None, **settings) -> files.IndexedFiles:
    return files.index_files(IndexConfig(inputs, to, model, **settings), progress or Silent())
