"""Commands that are killed, starved and lied to, again and again: is anything lost?

    python tests/support/torture.py [--kills 200] [--faults 30] [--seed 0] [--only VERB ...]
                                    [--troubles TROUBLE ...] [--page docs/results/faults.md]

Every command meets each trouble of `TROUBLES` at random moments and goes on after it. It must end
with what it makes undisturbed, or, where files were damaged, say in a line what is wrong; never
with a traceback. `make torture` writes the page, and what it shows into a .json beside it, where
rows that are not made again stay.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(Path(__file__).parent))

from searches import write_documents
from toy import sentences, write_toy_model
from warm import WarmProcess, isospace_main, run_together, together

DONE, STOPPED, REFUSED, KILLED = 0, 1, 2, -signal.SIGKILL
"""Exit statuses: done; ended early, to be gone on with; bad input, in a line; by SIGKILL."""
FULL = 1 << 30
"""Bytes of the small disk when it is large."""
TRIES = 5
"""To meet a trouble once; some never meet a command, such as damage one that writes at its end."""


@dataclass(frozen=True)
class Command:
    """A command that can be troubled."""

    command: str
    first: Callable[[Path], list[str]]
    again: Callable[[Path], list[str]]
    made: Callable[[Path], Any]


@dataclass
class Toll:
    """What became of one command in one kind of trouble."""

    times: int = 0
    refused: int = 0
    losses: list[str] = field(default_factory=list)
    said: Counter[str] = field(default_factory=Counter)


@dataclass
class Scene:
    """A command at its work, which trouble is made for."""

    command: Command
    output: Path
    whole: Any
    seconds: float
    size: int
    draw: random.Random
    toll: Toll

    @property
    def words(self) -> list[str]:
        """Those that go on with what is there, or begin."""
        return self.command.again(self.output)

    def start(self, **environment: str) -> WarmProcess:
        """The command in a process."""
        return WarmProcess(isospace_main, self.words, **environment)

    def wait_a_while(self) -> None:
        """Some part of the time that the command takes."""
        time.sleep(self.draw.uniform(0.0, 0.95) * self.seconds)

    def end(self, process: WarmProcess, *expected: int) -> int:
        """Wait for a process, which must end in one of these ways, and without a traceback."""
        status = process.wait()
        lines = process.err.strip().splitlines()
        self.toll.said[f"{status}: {lines[-1][:160] if lines else ''}"] += 1
        if status not in expected or "Traceback (most recent call last)" in process.err:
            self.toll.losses.append(f"status {status}: {process.err.strip()[-400:]}")
        return status

    def kill(self, process: WarmProcess) -> int:
        """End a process by SIGKILL, unless it is done."""
        if process.running:
            process.send(signal.SIGKILL)
        return self.end(process, DONE, KILLED)

    def is_whole(self) -> bool:
        """Whether it has made what it makes undisturbed."""
        with suppress(Exception):  # whatever it is that cannot be read yet
            return _equal(self.command.made(self.output), self.whole)
        return False

    def kill_soon(self) -> int:
        """Begin or go on, and end by SIGKILL within the time that it takes; the exit status."""
        process = self.start()
        self.wait_a_while()
        return self.kill(process)

    def go_on(self, *also: int) -> None:
        """Let it end in peace, and compare what it made with what it makes undisturbed."""
        status = self.end(self.start(), DONE, *also)
        if status == REFUSED:
            self.toll.refused += 1
        elif status == DONE and not self.is_whole():
            self.toll.losses.append("another result than undisturbed, or none")


def killed(scene: Scene) -> None:
    """SIGKILL, one to four times in a row."""
    for _ in range(scene.draw.randint(1, 4)):
        if scene.kill_soon() == DONE:
            break
        scene.toll.times += 1
    scene.go_on()


def damaged(scene: Scene) -> None:
    """A file of unfinished work is cut."""
    process = scene.start()
    while process.running and not scene.output.exists():
        time.sleep(0.01)
    time.sleep(scene.draw.uniform(0.0, 0.5) * scene.seconds)
    scene.kill(process)
    if scene.is_whole():  # what is finished is not made again
        return
    files = [path for path in sorted(scene.output.rglob("*")) if path.is_file()]
    # Metrics are a log, of which lines that cannot be read are left out.
    files = [path for path in files if path.stat().st_size and path.name != "metrics.jsonl"]
    if files:
        scene.toll.times += 1
        path = scene.draw.choice(files)
        content = path.read_bytes()
        path.write_bytes(content[: scene.draw.randrange(len(content))])
        before = len(scene.toll.losses)
        scene.go_on(REFUSED)
        if len(scene.toll.losses) > before:
            scene.toll.losses[-1] += f" (damaged: {path.relative_to(scene.output)})"


def full(scene: Scene) -> None:
    """The disk is full before the command is done."""
    _resize(scene.output.parent, int(scene.draw.uniform(0.05, 0.95) * scene.size))
    scene.toll.times += 1
    scene.end(scene.start(), DONE, STOPPED, REFUSED)
    _resize(scene.output.parent, FULL)
    scene.go_on()


def vanished(scene: Scene) -> None:
    """The folder is moved away, and put back later."""
    process, away = scene.start(), scene.output.with_name("away")
    scene.wait_a_while()
    with suppress(FileNotFoundError):  # not begun yet
        scene.output.rename(away)
    scene.end(process, DONE, STOPPED, REFUSED)
    if away.exists():
        scene.toll.times += 1
        if scene.output.exists():
            shutil.rmtree(scene.output)
        away.rename(scene.output)
    scene.go_on()


def twice(scene: Scene) -> None:
    """The same command twice at one time."""
    first = scene.start()
    scene.wait_a_while()
    second = scene.start()
    scene.toll.times += 1
    statuses = [scene.end(process, DONE, REFUSED) for process in (first, second)]
    if DONE not in statuses:
        scene.toll.losses.append("both gave way")
    scene.go_on()


def elsewhen(scene: Scene) -> None:
    """Killed; then the clock is a year behind, and the locale has ASCII alone."""
    scene.kill_soon()
    scene.toll.times += 1
    place = {"LC_ALL": "C", "TZ": "Pacific/Kiritimati", "PYTHONUTF8": "0"}
    scene.end(WarmProcess(_a_year_behind, scene.words, **place), DONE)
    scene.go_on()


def read_only(scene: Scene) -> None:
    """Killed; then nothing can be written, until it is gone on with once more."""
    scene.kill_soon()
    scene.toll.times += 1
    _remount(scene.output.parent, "ro")
    scene.end(scene.start(), DONE, STOPPED, REFUSED)
    _remount(scene.output.parent, "rw")
    scene.go_on()


def one_of_two(scene: Scene) -> None:
    """One of two processes that share the work is killed; the other must end by itself."""
    whole = _made_by_two(scene.command, scene.output.with_name("two"))
    processes = together(2, isospace_main, scene.words)
    scene.wait_a_while()
    dies, stays = scene.draw.sample(processes, 2)
    scene.kill(dies)
    if scene.end(stays, DONE, STOPPED) == STOPPED:
        scene.toll.times += 1
    for process in together(2, isospace_main, scene.words):
        scene.end(process, DONE)
    if not _equal(scene.command.made(scene.output), whole):
        scene.toll.losses.append("another result than undisturbed")


def not_a_number(scene: Scene) -> None:
    """An encoder that gives NaN, as broken weights do."""
    words = [word.replace("/toy", "/broken") for word in scene.command.first(scene.output)]
    scene.toll.times += 1
    if scene.end(WarmProcess(isospace_main, words), STOPPED, REFUSED) == REFUSED:
        scene.toll.refused += 1
    if scene.output.exists():
        shutil.rmtree(scene.output)
    scene.go_on()


@cache
def _made_by_two(command: Command, output: Path) -> Any:
    """What two processes make undisturbed."""
    run_together(2, isospace_main, command.first(output))
    made = command.made(output)
    shutil.rmtree(output)
    return made


def _a_year_behind(words: list[str]) -> int:
    now = time.time
    time.time = lambda: now() - 365 * 24 * 3600
    return isospace_main(words)


TROUBLES: dict[str, Callable[[Scene], None]] = {
    "killed": killed,
    "damaged": damaged,
    "full disk": full,
    "folder moved away": vanished,
    "twice at once": twice,
    "another clock and locale": elsewhen,
    "read-only disk": read_only,
    "NaN from the encoder": not_a_number,
    "one of two processes dies": one_of_two,
}
ON_A_DISK = ("full disk", "read-only disk")
"""Those that need a disk of their own."""
SHARED = {"one of two processes dies": ("train",)}
"""Trouble -> the commands that can meet it; others can meet all."""


def all_commands(folder: Path) -> list[Command]:
    """The commands, on texts and encoders that are made in a folder."""
    model = write_toy_model(folder / "toy")
    broken = shutil.copytree(model, folder / "broken") / "model.safetensors"
    weights = load_file(broken)
    save_file({k: np.full_like(x, np.nan) for k, x in weights.items()}, broken, {"format": "pt"})
    lines = folder / "lines.txt"
    lines.write_text("\n".join(sentences(1500)) + "\n", encoding="utf-8")
    many = folder / "many.txt"  # several shards, and several slices of an index
    many.write_text("\n".join(sentences(5_000)) + "\n", encoding="utf-8")
    documents = write_documents(folder / "docs.jsonl")
    text = ["--corpus", str(lines), "--no-near-duplicates", "--model", str(model)]
    short = [
        *("--batch-size", "16", "--budget", "640", "sentences", "--learning-rate", "1e-3"),
        *("--evaluations", "3", "--checkpoint-minutes", "0.001", "--precision", "float32"),
    ]

    def train(output: Path) -> list[str]:
        return ["train", *text, *short, "--output", str(output), "simcse"]

    def adapt(output: Path) -> list[str]:
        read = [
            "--title-column",
            "title",
            "--test-relation",
            "title-passage",
            "--no-near-duplicates",
        ]
        budget = ["--budget", "20000", "tokens", "--max-drop", "100", "--precision", "float32"]
        rest = [*budget, "--model", str(model), "--output", str(output)]
        return ["adapt", str(documents), *read, *rest]

    def compare(output: Path) -> list[str]:
        rest = ["--seeds", "2", "--jobs", "1", "--output", str(output)]
        return ["compare", "simcse", "scd:projector=[32]", *text, *short, *rest]

    def whiten(output: Path) -> list[str]:
        corpus = ["--corpus", str(lines), "--no-near-duplicates"]
        return ["whiten", str(model), *corpus, "--power", "0.5", "--output", str(output)]

    def encode(output: Path) -> list[str]:
        return ["encode", str(model), str(many), "-o", str(output), "--shard-size", "4096"]

    def index(output: Path) -> list[str]:
        return ["index", str(many), "--model", str(model), "--to", str(output)]

    def resumed(command: str, first: Callable[[Path], list[str]]) -> Callable[[Path], list[str]]:
        def again(output: Path) -> list[str]:
            begun = (output / "config.json").exists()
            return [command, "--resume", str(output)] if begun else first(output)

        return again

    def whiten_once(output: Path) -> list[str]:
        return ["--version"] if output.exists() else whiten(output)

    return [
        Command("train", train, resumed("train", train), _of_run),
        Command("adapt", adapt, resumed("adapt", adapt), _of_ladder),
        Command("compare", compare, compare, _of_comparison),
        Command("whiten", whiten, whiten_once, _of_model),
        Command("encode", encode, encode, _of_shards),
        Command("index", index, index, _of_index),
    ]


def _of_model(folder: Path) -> Any:
    weights = load_file(folder / "model.safetensors")
    return {name: value.tobytes() for name, value in weights.items()}


def _of_run(folder: Path) -> Any:
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [record.get("step") for record in map(json.loads, lines) if record["kind"] == "step"]
    kept = ("steps", "base", "adapted", "choice", "model_step", "evaluations")
    return [_of_model(folder / "model"), steps, [results[name] for name in kept]]


def _of_ladder(folder: Path) -> Any:
    searched = json.loads((folder / "candidates.json").read_text(encoding="utf-8"))
    return [_of_run(folder), searched["tried"], searched["better"], searched["worse"]]


def _of_comparison(folder: Path) -> Any:
    from isospace.comparison.results import read_results

    results = read_results(folder / "results.json")
    runs = sorted(path.parent for path in folder.glob("*/seed-*/results.json"))
    return [results.scores, results.gains, [(run.name, _of_run(run)) for run in runs]]


def _of_shards(folder: Path) -> Any:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    names = sorted(path.name for path in folder.iterdir() if path.suffix in (".parquet", ".npy"))
    return [manifest, [(name, (folder / name).read_bytes()) for name in names]]


def _of_index(folder: Path) -> Any:
    from isospace.search.index import SearchIndex

    index = SearchIndex.open(folder)
    found = index.search("the cat sat on the mat", k=50, exact=True).hits[0]
    return [len(index), [(hit.text, hit.cosine) for hit in found]]


def _equal(one: Any, other: Any) -> bool:
    """Equal, NaN being equal to itself."""
    if is_dataclass(one):
        one, other = vars(one), vars(other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, float):
        return bool(np.array_equal(one, other, equal_nan=True))
    return bool(one == other)


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A disk in memory at a folder, whose size can be changed; False where none can be mounted."""
    folder.mkdir()
    call = ["mount", "-t", "tmpfs", "-o", f"size={FULL}", "tmpfs", str(folder)]
    mounted = os.name == "posix" and not subprocess.run(call, capture_output=True).returncode
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def _resize(disk: Path, size: int) -> None:
    _remount(disk, f"size={-(-max(size, 1) // 4096) * 4096}")


