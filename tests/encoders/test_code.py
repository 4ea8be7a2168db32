"""Code that comes with a model runs where the user says so, and nowhere else."""

import ast
import json
import shutil
from pathlib import Path

import pytest
from huggingface_hub.errors import RevisionNotFoundError

import isospace
from isospace.cli import main
from isospace.comparison.cells import command_of_cell
from isospace.encoders import places
from isospace.encoders.loading import load_encoder
from isospace.encoders.places import Place, resolve
from isospace.errors import UserError
from isospace.search import SearchIndex
from isospace.system.consent import trusting_code, trusts_code

CODE = """
import os
from pathlib import Path
Path(os.environ["ISOSPACE_TEST_RAN"]).touch()
from sentence_transformers.sentence_transformer.modules import Normalize
from transformers import BertConfig, BertModel


class Mine(Normalize):
    pass


class MyConfig(BertConfig):
    model_type = "mine"


class MyModel(BertModel):
    config_class = MyConfig
"""


@pytest.fixture(autouse=True)
def ran(tmp_path, monkeypatch):
    """A file that is there once the code has run; where transformers would copy it is new too."""
    monkeypatch.setenv("ISOSPACE_TEST_RAN", str(tmp_path / "ran"))
    modules = tmp_path / "modules"
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(modules))
    monkeypatch.syspath_prepend(modules)
    return tmp_path / "ran"


@pytest.fixture
def modules_folder(toy_model, tmp_path):
    """A sentence-transformers folder one of whose modules is its own."""
    folder = tmp_path / "with-module"
    load_encoder(str(toy_model), device="cpu").model.save(str(folder))
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "2_Mine").mkdir()
    modules.append({"idx": 2, "name": "2", "path": "2_Mine", "type": "mine.Mine"})
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "mine.py").write_text(CODE)
    return folder


@pytest.fixture
def transformer_folder(toy_model, tmp_path):
    folder = shutil.copytree(toy_model, tmp_path / "with-architecture")
    path = folder / "config.json"
    own = {"AutoConfig": "mine.MyConfig", "AutoModel": "mine.MyModel"}
    config = json.loads(path.read_text()) | {"model_type": "mine", "auto_map": own}
    path.write_text(json.dumps(config | {"architectures": ["MyModel"]}))
    (folder / "mine.py").write_text(CODE)
    return folder


@pytest.fixture(params=["modules_folder", "transformer_folder"])
def folder(request):
    return request.getfixturevalue(request.param)


def test_code_in_a_folder_is_refused_and_does_not_run(folder, ran, capsys, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # nobody is asked
    with pytest.raises(UserError, match="`trust_remote_code`"):
        load_encoder(str(folder), device="cpu")
    own = folder / "pairs.jsonl"
    own.write_text("".join(f'["the cat {i}", "a cat {i}"]\n' for i in range(9)))
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--own", str(own)]) == 2
    error = capsys.readouterr().err
    assert "--trust-remote-code" in error
    assert error.count("\n") == 1
    assert not ran.exists()


def test_it_runs_where_the_user_says_so(folder, ran):
    embedder = isospace.load(folder, device="cpu", trust_remote_code=True)
    assert embedder.encode(["the cat"]).shape == (1, 32)
    assert ran.exists()
    assert not trusts_code()


def test_no_file_can_say_that_code_is_trusted(modules_folder, toy_model, ran, tmp_path):
    """An index names the model to load."""
    pytest.importorskip("lancedb", reason="lancedb is not installed (the extra search brings it)")
    SearchIndex.create(tmp_path / "index", str(toy_model)).add(["the cat"], ["a"])
    path = tmp_path / "index" / "isospace.json"
    about = json.loads(path.read_text()) | {"model": str(modules_folder), "trust_remote_code": True}
    path.write_text(json.dumps(about))
    with pytest.raises(UserError, match="trust_remote_code"):
        SearchIndex.open(tmp_path / "index").search("the cat")
    assert not ran.exists()


def test_processes_that_are_started_trust_what_this_one_trusts():
    assert "--trust-remote-code" not in command_of_cell(Path("run"))
    with trusting_code():
        assert command_of_cell(Path("run"))[-1] == "--trust-remote-code"


def test_a_revision_is_pinned_by_the_name(monkeypatch):
    asked, errors = [], []

    def model_info(self, name, **options):
        asked.append((name, options))
        for error in errors:
            raise error.__new__(error)

    monkeypatch.setattr(places.HfApi, "model_info", model_info)
    monkeypatch.setattr(places, "try_to_load_from_cache", lambda *_, **__: None)
    assert resolve("org/name@v9") == Place("org/name", False, "v9")
    errors.append(RevisionNotFoundError)
    with pytest.raises(UserError, match="org/name@v9: neither a folder here nor a model"):
        resolve("org/name@v9")
    assert asked == [("org/name", {"revision": "v9", "timeout": 10})] * 2


def test_what_loads_models_says_whether_code_is_trusted():
    """Left out, transformers asks on the terminal; a folder of sentence-transformers is its name."""
    loaders = ("from_pretrained", "SentenceTransformer", "CrossEncoder")
    for path in Path(isospace.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
            # A folder of an adapter holds weights alone: its base model is loaded before.
            if name.split(".")[-1] in loaders and name != "PeftModel.from_pretrained":
                options = {option.arg for option in call.keywords}
                # Given modules are loaded; None is **options.
                assert options & {"trust_remote_code", "modules", None}, (path.name, name)
