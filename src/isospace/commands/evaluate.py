"""The command `evaluate`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated

import tyro

from isospace.commands.console import Console
from isospace.commands.options import CallsEndpoints, LoadsModels
from isospace.commands.printing import print_json, print_table
from isospace.errors import UserError
from isospace.evaluation.evaluate_config import COMPRESS_READS, EvaluateConfig
from isospace.system.settings import to_dict


@dataclass(frozen=True)
class Evaluate(LoadsModels, CallsEndpoints):
    """Options of `isospace evaluate`."""

    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL ...")] = (
        "minilm",
    )
    """minilm, a model folder, the folder of a run, a Hub name, glove:FILE for word vectors, an
    endpoint (http://HOST/v1#NAME), or vectors:FILE. Several are rows of one table."""
    config: EvaluateConfig = field(default_factory=EvaluateConfig)
    subsets: bool = False
    """Also print every sub-set of the STS sets, and their scores by each way to average in use:
    all, mean and wmean."""
    compress: bool = False
    """Measure what small vectors lose instead (int8, bits, fewer dimensions): on the test pairs of
    a run, on the pairs of --corpus, or on the files of --own."""
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
            for title, rows, note in tables_of(evaluations, self.subsets):
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
