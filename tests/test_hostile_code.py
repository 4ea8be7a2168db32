"""Code that comes with a model runs for those alone who trust it."""

import ast
from pathlib import Path

import isospace

SOURCES = sorted(Path(isospace.__file__).parent.rglob("*.py"))


def calls(tree):
    return ((ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call))


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
