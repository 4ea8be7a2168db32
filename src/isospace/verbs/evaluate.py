"""The verb `evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from isospace.encoders.pooling import PoolingName
from isospace.encoders.precision import Precision
from isospace.operators.fusion import WEIGHT
from isospace.verbs.console import Console
from isospace.verbs.options import LoadsModels
from isospace.verbs.printing import print_json, print_table


@dataclass(frozen=True)
class Evaluate(LoadsModels):
    """Options of `isospace evaluate`."""

    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL ...")] = (
        "minilm",
    )
    """minilm, a model folder, the folder of a run, a Hub name, or glove:FILE for word vectors.
    Several are rows of one table."""
    data: str | None = None
    """Folder with the STS sets in SentEval's layout, or hub; default: ISOSPACE_DATA, if set."""
    own: tuple[Path, ...] = ()
    """Files of your own to score on (csv, tsv, txt, jsonl, parquet). A row is a pair of texts that
    belong together; or an anchor, a positive and a negative; or two texts and a score; or a text
    and its label. A folder of corpus.jsonl, queries.jsonl and qrels (BEIR's or TREC's) is a test of
    retrieval."""
    bm25_weight: float = WEIGHT
    """How much BM25 counts beside the model where both are fused: the best match of words is worth
    so many standard deviations of the query's cosines."""
    kind: Literal["pairs", "triples", "scored", "labelled"] | None = None
    """What a row of the files of --own is, where the names of the columns do not say it."""
    pooling: PoolingName | None = None
    """How the vectors of tokens become one of the sentence; default: as the model does it."""
    query_prompt: str | None = None
    """Put before the first text of a pair or triple of --own, such as "query: ", or the name of one
    of the model's own prompts; "" for none. Default: the model's own query prompt, if it has
    one."""
    document_prompt: str | None = None
    """Put before its other texts, in the same way. Default: the model's own
    document, passage or corpus prompt."""
    transfer: Literal["senteval", "senteval-fast", "sklearn"] | None = None
    """Also train classifiers on the vectors and score them on MR, CR, SUBJ, MPQA, SST-2, TREC and
    MRPC, whose files lie in --data. senteval is the papers' classifier, senteval-fast the same with
    SentEval's settings for quick tests, sklearn a faster one on the papers' folds. The scores of a
    run, by its own pooling in float32, are kept in its folder for `isospace report`."""
    geometry: bool = False
    """Also measure alignment, uniformity and isotropy of the vectors, on STS-B dev or on the files
    of --own; takes about a quarter longer."""
    mteb: bool = False
    """Also score the STS sets of --data by mteb's own code; needs isospace[mteb]."""
    precision: Precision = "float32"
    """Arithmetic of the encoder: bf16 is faster where the processor has it, and moves a score by a
    few hundredths of a point."""
    subsets: bool = False
    """Also print every sub-set of the STS sets, and their scores by each way to average in use:
    all, mean and wmean."""
    json: bool = False
    """Print everything as JSON."""

    def run(self) -> int:
        """Load, score, print."""
        from isospace.evaluation.evaluate import evaluate_models, tables_of
        from isospace.evaluation.transfer import Transfer
        from isospace.training.run import run_of

        evaluations = evaluate_models(
            self.models,
            self.data,
            self.own,
            self.kind,
            self.pooling,
            self.transfer,
            self.geometry,
            self.mteb,
            self.precision,
            self.bm25_weight,
            Console(self.json),
            self.query_prompt,
            self.document_prompt,
        )
        if self.json:
            found = [evaluation.to_json() for evaluation in evaluations]
            print_json(found if len(found) > 1 else found[0])
        else:
            for title, rows, note in tables_of(evaluations, self.subsets):
                print_table(title, rows, note)
        for model, evaluation in zip(self.models, evaluations, strict=True):
            run, transfer = run_of(model), evaluation.of(Transfer)
            if transfer is not None and self.transfer is not None and run is not None:
                # Another pooling or precision is not what the run shipped.
                own = self.pooling is None or self.pooling == run.finished.pooling
                if own and self.precision == "float32":
                    run.write_transfer(self.transfer, transfer.to_json())
        return 0
