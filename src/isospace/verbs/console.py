"""What a person sees while something runs: lines, a progress bar, tables. All of it on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from isospace.config import TrainConfig, objective_name
from isospace.corpus.sentences import Corpus
from isospace.encoders.encoder import Encoder
from isospace.evaluation.benchmark import Scores
from isospace.system.devices import memory_gb
from isospace.training.loop import Loop, Step
from isospace.training.run import Run
from isospace.training.selection import kept


class Display:
    """Progress for people.

    Args:
        quiet: show nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False, emoji=False)

    def line(self, label: str, text: str) -> None:
        """One line of the story: a short label and what happened."""
        self.console.print(Text.assemble((f"{label:<9} ", "bold"), text), soft_wrap=True)

    def table(self, title: str, rows: Mapping[str, Mapping[str, str]]) -> None:
        """A small table: row name -> column -> cell."""
        table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
        columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
        for column in ("", *columns):
            table.add_column(column, justify="right" if column else "left")
        for name, cells in rows.items():
            table.add_row(name, *(cells.get(column, "") for column in columns))
        self.console.print(table)

    @contextmanager
    def counting(self, label: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar for work that is counted; gives the function that advances it."""
        bar = Progress(
            TextColumn("{task.description:<9}", style="bold", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        task = bar.add_task(label, total=total)
        with bar:
            yield lambda n: bar.advance(task, n)

    def corpus(self, corpus: Corpus) -> None:
        """What cleaning left."""
        self.line("corpus", corpus.summary)

    def encoder(self, encoder: Encoder, arithmetic: str) -> None:
        """What is trained, and in which arithmetic."""
        rates = ", ".join(f"{rate:g}" for rate in encoder.noise.rates)
        size = sum(p.numel() for p in encoder.parameters()) / 1e6
        self.line(
            "encoder",
            f"{encoder.source}: {size:.1f} M parameters, pooling {encoder.pooling}, "
            f"dropout {rates}, {encoder.device.type}, {arithmetic}",
        )

    def plan(self, config: TrainConfig, loop: Loop, run: Run) -> None:
        """What the training is going to do."""
        size = config.batch_size
        if config.accumulate > 1:
            self.line(
                "note",
                f"an update accumulates {config.accumulate} batches of {size}: each anchor meets "
                f"the {size - 1} other sentences of its own batch only, and batch statistics "
                f"(whitening, decorrelation) are over {size} sentences",
            )
        self.line(
            "train",
            f"{objective_name(config.objective)}: {loop.total_steps:,} updates of "
            f"{loop.sentences_per_step} sentences, from step {loop.step}, into {run.folder}",
        )

    def look(self, looks: Sequence[Mapping[str, float]]) -> None:
        """The newest look, beside the start."""
        if not looks:
            return
        shown = ("pairs_loss", "pairs_mrr", "uniformity", "effective_rank", "labels_spearman")
        cells = [
            f"{name} {looks[-1][name]:.4g} (was {looks[0][name]:.4g})"
            for name in shown
            if name in looks[-1]
        ]
        self.line("look", f"step {looks[-1]['step']:.0f}: {', '.join(cells)}")

    def results(self, before: Scores, after: Scores, results: Mapping[str, Any], run: Run) -> None:
        """Scores before and after, the verdict, and how to load the model."""
        rule, labels = results["choice"]["rule"], results["result"]["labels"]
        selected = f"dev-selected on {labels}" if labels else rule
        rows = {"start": before.cells(), f"result ({selected})": after.cells()}
        self.table("before and after, x 100", rows)
        self.line("kept", kept(results))
        self.line("verdict", results["verdict"]["text"])
        self.line("took", f"{results['seconds']:.0f} s; everything is in {run.folder}")
        self.line("load it", f'SentenceTransformer("{run.model_folder}")')


class TrainingBar:
    """The bar of the training loop: terms, sentences per second, time left, memory.

    Where stderr is no terminal, a plain line is printed ten times a run instead.

    Args:
        display: where to draw.
        done: steps done before (a resumed run).
        total: steps of the whole run.
    """

    def __init__(self, display: Display, done: int, total: int) -> None:
        self._display, self._total = display, total
        self._every = max(1, total // 10)
        self._rate: float | None = None
        self._bar = Progress(
            TextColumn("[bold]train    [/bold]"),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[story]}"),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=display.console,
            transient=True,
            disable=not display.console.is_terminal,
        )
        self._task = self._bar.add_task("train", total=total, completed=done, story="")

    def __enter__(self) -> TrainingBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, step: Step, sentences: int) -> float:
        """Show one update of `sentences` sentences; returns the smoothed sentences per second."""
        now = sentences / step.seconds
        self._rate = now if self._rate is None else 0.9 * self._rate + 0.1 * now
        terms = "  ".join(f"{name} {value:.4g}" for name, value in step.terms.items())
        story = f"{terms}  {self._rate:.0f} sentences/s  {memory_gb():.1f} GB"
        self._bar.update(self._task, completed=step.step, story=story)
        if not self._display.console.is_terminal and step.step % self._every == 0:
            left = (self._total - step.step) * sentences / self._rate
            self._display.line("train", f"{step.step}/{self._total}  {story}  eta {left:.0f} s")
        return self._rate
