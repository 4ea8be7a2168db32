"""No file of a user is unpickled, and nothing of it runs: what ruff's rules do not see."""

from __future__ import annotations

import ast
from pathlib import Path

import isospace

SOURCES = sorted(Path(isospace.__file__).parent.rglob("*.py"))
MODULES = {"pickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}


def calls(tree):
    return ((ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_nothing_unpickles():
    """numpy and torch unpickle where they are asked to; their defaults are said where they load."""
    found = []
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [(path.name, name) for name in names if name.split(".")[0] in MODULES]
        for name, call in calls(tree):
            options = {option.arg: ast.unparse(option.value) for option in call.keywords}
            if name == "torch.load" and options.get("weights_only") != "True":
                found.append((path.name, name))
            if options.get("allow_pickle", "False") != "False":
                found.append((path.name, name))
    assert found == []


def test_what_loads_models_says_whether_code_is_trusted():
    """Left out, transformers asks on the terminal; a folder of sentence-transformers is its name."""
    loaders = ("from_pretrained", "SentenceTransformer", "CrossEncoder")
    found = []
    for path in SOURCES:
        for name, call in calls(ast.parse(path.read_text(encoding="utf-8"))):
            options = {option.arg for option in call.keywords}
            # A folder of an adapter holds weights alone: its base model is loaded before.
            no_code = "modules" in options or name == "PeftModel.from_pretrained"
            loads = name.split(".")[-1] in loaders and not no_code
            if loads and not options & {"trust_remote_code", None}:  # None is **options
                found.append((path.name, name))
    assert found == []


def test_no_archive_is_unpacked_onto_the_disk():
    unpack = ("extract", "extractall", "unpack_archive")
    found = [
        (path.name, name)
        for path in SOURCES
        for name, _ in calls(ast.parse(path.read_text(encoding="utf-8")))
        if name.split(".")[-1] in unpack and "." in name
    ]
    assert found == []
