"""Encoders of isospace as models of mteb.

mteb is an optional extra, imported at first use. Nothing here needs a network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers.util import cos_sim, pairwise_cos_sim

from isospace.encoders.loading import load_encoder, weights_hash
from isospace.encoders.pooling import PoolingName
from isospace.encoders.prompts import SIDES, Side
from isospace.evaluation.pairs import Encode, PromptedEncoders, sided
from isospace.system.imports import import_extra, require_extra

_MTEB = "mteb_model", "mteb", "mteb"


class MTEBModel:
    """An encoder for `mteb.evaluate` (mteb's `EncoderProtocol`).

    mteb stores results under name and revision, and a local model has neither. Without them all
    local models would share one entry of mteb's cache, and one model would get another's scores.
    `name` is "organisation/name", and `revision` differs between models of the same name.

    Raises:
        UserError: mteb is not installed.
    """

    def __init__(self, encode: Encode, name: str, revision: str) -> None:
        self.encode_texts = sided(encode)
        self.mteb_model_meta = import_extra(*_MTEB).models.ModelMeta.create_empty(
            {"name": name, "revision": revision, "framework": ["Sentence Transformers", "PyTorch"]}
        )

    def encode(
        self, inputs: Iterable[Mapping[str, Any]], *, prompt_type: Side | None = None, **_: Any
    ) -> np.ndarray:
        """Return vectors of batches of texts, `(sentence, dim)`.

        Retrieval tasks pass the side, query or document, as `prompt_type`. Texts of other tasks
        get the encoder's default prompt, if it has one.
        """
        encode = self.encode_texts.for_side(prompt_type)
        return encode([text for batch in inputs for text in batch["text"]])

    similarity = staticmethod(cos_sim)
    similarity_pairwise = staticmethod(pairwise_cos_sim)


def mteb_model(model: str = "minilm", pooling: PoolingName | None = None) -> MTEBModel:
    """Load a model for `mteb.evaluate`, with a name, and a hash of its weights as revision.

    `mteb.evaluate(mteb_model("runs/mine"), mteb.get_tasks(["STS12"]))` stores the results under
    `isospace/mine` and the hash.

    Raises:
        UserError: mteb is not installed, or the model cannot be loaded.
    """
    require_extra(*_MTEB)
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
    # mteb's tables join revisions, so that two models with one name would become one row.
    name = "-".join(path.parts[-3:]) if is_cell else path.name
    return "isospace/" + (re.sub(r"[^\w.]+", "-", name) or "model")
