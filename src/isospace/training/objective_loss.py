"""Our objectives in sentence-transformers' own trainer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize
from torch import Tensor, nn

from isospace.config import objective_name
from isospace.encoders.noise import Noise
from isospace.errors import UserError
from isospace.objectives.base import Objective
from isospace.training.step import gather
from isospace.views import View, Views


class ObjectiveLoss(nn.Module):
    """An isospace objective as a loss of sentence-transformers' own trainer.

    Those that edit tokens, read them, have networks beside the encoder, or learn from labels or a
    teacher are refused.

    `SentenceTransformerTrainer(model, args, train_dataset, loss=ObjectiveLoss(model, SimCSE()))`.
    The views are made by dropout rate, as `Encoder.forward` makes them: each is a pass of its own,
    at its own rate, of its own text column, and a closing L2 normalisation is left out. The trainer
    trains on the sum of the terms and logs each by its name.

    What the stock trainer does not do, and `isospace train` does:

    - The head's parameters are trained but not saved: a checkpoint holds the model alone, and
      resuming starts a new head.
    - The head's parameters are not synchronised across processes. Here every process gathers all
      views and computes the same loss, so that heads which start equal (`seed`) stay equal.
    - Nothing is measured without labels.
    - A batch of one sentence, the last one of an epoch for instance, has nothing to tell it from:
      its terms and their gradient are zero. `isospace train` has whole batches only.

    Args:
        model: as the trainer gets it.
        objective: one of `isospace.objectives`; of a class, the one with the paper's values.
        seed: of the head's weights.

    Raises:
        UserError: no objective; or the model's own dropout is 0 where the objective needs it for
            two views.
        ValueError: the head does not fit the model's width.
    """

    def __init__(
        self, model: SentenceTransformer, objective: Objective | type[Objective], seed: int = 42
    ) -> None:
        super().__init__()
        if isinstance(objective, type):
            objective = objective()
        if not isinstance(objective, Objective):
            raise UserError(
                f"`objective` {objective!r}: not an objective. Give one, such as SimCSE()"
            )
        plain = all(
            replace(view, dropout=None, text=0, of_anchor=False) == View()
            for view in objective.views
        )
        if not plain or objective.inputs:
            raise UserError(
                f"{objective_name(objective)} edits or reads tokens, or has auxiliary networks. "
                "The trainer of sentence-transformers cannot make them: use `isospace train`"
            )
        if objective.reads_teacher:
            raise UserError(
                f"{objective_name(objective)} learns from a teacher's ranking, which the trainer "
                "of sentence-transformers cannot give. Use `isospace train`, or set "
                "`distillation_weight` 0"
            )
        if objective.reads_labels:
            raise UserError(
                f"{objective_name(objective)} learns from labels, whose classes `isospace train` "
                "finds in the corpus. Use that command"
            )
        self.model = model  # by this name the trainer finds it, and wraps it
        self.objective = objective
        self.head = objective.build_head(int(model.get_embedding_dimension() or 0), seed)
        self._noise = Noise(model)
        own = [view.text for view in objective.views if view.dropout is None]
        if len(own) > len(set(own)) and not any(self._noise.rates):
            raise UserError(
                "two views are identical, because this model has a dropout of 0. There is "
                "nothing to learn. Set a rate with isospace.encoders.noise: Noise(model).set(0.1)"
            )
        parts = list(model)
        while isinstance(parts[-1], Normalize):
            parts.pop()
        self._last = (parts[-1],)  # in a tuple: it is the model's module, not another one here

    def forward(
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """The objective's terms for a batch.

        Args:
            sentence_features: of each text column, as the trainer's collator makes them.
            labels: not used.

        Raises:
            UserError: the data set has more or fewer text columns than the objective sees texts.
        """
        columns = list(sentence_features)
        if len(columns) != self.objective.texts:
            raise UserError(
                f"{objective_name(self.objective)} with these settings reads "
                f"{self.objective.texts} text(s) of an example, and the data set has "
                f"{len(columns)} text column(s). Keep only those columns "
                "(dataset.select_columns), or train on pairs or triples "
                "(SimCSE(supervision='pairs') or 'triples')"
            )
        encoded = gather(torch.stack(self._encode(columns)))
        if encoded.shape[1] < 2:
            return dict.fromkeys(self.objective.term_names, 0 * encoded.sum())
        return self.objective(Views(encoded=encoded, projected=self.head(encoded)))

    def _encode(self, columns: Sequence[dict[str, Any]]) -> list[Tensor]:
        """(batch, dim) of each view."""

        def keep(_module: nn.Module, _args: Any, features: dict[str, Any]) -> dict[str, Any]:
            return {**features, "view": features["sentence_embedding"]}

        views = []
        with self._last[0].register_forward_hook(keep):
            for view in self.objective.views:
                with self._noise.at(view.dropout):
                    # The modules write into the dictionary that they get.
                    views.append(self.model(dict(columns[view.text]))["view"])
        return views

    def get_config_dict(self) -> dict[str, Any]:
        """The objective, for sentence-transformers' model card."""
        return {"objective": objective_name(self.objective), **self.objective.to_json()}

    @property
    def citation(self) -> str:
        """BibTeX of the paper, for the model card."""
        return self.objective.paper.bibtex
