"""Fuzz one target, or each in turn: python fuzz/fuzz.py [TARGET] [SECONDS].

Needs atheris (pip install atheris), which has wheels for Linux. A finding ends the target with a
traceback, and its content is kept as a file crash-*. `python fuzz/fuzz.py TARGET FILE` runs that
content again.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from damage import damaged

SECONDS = 600
MEGABYTES = 4096
"""Largest memory of a target, libraries included."""
SLOWEST = 20
"""Seconds for one content; longer is a hang."""


def fuzz(name: str, seconds: int, repeated: list[str]) -> None:
    """Fuzz a target in this process, which libFuzzer ends."""
    import atheris

    warnings.simplefilter("ignore")  # warnings of libraries about contents
    with tempfile.TemporaryDirectory(prefix="isospace-fuzz-") as scratch:
        folder, seeds = Path(scratch, "read"), Path(scratch, "seeds")
        for made in (folder, seeds):
            made.mkdir()
        # Imports are instrumented here; readers import their libraries when they are called.
        with atheris.instrument_imports(include=["isospace", "pypdf", "docutils", "docx"]):
            from targets import TARGETS, run

            target = TARGETS[name]
            for number, content in enumerate(target.seeds(Path(scratch))):
                (seeds / str(number)).write_bytes(content)
                run(target, content, folder)
        limits = [
            f"-rss_limit_mb={MEGABYTES}",
            f"-timeout={SLOWEST}",
            "-print_final_stats=1",
            "-max_len=200000",
        ]
        paths = repeated or [f"-max_total_time={seconds}", str(seeds)]
        atheris.Setup(
            [sys.argv[0], *limits, *paths],
            lambda content: run(target, content, folder),
            custom_mutator=lambda *content: _mutated(atheris, *content),
        )
        atheris.Fuzz()


def _mutated(atheris: Any, content: bytes, largest: int, seed: int) -> bytes:
    """Mutate as libFuzzer does, or inside the format."""
    draw = random.Random(seed)
    if draw.random() < 0.5:
        return bytes(atheris.Mutate(content, len(content)))
    made = damaged(content, draw)
    return made if len(made) <= largest else content


def main() -> int:
    """Fuzz one target in this process, or every target in its own process."""
    words = sys.argv[1:]
    if words and words[0] != "all":
        seconds = int(words[1]) if len(words) > 1 and words[1].isdigit() else SECONDS
        fuzz(words[0], seconds, [] if len(words) < 2 or words[1].isdigit() else words[1:])
        return 0
    from targets import TARGETS

    failed = [
        name
        for name in TARGETS
        if subprocess.run([sys.executable, __file__, name, *words[1:]], check=False).returncode
    ]
    sys.stdout.write(f"findings in: {', '.join(failed) or 'none'}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
