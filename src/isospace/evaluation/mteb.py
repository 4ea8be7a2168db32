"""mteb's own tasks on our encoders.

mteb is an optional extra and is imported when it is used; nothing here needs a network.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers.util import cos_sim, pairwise_cos_sim
from torch import Tensor

from isospace.encoders.loading import load_encoder, weights_hash
from isospace.encoders.pooling import PoolingName
from isospace.encoders.prompts import SIDES, Side
from isospace.errors import UserError
from isospace.evaluation.pairs import Encode, PromptedEncoders, ScoredPairs, sided
from isospace.evaluation.senteval import YEARS, STSSet
from isospace.evaluation.sts import PAPER_COLUMNS, evaluate_sts
from isospace.evaluation.task import (
    Conditions,
    Request,
    Subject,
    Task,
    TitledRows,
    cells,
    with_average,
)

MTEB_NAMES = {name: name for name in YEARS} | {
    "STSBenchmark": "STSBenchmark",
    "SICKRelatedness": "SICK-R",
}
"""Task -> mteb's name of it."""

SICK_DIFFERENCE = (
    "SICK-R of isospace is the 4,927 test pairs, as in the papers, of mteb all 9,927 pairs "
    "(train, trial and test): two numbers, and so are the averages"
)


class MTEBModel:
    """An encoder as mteb wants one (its `EncoderProtocol`), for `mteb.evaluate`.

    mteb files results under name and revision. A local model has neither by itself: all local
    models would share one entry of mteb's cache, and the second would get the first one's scores.

    Args:
        encode: sentences -> `(sentence, dim)`, or a `PromptedEncoders`.
        name: what mteb calls the model, "organisation/name".
        revision: what tells it from others of that name.

    Raises:
        UserError: mteb is not installed.
    """

    def __init__(self, encode: Encode, name: str, revision: str) -> None:
        self.encode_texts = sided(encode)
        self.mteb_model_meta = require_mteb().models.ModelMeta.create_empty(
            {"name": name, "revision": revision, "framework": ["Sentence Transformers", "PyTorch"]}
        )

    def encode(
        self, inputs: Iterable[Mapping[str, Any]], *, prompt_type: Side | None = None, **_: Any
    ) -> np.ndarray:
        """Return vectors of batches of texts, `(sentence, dim)`.

        Tasks of retrieval say what are queries and what documents. The texts of all others get the
        encoder's default prompt, if it has one.
        """
        encode = self.encode_texts.for_side(prompt_type)
        return encode([text for batch in inputs for text in batch["text"]])

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Return the cosine of every row with every row."""
        return cos_sim(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Return the cosine of rows at the same place."""
        return pairwise_cos_sim(embeddings1, embeddings2)


def mteb_model(model: str = "minilm", pooling: PoolingName | None = None) -> MTEBModel:
    """Load a model for `mteb.evaluate`, with a name and a hash of its weights as revision.

    `mteb.evaluate(mteb_model("runs/mine"), mteb.get_tasks(["STS12"]))` files its results under
    `isospace/mine` and the hash.

    Raises:
        UserError: mteb is not installed, or the model cannot be loaded.
    """
    require_mteb()
    encoder = load_encoder(model, pooling)
    encode = PromptedEncoders.of_prompts(encoder.prompts, encoder.embed)
    return MTEBModel(encode, mteb_name(model), weights_hash(encoder, *SIDES))


def mteb_name(model: str) -> str:
    """Return the name of a model for mteb.

    >>> mteb_name("minilm"), mteb_name("runs/first run/model"), mteb_name("google/bert")
    ('isospace/minilm', 'isospace/first-run', 'isospace/bert')
    >>> mteb_name("runs/which/iso/seed-42")  # a cell of a comparison
    'isospace/which-iso-seed-42'
    """
    path = Path(model).resolve() if Path(model).is_dir() else Path(model)
    path = path.parent if path.name == "model" else path
    is_cell = re.fullmatch(r"seed-\d+", path.name) is not None
    # mteb's tables join revisions: two models of one name become one row.
    name = "-".join(path.parts[-3:]) if is_cell else path.name
    return "isospace/" + (re.sub(r"[^\w.]+", "-", name) or "model")


