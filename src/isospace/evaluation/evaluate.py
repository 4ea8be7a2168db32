"""Score any model: STS sets, geometry, retrieval, transfer tasks, and the user's own data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isospace.encoders.loading import load_encoder, weights_hash
from isospace.encoders.pooling import PoolingName
from isospace.encoders.precision import Precision
from isospace.errors import UserError
from isospace.evaluation.benchmark import load_sts_data, sts_data
from isospace.evaluation.classifiers import ProtocolName
from isospace.evaluation.geometry import STSBGeometry, possible_protocols, stsb_geometry
from isospace.evaluation.isotropy import IsotropyScores, evaluate_isotropy
from isospace.evaluation.mteb import MTEBModel, MTEBScores, mteb_name, mteb_scores, require_mteb
from isospace.evaluation.own import OwnData, OwnScores, evaluate_own, load_own
from isospace.evaluation.pairs import Encode, remembering
from isospace.evaluation.retrieval import RetrievalScores, same_meaning_retrieval
from isospace.evaluation.sts import PAPER_COLUMNS, STSResult, STSTask, evaluate_sts
from isospace.evaluation.transfer import TransferResult, evaluate_transfer, load_transfer
from isospace.evaluation.user_files import DataKind
from isospace.objectives.base import View
from isospace.system.progress import Logged, Progress

Table = tuple[str, list[dict[str, str]]]

TABLES_PROTOCOL = "stsb-dev >= 4"
"""The protocol of alignment and uniformity that is always printed, a key of `PROTOCOLS`."""

_SEED = 0  # of the dropout views


@dataclass(frozen=True)
class Evaluation:
    """Scores of one model.

    Attributes:
        model: name or path.
        pooling: tokens to sentence.
        precision: of the encoder's matrix products.
        sts: the seven sets, dev splits included, where there was data.
        geometry: alignment and uniformity on STS-B by one or every protocol, where there was data.
        isotropy: how the space is used, where asked for.
        retrieval: STS-B test's pairs of one meaning, where there was data.
        transfer: the seven transfer tasks, where asked for.
        mteb: the seven sets as mteb scores them, where asked for.
        own: the user's files.
    """

    model: str
    pooling: str
    precision: Precision
    sts: STSResult | None
    geometry: tuple[STSBGeometry, ...]
    isotropy: IsotropyScores | None
    retrieval: RetrievalScores | None
    transfer: TransferResult | None
    mteb: MTEBScores | None
    own: tuple[OwnScores, ...]

    def to_json(self) -> dict[str, Any]:
        """Every number with its protocol."""
        parts = ("sts", "isotropy", "retrieval", "transfer", "mteb")
        scores = {name: getattr(self, name) for name in parts}
        return {
            "model": self.model,
            "pooling": self.pooling,
            "precision": self.precision,
            **{name: score.to_json() if score else None for name, score in scores.items()},
            "geometry": [geometry.to_json() for geometry in self.geometry],
            "own": [scores.to_json() for scores in self.own],
        }

    def tables(self, subsets: bool = False) -> list[Table]:
        """Titles and rows for people; `subsets` adds every sub-set and setting."""
        tables: list[Table] = []
        if self.sts is not None:
            protocol = f"Spearman x 100; STS12-16 'all', STS-B and SICK-R test; {self.precision}"
            title = f"{self.model}, pooling {self.pooling} ({protocol})"
            tables.append((title, [_cells(self.sts.paper_row())]))
            if subsets:
                tables.append(("sub-sets and settings, x 100", _subset_rows(self.sts)))
        if self.sts is not None and self.mteb is not None:
            rows = [
                {"scored by": "isospace"} | _cells(self.sts.paper_row()),
                {"scored by": "mteb"} | _cells(self.mteb.row()),
            ]
            tables.append((f"x 100; {self.mteb.protocol}", rows))
        if self.geometry:
            title = (
                "STS-B, L2-normalised; alignment over the pairs, uniformity over the distinct "
                "sentences without dropout"
            )
            tables.append((title, [_geometry_row(geometry) for geometry in self.geometry]))
        if self.isotropy is not None:
            measures = [
                {"measure": name, "value": f"{value:.4g}"}
                for name, value in self.isotropy.measures.items()
            ]
            tables.append((f"isotropy ({self.isotropy.protocol})", measures))
        if self.retrieval is not None:
            title = f"retrieval, x 100 ({self.retrieval.protocol})"
            tables.append((title, [_percent(self.retrieval.row())]))
        if self.transfer is not None:
            protocol = self.transfer.to_json()["row_protocol"]
            tables.append((f"transfer ({protocol})", [_cells(self.transfer.row())]))
        for own in self.own:
            title = f"{own.file}, {own.kind}, x 100 ({own.protocol})"
            tables.append((title, [_percent(own.values)]))
        return tables


def _cells(row: Mapping[str, float | None]) -> dict[str, str]:
    return {name: f"{value:.2f}" for name, value in row.items() if value is not None}


def _percent(row: Mapping[str, float]) -> dict[str, str]:
    return _cells({name: 100 * value for name, value in row.items()})


def _geometry_row(geometry: STSBGeometry) -> dict[str, str]:
    return {
        "protocol": geometry.name,
        "alignment": f"{geometry.alignment:.4f}",
        "uniformity": f"{geometry.uniformity:.4f}",
        "pairs": f"{geometry.n_positives:,}",
        "sentences": f"{geometry.n_sentences:,}",
    }


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
    own: Sequence[Path] = (),
    kind: DataKind | None = None,
    pooling: PoolingName | None = None,
    transfer: ProtocolName | None = None,
    geometry: bool = False,
    mteb: bool = False,
    precision: Precision = "float32",
    progress: Progress | None = None,
) -> Evaluation:
    """Score a model.

    Args:
        model: "minilm", a model folder, a run's folder, or a Hub name.
        data: folder with the STS sets in SentEval's layout, or "hub"; default: ISOSPACE_DATA.
        own: files of pairs, triples, scored pairs or labelled sentences.
        kind: what the files hold; default: what their columns say.
        pooling: default: the model's own.
        transfer: also score the transfer tasks of the same folder, by this protocol.
        geometry: alignment and uniformity by every protocol instead of one, and isotropy, of STS-B
            dev or, without STS data, of the user's texts.
        mteb: also let mteb score the STS sets of the same folder.
        precision: of the matrix products, as in `Encoder.embed`.
        progress: where it is shown; default: the log.

    Raises:
        UserError: nothing to score on, or bad input.
    """
    progress = progress or Logged()
    own_data = [load_own(path, kind) for path in own]
    where = sts_data(data)
    for option, asked in (("`transfer`", transfer), ("`mteb`", mteb)):
        if asked and where in (None, "hub"):
            raise UserError(f"{option}: give the folder that holds the tasks (`data` FOLDER)")
    tasks = load_sts_data(where) if where else {}
    transfer_tasks = load_transfer(Path(where)) if transfer and where else {}
    if not own_data and not tasks:
        raise UserError(
            "nothing to score on: give the folder of the STS sets (`data` FOLDER, or "
            f"ISOSPACE_DATA), `data` hub for the copies of {', '.join(PAPER_COLUMNS)} on the Hub, "
            "or `own` FILE"
        )
    if mteb:
        require_mteb()
    encoder = load_encoder(model, pooling)

    def embed(texts: Sequence[str], view: View = View(dropout=0.0)) -> np.ndarray:  # noqa: B008
        with progress.bar("encode", len(texts)) as advance:
            return encoder.embed(texts, view, on_batch=advance, precision=precision)

    def noisy(texts: Sequence[str]) -> np.ndarray:
        return embed(texts, View())

    encode = remembering(embed)
    as_mteb = MTEBModel(encode, mteb_name(model), weights_hash(encoder)) if mteb else None
    names = possible_protocols(tasks, encoder.noise.rates) if tasks else []
    if not geometry:
        names = [name for name in names if name == TABLES_PROTOCOL]
    return Evaluation(
        model,
        encoder.pooling,
        precision,
        evaluate_sts(encode, tasks) if tasks else None,
        _geometries(encode, noisy, tasks, names),
        _isotropy(encode, tasks, own_data) if geometry else None,
        same_meaning_retrieval(encode, tasks["STSBenchmark"].subsets["test"]) if tasks else None,
        evaluate_transfer(embed, transfer_tasks, transfer) if transfer else None,
        mteb_scores(as_mteb, tasks) if as_mteb is not None else None,
        tuple(evaluate_own(encode, content) for content in own_data),
    )


def _geometries(
    encode: Encode, noisy: Encode, tasks: dict[str, STSTask], names: Sequence[str]
) -> tuple[STSBGeometry, ...]:
    with torch.random.fork_rng():
        torch.manual_seed(_SEED)
        return tuple(stsb_geometry(encode, tasks, name, noisy) for name in names)


def _isotropy(encode: Encode, tasks: dict[str, STSTask], own: Sequence[OwnData]) -> IsotropyScores:
    if tasks:
        dev = tasks["STSBenchmark"].subsets["dev"]
        name, texts = "STS-B dev", [*dev.first, *dev.second]
    else:
        name = ", ".join(data.file for data in own)
        texts = [text for data in own for text in data.texts()]
    try:
        return evaluate_isotropy(encode, texts, name)
    except ValueError as error:  # too few sentences
        raise UserError(f"`geometry` on {name}: {error}") from error
