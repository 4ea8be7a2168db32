"""Score any model: STS sets, alignment and uniformity, transfer tasks, and the user's own pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isospace.display import Display
from isospace.encoder import Precision
from isospace.errors import UserError
from isospace.evaluation.classifiers import ProtocolName
from isospace.evaluation.geometry import STSBGeometry, stsb_geometry
from isospace.evaluation.pairs import load_pairs
from isospace.evaluation.retrieval import DEPTHS, RetrievalScores, evaluate_retrieval
from isospace.evaluation.sts import PAPER_COLUMNS, STSResult, evaluate_sts
from isospace.evaluation.transfer import TransferResult, evaluate_transfer, load_transfer
from isospace.exam import load_sts_data, sts_data
from isospace.loading import load_encoder
from isospace.pooling import PoolingName

Table = tuple[str, list[dict[str, str]]]


@dataclass(frozen=True)
class Evaluation:
    """Scores of one model.

    Attributes:
        model: name or path.
        pooling: tokens to sentence.
        precision: of the encoder's matrix products.
        sts: the seven sets, dev splits included, where there was data.
        geometry: alignment and uniformity on STS-B dev, where there was data.
        pairs: the user's pairs, where given.
        transfer: the seven transfer tasks, where asked for.
    """

    model: str
    pooling: str
    precision: Precision
    sts: STSResult | None
    geometry: STSBGeometry | None
    pairs: RetrievalScores | None
    transfer: TransferResult | None

    def to_json(self) -> dict[str, Any]:
        """Every number with its protocol."""
        return {
            "model": self.model,
            "pooling": self.pooling,
            "precision": self.precision,
            "sts": self.sts.to_json() if self.sts else None,
            "geometry": self.geometry.to_json() if self.geometry else None,
            "pairs": self.pairs.to_json() if self.pairs else None,
            "transfer": self.transfer.to_json() if self.transfer else None,
        }

    def tables(self, subsets: bool = False) -> list[Table]:
        """Titles and rows for people; `subsets` adds every sub-set and setting."""
        tables: list[Table] = []
        if self.sts is not None:
            row = {
                name: f"{value:.2f}"
                for name, value in self.sts.paper_row().items()
                if value is not None
            }
            protocol = f"Spearman x 100; STS12-16 'all', STS-B and SICK-R test; {self.precision}"
            tables.append((f"{self.model}, pooling {self.pooling} ({protocol})", [row]))
            if subsets:
                tables.append(("sub-sets and settings, x 100", _subset_rows(self.sts)))
        if self.geometry is not None:
            row = {
                "alignment": f"{self.geometry.alignment:.4f}",
                "uniformity": f"{self.geometry.uniformity:.4f}",
            }
            tables.append((self.geometry.protocol, [row]))
        if self.transfer is not None:
            row = {name: f"{v:.2f}" for name, v in self.transfer.row().items() if v is not None}
            tables.append((f"transfer ({self.transfer.to_json()['row_protocol']})", [row]))
        if self.pairs is not None:
            row = {"MRR": f"{100 * self.pairs.mrr:.2f}"}
            row |= {f"R@{k}": f"{100 * self.pairs.recall(k):.2f}" for k in DEPTHS}
            row["protocol"] = str(self.pairs.to_json()["protocol"])
            tables.append(("your pairs, x 100", [row]))
        return tables


def _subset_rows(sts: STSResult) -> list[dict[str, str]]:
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for score in sts.scores:
        name = score.split if score.aggregation == "subset" else score.aggregation
        row = rows.setdefault((score.task, name), {"task": score.task, "sub-set": name})
        row[score.metric] = f"{100 * score.value:.2f}"
        row["n"] = f"{score.n:,}"
    return list(rows.values())


def evaluate(
    model: str,
    data: str | None = None,
    pairs: Path | None = None,
    pooling: PoolingName | None = None,
    transfer: ProtocolName | None = None,
    precision: Precision = "float32",
    display: Display | None = None,
) -> Evaluation:
    """Score a model.

    Args:
        model: "minilm", a model folder, a run's folder, or a Hub name.
        data: folder with the STS sets in SentEval's layout, or "hub"; default: ISOSPACE_DATA.
        pairs: two-column file of texts that belong together.
        pooling: default: the model's own.
        transfer: also score the transfer tasks of the same folder, by this protocol.
        precision: of the matrix products, as in `Encoder.embed`.
        display: where progress is shown; default: nowhere.

    Raises:
        UserError: nothing to score on, or bad input.
    """
    display = display or Display(quiet=True)
    own = load_pairs(pairs) if pairs is not None else None
    where = sts_data(data)
    if transfer and where in (None, "hub"):
        raise UserError("--transfer: give the folder that holds the tasks (--data FOLDER)")
    tasks = load_sts_data(where) if where else {}
    transfer_tasks = load_transfer(Path(where)) if transfer and where else {}
    if own is None and not tasks:
        raise UserError(
            "nothing to score on: give the folder of the STS sets (--data FOLDER, or "
            f"ISOSPACE_DATA), --data hub for the copies of {', '.join(PAPER_COLUMNS)} on the Hub, "
            "or --pairs FILE"
        )
    folder = Path(model) / "model" if (Path(model) / "model" / "modules.json").is_file() else None
    encoder = load_encoder(str(folder or model), pooling)

    def encode(texts: Sequence[str]) -> np.ndarray:
        with display.counting("encode", len(texts)) as advance:
            return encoder.embed(texts, on_batch=advance, precision=precision)

    return Evaluation(
        model,
        encoder.pooling,
        precision,
        evaluate_sts(encode, tasks) if tasks else None,
        stsb_geometry(encode, tasks) if tasks else None,
        evaluate_retrieval(encode, own) if own is not None else None,
        evaluate_transfer(encode, transfer_tasks, transfer) if transfer else None,
    )
