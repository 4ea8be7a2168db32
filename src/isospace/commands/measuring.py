"""Commands that measure models, or show what runs have measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from isospace.commands.console import Console
from isospace.commands.options import (
    CallsEndpoints,
    LoadsModels,
    Models,
    PrintsJson,
    as_options,
)
from isospace.commands.parser import HELP, parse, recipes_in
from isospace.commands.printing import print_json, print_result, print_table
from isospace.config import COMPRESS_READS, EvaluateConfig, Output, TrainConfig
from isospace.errors import UserError
from isospace.recipes import DEFAULT_RECIPE, find
from isospace.system.cluster import Engine
from isospace.system.settings import PathOrText, Written, to_dict

if TYPE_CHECKING:
    from isospace.comparison.results import ComparisonResults


@dataclass(frozen=True)
class Compare(LoadsModels):
    """Options of `isospace compare`."""

    candidates: Annotated[tuple[str, ...], Written("OBJECTIVE", positional=True)] = ()
    """Objectives to compare, such as simcse whitenedcse. NAME:FIELD=VALUE,FIELD=VALUE sets options
    of one, also learning_rate, dropout or batch_size."""
    recipe: tuple[str, ...] = ()
    """Compare these rows of `isospace recipes` instead of objectives; other options override a
    setting in all of them."""
    recipe_settings: Annotated[Mapping[str, TrainConfig], Written(hidden=True)] = field(
        default_factory=dict
    )
    output: Output = None
    """The folder of the comparison (required); the same command resumes it."""
    config: TrainConfig = field(default_factory=lambda: find(DEFAULT_RECIPE).config)
    seeds: int = 3
    """Number of trainings of each candidate: with --seed, --seed + 1, and so on."""
    verdict_on: Literal["pairs", "sts"] = "pairs"
    """Score that the verdict is about: MRR of the test pairs, or the average of the STS sets."""
    baselines: Annotated[tuple[str, ...], Written("NAME=MODEL")] = ()
    """Models to score beside the candidates, without training: glove=glove:FILE, a model folder,
    the folder of a run, a Hub name."""
    jobs: int = 1
    """Number of runs at a time, each with its part of the cores or a GPU of its own."""
    engine: Engine = "local"
    """Where the runs take place: on this machine, or on a Ray cluster (RAY_ADDRESS) that shares the
    folder."""

    @classmethod
    def defaults(cls, words: Sequence[str]) -> Compare:
        """Return the defaults; with --recipe, the settings of every recipe after the options."""
        recipes = {name: find(name) for named in recipes_in(words) for name in named}
        settings = {}
        for name, recipe in () if set(HELP) & set(words) else recipes.items():
            settings[name] = parse(cls, "compare", words, cls(config=recipe.config)).config
        config = find(next(iter(recipes), DEFAULT_RECIPE)).config
        return cls(config=config, recipe_settings=settings)

    def run(self) -> None:
        """Make the missing runs, compare all, and print the tables and the verdict."""
        named, folder = self.candidates or self.recipe, self.output
        if not named:
            raise UserError("name one or more objectives, such as simcse vicreg, or give `recipe`")
        if self.candidates and self.recipe:
            raise UserError(f"{self.candidates[0]} and `recipe` {self.recipe[0]}: leave one out")
        if folder is None:
            raise UserError("`output` is missing: the folder of the comparison (it can be resumed)")
        with Console(self.json, many_runs=True) as console:
            console.reading(self.config.text.corpus)
            from isospace.comparison.compare import candidate, compare
            from isospace.comparison.runs import named_models

            results = compare(
                self.recipe_settings or {name: candidate(name, self.config) for name in named},
                self.seeds,
                folder,
                measure=self.verdict_on,
                jobs=self.jobs,
                baselines=named_models(self.baselines),
                progress=console,
                engine=self.engine,
            )
        if results is not None:  # the first process
            self._print(results, folder, console)

    def _print(self, results: ComparisonResults, folder: Path, console: Console) -> None:
        from isospace.evaluation.other_text import other_text_words
        from isospace.report.run_set import collect
        from isospace.report.tables import comparison_tables
        from isospace.report.write import write_report
        from isospace.training.run import REPORT

        if self.json:
            print_json(results)
        else:
            for table in comparison_tables(folder.name, results):
                print_table(table.caption, table.rows, table.note)
            print_result(results.verdict.text)
        if results.other_text_gains:
            console.line("other text", other_text_words(results.other_text_gains))
        if results.recommendation:
            console.line("use", results.recommendation)
        if results.verdict.model is not None:
            console.line("load it", f'SentenceTransformer("{results.verdict.model}")')
        # Last: the folder of a finished comparison may be read-only by now.
        runs = [folder / run for runs in results.runs.values() for run in runs]
        with console.bar("report", len(runs) + 1) as advance:
            for reported in (*runs, folder):
                write_report(collect([reported]), in_words=as_options)
                advance(1)
        console.line("report", str(folder / REPORT))


@dataclass(frozen=True)
class Evaluate(LoadsModels, CallsEndpoints):
    """Options of `isospace evaluate`."""

    models: Models = ("minilm",)
    """minilm, a model folder, the folder of a run, a Hub name, glove:FILE for word vectors, or
    an endpoint (http://HOST/v1#NAME). Several are rows of one table."""
    config: EvaluateConfig = field(default_factory=EvaluateConfig)
    compress: bool = False
    """Measure what small vectors lose instead (int8, bits): on the test pairs of a run, on the
    pairs of --corpus, or on the files of --own."""
    corpus: tuple[str, ...] = ()
    """With --compress: documents or pairs, as adapt takes them, whose held-out pairs are measured.
    Default: those of the run."""

    def run(self) -> None:
        """Load the models, score them, print the tables."""
        if self.compress:
            return self._compress()
        if self.corpus:
            raise UserError("`corpus` is for --compress. Add it, or score on files with --own")
        from isospace.evaluation.evaluate import evaluate_models, tables_of
        from isospace.training.run import run_of

        with Console(self.json) as console:
            evaluations = evaluate_models(self.models, self.config, console)
        if self.json:
            found = [evaluation.to_json() for evaluation in evaluations]
            print_json(found if len(found) > 1 else found[0])
        else:
            for title, rows, note in tables_of(evaluations):
                print_table(title, rows, note)
        for model, evaluation in zip(self.models, evaluations, strict=True):
            run, transfer = run_of(model), evaluation.scores.get("transfer")
            if transfer is not None and run is not None:
                # The run did not measure its model with another pooling or precision.
                own = self.config.pooling in (None, run.finished.training.pooling)
                if own and self.config.precision == "float32":
                    run.write_transfer(transfer.to_json())

    def _compress(self) -> None:
        from isospace.training.compressing import measure_compression

        for one in fields(self.config):
            if one.name not in COMPRESS_READS and getattr(self.config, one.name) != one.default:
                raise UserError(f"`{one.name}` has no effect with --compress. Leave it out")
        with Console(self.json) as console:
            found = []
            for model in self.models:
                found += measure_compression(model, self.config, self.corpus, console)
        if self.json:
            print_json([to_dict(results) for results in found])
        else:
            for results in found:
                print_table(*results.table())


@dataclass(frozen=True)
class Report(PrintsJson):
    """Options of `isospace report`."""

    runs: Annotated[tuple[PathOrText, ...], Written("FOLDER", positional=True)]
    """Folders of runs, or the folder of a comparison."""
    output: Output = None
    """The page to write; its tables become md and tex files in the same folder. Default:
    report.html in the folder of the run or of the comparison."""

    def run(self) -> None:
        """Write the page and the tables, and print the table of runs."""
        from isospace.report.run_set import collect
        from isospace.report.tables import all_tables, runs_table
        from isospace.report.write import write_report
        from isospace.system.tables import write_tables

        if not self.runs:
            raise UserError("give the folders of one or more runs")
        with Console(self.json) as console:
            run_set = collect(self.runs)
            page = write_report(run_set, self.output, as_options)
            written = [page, *write_tables(all_tables(run_set), page)]
            table = runs_table(run_set)
        if self.json:
            print_json({"protocol": table.note, "runs": table.rows})
        else:
            print_table("runs", table.rows, table.note)
        console.line("report", ", ".join(map(str, written)))