@dataclass(frozen=True)
class MTEBScores:
    """mteb's scores of the local files.

    Attributes:
        version: of mteb.
        name: of the model there.
        revision: of the model there.
        pairs: column of the papers' tables -> number of pairs.
        spearman: column -> mteb's main score, Spearman of the cosine.
        paper_row: isospace's own scores, among those of the STS sets too.
    """

    version: str
    name: str
    revision: str
    pairs: dict[str, int]
    spearman: dict[str, float]
    paper_row: dict[str, float | None]

    @property
    def protocol(self) -> str:
        """The protocol in words."""
        return (
            "Spearman of the cosine, by isospace and by the tasks of "
            f"mteb {self.version}, on the same files; {SICK_DIFFERENCE}"
        )

    def row(self) -> dict[str, float]:
        """Return the papers' columns, x 100, and with all seven their average."""
        known = {column: round(100 * value, 2) for column, value in self.spearman.items()}
        row = with_average(known, PAPER_COLUMNS.values())
        return {column: value for column, value in row.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """Return mteb's scores with their protocol."""
        return {
            "protocol": self.protocol,
            "model_name": self.name,
            "model_revision": self.revision,
            "pairs": self.pairs,
            "row": self.row(),
            "cosine_spearman": self.spearman,
        }

    def tables(self, conditions: Conditions, subsets: bool) -> list[TitledRows]:
        """Return isospace's row above mteb's."""
        rows = [
            {"scored by": "isospace"} | cells(self.paper_row),
            {"scored by": "mteb"} | cells(self.row()),
        ]
        return [TitledRows(f"x 100; {self.protocol}", rows)]


def mteb_scores(model: MTEBModel, sets: Mapping[str, STSSet]) -> MTEBScores:
    """Let mteb's own task classes score a model on local data, without network and cache.

    Args:
        model: from `mteb_model`.
        sets: as `sts.load_sts` reads them from SentEval's files. mteb's pairs are those of all
            sub-sets of a year, the test split of STS-B and all three splits of SICK-R.

    Raises:
        UserError: mteb is not installed.
    """
    mteb, datasets = require_mteb(), importlib.import_module("datasets")
    pairs, spearman = {}, {}
    for name, sts_set in sets.items():
        mtebs_pairs = sts_set.test_only() if name == "STSBenchmark" else sts_set
        split = datasets.Dataset.from_dict(_rows(mtebs_pairs.subsets.values()))
        task = mteb.get_task(MTEB_NAMES[name])
        task.dataset = {"default": datasets.DatasetDict({"test": split})}
        task.data_loaded = True
        scores = task.evaluate(model, "test", encode_kwargs={"batch_size": 1024})["default"]
        pairs[PAPER_COLUMNS[name]] = len(split)
        spearman[PAPER_COLUMNS[name]] = float(scores["main_score"])
    meta = model.mteb_model_meta
    paper_row = evaluate_sts(model.encode_texts, sets).paper_row()
    return MTEBScores(mteb.__version__, meta.name, meta.revision, pairs, spearman, paper_row)


class MTEB(Task[MTEBScores]):
    """mteb's own code on the STS sets, where it is asked for."""

    name = "mteb"

    def __init__(self, sets: Mapping[str, STSSet]) -> None:
        self.sets = sets

    @classmethod
    def load(cls, request: Request) -> MTEB | None:
        """Take the STS sets of the folder: the copies on the Hub lack pairs that mteb scores."""
        if not request.config.mteb:
            return None
        require_mteb()
        return cls(request.sts)

    def score(self, subject: Subject) -> MTEBScores:
        """Score by mteb's code and by our own."""
        name, revision = mteb_name(subject.conditions.model), weights_hash(subject.encoder, *SIDES)
        return mteb_scores(MTEBModel(subject.encode, name, revision), self.sets)


def _rows(subsets: Iterable[ScoredPairs]) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "score": []}
    for pairs in subsets:
        rows["sentence1"] += pairs.first
        rows["sentence2"] += pairs.second
        rows["score"] += pairs.gold.tolist()
    return rows


def require_mteb() -> Any:
    """Return the module mteb.

    Raises:
        UserError: it is not installed.
    """
    try:
        return importlib.import_module("mteb")
    except ImportError as error:
        raise UserError("mteb is not installed: pip install 'isospace[mteb]'") from error
