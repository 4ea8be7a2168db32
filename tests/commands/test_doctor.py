"""`isospace doctor`: what it looks at, and what it says about what is missing."""

import json

from isospace.cli import main


def test_doctor_misses_each_module_that_a_verb_needs(capsys, monkeypatch):
    absent = {"onnxruntime", "uvicorn"}
    monkeypatch.setattr(
        "isospace.commands.listing.find_spec", lambda name: None if name in absent else name
    )
    assert main(["doctor", "--json"]) == 0
    found = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    onnx, explore = found["onnx, onnxscript, onnxruntime"], found["starlette, uvicorn"]
    assert not onnx["ok"]
    assert onnx["text"].endswith("without onnxruntime: pip install 'isospace[onnx]'")
    assert not explore["ok"]
    assert "without uvicorn" in explore["text"]
