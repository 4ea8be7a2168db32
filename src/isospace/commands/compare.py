"""The command `compare`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from isospace.commands.console import Console
from isospace.commands.options import MARKERS, WORDS, LoadsModels, as_options
from isospace.commands.printing import print_json, print_result, print_table
from isospace.commands.train import DEFAULT_RECIPE
from isospace.config import TrainConfig
from isospace.errors import UserError
from isospace.recipes import find
from isospace.system.cluster import Engine


@dataclass(frozen=True)
class Compare(LoadsModels):
    """Options of `isospace compare`."""

    candidates: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="OBJECTIVE ...")
    ] = ()
    """Objectives to compare, such as simcse whitenedcse. NAME:FIELD=VALUE,FIELD=VALUE sets options
    of one, also learning_rate, dropout or batch_size."""
    recipe: tuple[str, ...] = ()
    """Compare these rows of `isospace recipes` instead of objectives; other options override a
    setting in all of them."""
    recipe_settings: tyro.conf.Suppress[tyro.conf.Fixed[Mapping[str, TrainConfig]]] = field(
        default_factory=dict
    )
    config: TrainConfig = field(default_factory=lambda: find(DEFAULT_RECIPE).config)
    seeds: int = 3
    """Number of trainings of each candidate: with --seed, --seed + 1, and so on."""
    verdict_on: Literal["pairs", "sts"] = "pairs"
    """Score that the verdict is about: MRR of the test pairs, or the average of the STS sets."""
    baselines: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=MODEL ...")] = ()
    """Models to score beside the candidates, without training: glove=glove:FILE, a model folder,
    the folder of a run, a Hub name."""
    jobs: int = 1
    """Number of runs at a time, each with its part of the cores or a GPU of its own."""
    engine: Engine = "local"
    """Where the runs take place: on this machine, or on a Ray cluster (RAY_ADDRESS) that shares the
    folder."""

    @classmethod
    def defaults(cls, words: Sequence[str]) -> Compare:
        """Return the defaults; with --recipe they hold the settings of every recipe.

        The words are parsed once for each recipe, so that options override its settings.
        """
        scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        scan.add_argument("--recipe", nargs="*", default=[])
        recipes = {name: find(name) for name in scan.parse_known_args(words)[0].recipe}
        settings = {}
        for name, recipe in () if set(WORDS) & set(words) else recipes.items():
            default = cls(config=recipe.config)
            parsed = tyro.cli(
                cls, prog="isospace compare", args=words, default=default, config=MARKERS
            )
            settings[name] = parsed.config
        config = find(next(iter(recipes), DEFAULT_RECIPE)).config
        return cls(config=config, recipe_settings=settings)

    def run(self) -> None:
        """Make the missing runs, compare all, and print the tables and the verdict."""
        named = self._named()
        folder = self.config.output
        if folder is None:
            raise UserError("--output is missing: the folder of the comparison (it can be resumed)")
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
        if results is None:  # not the first process
            return
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

    def _named(self) -> Sequence[str]:
        named = self.candidates or self.recipe
        if not named:
            raise UserError(
                "give one or more objectives to compare, such as simcse whitenedcse; or published "
                "settings: `recipe` simcse-bert-base whitenedcse-bert-base"
            )
        if self.candidates and self.recipe:
            raise UserError(
                f"{self.candidates[0]} and `recipe` {self.recipe[0]}: a comparison is of "
                "objectives, or of recipes. Leave one of the two out"
            )
        return named
