"""What is uploaded: the wheel and the source archive, built, installed and started."""

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.exhaustive


def run(*command, cwd):
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, cwd=ROOT)
    return folder


def tracked(*paths):
    return set(run("git", "ls-files", *paths, cwd=ROOT).splitlines())


def test_the_wheel_holds_the_package_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {name.removeprefix("src/") for name in tracked("src/isospace")}


def test_the_source_archive_lacks_the_studies_runs_alone(built):
    (source,) = built.glob("*.tar.gz")
    assert source.stat().st_size < 10_000_000
    with tarfile.open(source) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert tracked() - names == tracked("docs/results/*-cells.npz.xz")


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_both_install_and_start_in_an_environment_of_their_own(built, kind, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    (file,) = built.glob(kind)
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]
    run(python, "-m", "pip", "install", "-q", *offline, file, cwd=tmp_path)
    where = run(python, "-I", "-c", "import isospace; print(isospace.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(site)
    assert "simcse" in run(python, "-I", python.parent / "isospace", "objectives", cwd=tmp_path)
