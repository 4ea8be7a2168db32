"""The verb `evaluate`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from isospace.encoders.pooling import PoolingName
from isospace.encoders.precision import Precision
from isospace.evaluation.classifiers import ProtocolName
from isospace.evaluation.evaluate import evaluate
from isospace.evaluation.user_files import Kind
from isospace.training.run import run_of
from isospace.verbs.console import Console
from isospace.verbs.printing import print_result, print_table


@dataclass(frozen=True)
class Evaluate:
    """Score a model on the seven STS sets, and on data of your own."""

    model: Annotated[str, tyro.conf.Positional] = "minilm"
    """minilm, a model folder, the folder of a run, or a Hub name."""
    data: str | None = None
    """Folder with the STS sets in SentEval's layout, or hub; default: ISOSPACE_DATA, if set."""
    own: tuple[Path, ...] = ()
    """Files of your own (csv, tsv, txt, jsonl, parquet): pairs of texts that belong together;
    triples of anchor, positive, negative; pairs with a score; or sentences with a label."""
    kind: Kind | None = None
    """What the files of --own hold, where their columns do not say it."""
    pooling: PoolingName | None = None
    """Tokens to sentence; by default the model's own pooling."""
    transfer: ProtocolName | None = None
    """Also score MR, CR, SUBJ, MPQA, SST-2, TREC and MRPC (in --data): senteval is the papers'
    classifier, senteval-fast its settings for prototypes, sklearn a faster one on the papers'
    folds. A run's folder keeps the scores of its own pooling in float32 for `isospace report`."""
    geometry: bool = False
    """Alignment and uniformity by every definition in use, and isotropy (of STS-B dev, or of your
    own texts); takes about a quarter longer."""
    mteb: bool = False
    """Let mteb's own code score the STS sets of --data too (needs isospace[mteb])."""
    precision: Precision = "float32"
    """bf16 is faster where the processor has it; a score moves by a few hundredths of a point."""
    subsets: bool = False
    """Print every sub-set and the settings all, mean and wmean too."""
    json: bool = False
    """Print everything as JSON."""

    def run(self) -> int:
        """Load, score, print."""
        report = evaluate(
            self.model,
            self.data,
            self.own,
            self.kind,
            self.pooling,
            self.transfer,
            self.geometry,
            self.mteb,
            self.precision,
            Console(self.json),
        )
        if self.json:
            print_result(json.dumps(report.to_json(), indent=2))
        else:
            for title, rows in report.tables(self.subsets):
                print_table(title, rows)
        run = run_of(self.model)
        if report.transfer is not None and self.transfer is not None and run is not None:
            # Another pooling or precision is not what the run shipped.
            own = self.pooling is None or self.pooling == run.finished.pooling
            if own and self.precision == "float32":
                run.write_transfer(self.transfer, report.transfer.to_json())
        return 0
