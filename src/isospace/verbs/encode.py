"""The verb `encode`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from rich.progress import BarColumn, Progress, TextColumn

from isospace.vectors.encode import EncodeConfig, encode
from isospace.vectors.encode import Progress as Encoded
from isospace.verbs.console import Console
from isospace.verbs.printing import print_result


@dataclass(frozen=True)
class Encode:
    """Turn text of any size into files of vectors; goes on where it was stopped."""

    config: EncodeConfig
    json: bool = False
    """Print the outcome as JSON and no progress."""

    def run(self) -> int:
        """Encode what is missing."""
        config, console = self.config, Console(self.json)
        try:
            with _Bar(console) as bar:
                done = encode(config, bar.update)
        except KeyboardInterrupt:
            kept = f"{config.shard_folder} is kept; " if config.shard_folder.exists() else ""
            console.line("stopped", f"{kept}the same command goes on")
            return 1
        if self.json:
            print_result(json.dumps({**asdict(done), "output": str(config.output)}, indent=2))
        console.line("encoded", f"{done.rows:,} rows are in {config.output}")
        return 0


class _Bar:
    """Rows, sentences per second and time left.

    Where stderr is no terminal, a line is printed ten times an output instead.

    Args:
        console: where to draw.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tenth = -1
        self._bar = Progress(
            TextColumn("[bold]encode   [/bold]"),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            console=console.terminal,
            transient=True,
            disable=not console.terminal.is_terminal,
        )
        self._task = self._bar.add_task("reading", total=None)

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, now: Encoded) -> None:
        """Show how far it is."""
        done = now.before + now.done
        story = f"{done:,}/{now.rows:,}  {now.speed:,.0f} sentences/s"
        if now.seconds_left is not None:
            story += f"  eta {_clock(now.seconds_left)}"
        if not now.done and now.before:
            story = f"{now.before:,}/{now.rows:,} were there already"
        self._bar.update(self._task, total=now.rows, completed=done, description=story)
        tenth = 10 * done // now.rows
        if not self._console.terminal.is_terminal and tenth != self._tenth:
            self._console.line("encode", story)
        self._tenth = tenth


def _clock(seconds: float) -> str:
    """Hours, minutes, seconds.

    >>> _clock(3725.4)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