def _remount(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(disk)], check=True)


def _undisturbed(command: Command, output: Path) -> tuple[Any, float, int]:
    """What a command makes in peace, the seconds that it takes, and the bytes that it leaves."""
    for _ in range(2):  # the first one fills the cache, and is slower
        shutil.rmtree(output, ignore_errors=True)
        began = time.monotonic()
        process = WarmProcess(isospace_main, command.first(output))
        if process.wait() != DONE:
            raise RuntimeError(f"{command.command} fails undisturbed: {process.err}")
        seconds = time.monotonic() - began
    whole = command.made(output)
    size = sum(file.stat().st_size for file in output.rglob("*") if file.is_file())
    shutil.rmtree(output)
    return whole, seconds, size


def trouble(
    commands: list[str] | None, counts: dict[str, int], draw: random.Random
) -> Iterator[tuple[str, str, Toll]]:
    """Make trouble so many times, shared out over the commands.

    Args:
        commands: the commands; default: all.
        counts: trouble -> times.
        draw: the moments.

    Yields:
        A trouble, a command, and what became of it.
    """
    with tempfile.TemporaryDirectory() as place, small_disk(Path(place, "disk")) as mounted:
        os.environ["XDG_CACHE_HOME"] = str(Path(place, "cache"))
        found = [c for c in all_commands(Path(place)) if not commands or c.command in commands]
        for command in found:
            output = Path(place, "disk", command.command)
            whole, seconds, size = _undisturbed(command, output)
            for name, times in counts.items():
                if name in ON_A_DISK and not mounted:
                    continue
                if command.command not in SHARED.get(name, (command.command,)):
                    continue
                toll, wanted = Toll(), -(-times // len(found))
                for _ in range(TRIES * wanted):
                    if toll.times >= wanted:
                        break
                    scene = Scene(command, output, whole, seconds, size, draw, toll)
                    TROUBLES[name](scene)
                    for left in output.parent.iterdir():  # what was killed at last may leave some
                        shutil.rmtree(left)
                print(f"{name}, {command.command}: {toll.times} times, {len(toll.losses)} losses")
                for words, often in toll.said.most_common(12):
                    print(f"    {often} x {words}")
                for loss in toll.losses:
                    print(f"    LOST {loss}")
                sys.stdout.flush()
                yield name, command.command, toll


def write_page(page: Path, name: str, command: str, toll: Toll, made: str) -> None:
    """Put what became of a command into the record, and the record into the page."""
    record = page.with_suffix(".json")
    rows = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    row = {"times": toll.times, "refused": toll.refused, "losses": len(toll.losses), "made": made}
    rows.setdefault(name, {})[command] = row
    record.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    commands = list(dict.fromkeys(command for found in rows.values() for command in found))
    lines = [
        "| trouble | " + " | ".join(commands) + " | refused | losses |",
        "|---" * (len(commands) + 3) + "|",
    ]
    for name in filter(rows.__contains__, TROUBLES):
        found = rows[name]
        times = [str(found[c]["times"]) if c in found else "" for c in commands]
        sums = [str(sum(row[key] for row in found.values())) for key in ("refused", "losses")]
        lines.append("| " + " | ".join([name, *times, *sums]) + " |")
    made_by = sorted({row["made"] for by_command in rows.values() for row in by_command.values()})
    text, mark, _ = page.read_text(encoding="utf-8").partition("## Counts\n")
    shown = "\n".join([" ".join(made_by), "", *lines, ""])
    page.write_text(f"{text}{mark}\n{shown}", encoding="utf-8")


def main() -> int:
    """All troubles, as often as asked for; 1 where anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="VERB")
    parser.add_argument("--troubles", nargs="+", choices=TROUBLES, default=list(TROUBLES))
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    counts = dict.fromkeys(TROUBLES, options.faults) | {"killed": options.kills}
    counts = {name: counts[name] for name in options.troubles}
    made = f"Seed {options.seed}; {platform.machine()}, Python {platform.python_version()}."
    lost = 0
    for name, command, toll in trouble(options.only, counts, random.Random(options.seed)):
        lost += len(toll.losses)
        if options.page:
            write_page(options.page, name, command, toll, made)
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
