"""`isospace doctor`: what it looks at, and what it says about what is missing."""

import json

from isospace.cli import main


def diagnose(capsys):
    assert main(["doctor", "--json"]) == 0
    return {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}


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
