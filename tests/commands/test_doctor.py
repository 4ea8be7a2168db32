"""`isospace doctor`: what it looks at, and what it says about what is missing."""

from __future__ import annotations

import json
import sys

import pytest

from isospace.cli import main


@pytest.fixture(autouse=True)
def cheap_imports(monkeypatch):
    monkeypatch.setattr("isospace.commands.doctor.IMPORTED", "decimal")


def diagnose(capsys) -> dict[str, dict[str, object]]:
    assert main(["doctor", "--json"]) == 0
    return {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}


def test_a_package_that_does_not_import_is_a_finding(capsys, monkeypatch):
    assert diagnose(capsys)["imports"]["ok"]
    monkeypatch.setattr("isospace.commands.doctor.IMPORTED", "no_such_module")
    findings = diagnose(capsys)
    assert not findings["imports"]["ok"]
    assert "ModuleNotFoundError" in findings["imports"]["text"]
    assert "bf16" not in findings  # torch could be what does not import


def test_doctor_misses_each_module_that_a_verb_needs(capsys, monkeypatch):
    absent = {"onnxruntime", "uvicorn"}
    monkeypatch.setattr(
        "isospace.commands.doctor.find_spec", lambda name: None if name in absent else name
    )
    found = diagnose(capsys)
    onnx, explore = found["onnx, onnxscript, onnxruntime"], found["starlette, uvicorn"]
    assert not onnx["ok"]
    assert onnx["text"].endswith("without onnxruntime: pip install 'isospace[onnx]'")
    assert not explore["ok"]
    assert "without uvicorn" in explore["text"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no safe path")
def test_it_runs_nothing_of_the_folder_that_the_user_is_in(capsys, monkeypatch, tmp_path):
    (tmp_path / "colorsys.py").write_text("raise RuntimeError('a file of the user ran')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("isospace.commands.doctor.IMPORTED", "colorsys")
    assert diagnose(capsys)["imports"]["ok"]
