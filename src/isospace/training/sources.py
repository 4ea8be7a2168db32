"""What the views of a plan encode: each text of an example as it is, or as an edit draws it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from isospace.encoders.encoder import Batch, Encoder
from isospace.errors import UserError
from isospace.objectives.base import View
from isospace.objectives.edits import Edit


@dataclass(frozen=True)
class _Source:
    text: int
    edit: Edit | None
    stream: int
    """Edits of one stream draw alike."""


class Sources:
    """The distinct inputs of a plan's views.

    Args:
        plan: of the objective, views and then inputs.
        encoder: whose tokenizer the edits need.
        seed: of the draws.

    Attributes:
        of_view: (view,) which source each view encodes.

    Raises:
        UserError: the tokenizer has no mask token, and a view needs one.
    """

    def __init__(self, plan: Sequence[View], encoder: Encoder, seed: int) -> None:
        self.encoder, self.seed = encoder, seed
        self.vocabulary = encoder.vocabulary
        needed = any(view.read == "mask" or (view.edit and view.edit.needs_mask) for view in plan)
        if needed and self.vocabulary.mask is None:
            raise UserError(
                f"{encoder.source}: its tokenizer has no mask token, which this objective needs; "
                "take an encoder that was pre-trained by masking, such as BERT's relatives"
            )
        sources = [
            _Source(
                view.text,
                view.edit,
                0 if view.edit is None else crc32((view.edit.stream or f"{place}").encode()),
            )
            for place, view in enumerate(plan)
        ]
        self._distinct = list(dict.fromkeys(sources))
        self.of_view = [self._distinct.index(source) for source in sources]

    def batch(
        self, texts: Sequence[Sequence[NDArray[Any]]], rows: NDArray[np.int64], micro: int
    ) -> Batch:
        """The padded ids of every source.

        Args:
            texts: token ids of each text of the examples, (text, example).
            rows: (example,) numbers in the corpus; with `micro` and the seed they decide the draws,
                whichever process makes them.
            micro: number of the micro-batch in the run.
        """
        ids = [
            self._edited(source, sentence, int(row), micro)
            for source in self._distinct
            for sentence, row in zip(texts[source.text], rows, strict=True)
        ]
        return self.encoder.collate(ids, len(self._distinct)).to(self.encoder.device)

    def _edited(self, source: _Source, ids: NDArray[Any], row: int, micro: int) -> NDArray[Any]:
        if source.edit is None:
            return ids
        random = np.random.default_rng([self.seed, micro, row, source.stream])
        return source.edit(np.asarray(ids, dtype=np.int64), random, self.vocabulary)
