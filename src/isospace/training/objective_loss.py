"""isospace's objectives as losses for sentence-transformers' trainer."""

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
from isospace.training.build import PassPlan, has_equal_views
from isospace.training.step import gather, loss_terms
from isospace.views import View, Views


class ObjectiveLoss(nn.Module):
    """An isospace objective as a loss for sentence-transformers' trainer.

    `SentenceTransformerTrainer(model, args, train_dataset, loss=ObjectiveLoss(model, SimCSE()))`

    Each view is a pass of its own text column at its own dropout rate. A final L2 normalisation is
    left out. The trainer minimises the sum of the terms and logs each. An objective of single texts
    takes two columns as pairs, in both directions, as `isospace train` does with `views` pairs.

    Differences to `isospace train`:

    - The head is trained but not saved: a resumed training starts with a new head.
    - The trainer does not synchronise the head across processes. Every process gathers all views
      and computes the same loss, so heads that start equal (`seed`) stay equal.
    - The loss of a batch of one sentence, such as the last one of an epoch, is zero.

    Args:
        model: the model that the trainer gets.
        objective: one of `isospace.objectives`; a class means its defaults, the paper's values.
        seed: seed of the head's weights.

    Raises:
        UserError: the objective edits or reads tokens, has auxiliary networks, or learns from
            labels or a teacher.
        ValueError: the head does not fit the model's number of dimensions.
    """

    def __init__(
        self, model: SentenceTransformer, objective: Objective | type[Objective], seed: int = 42
    ) -> None:
        super().__init__()
        if isinstance(objective, type):
            objective = objective()
        plain = all(
            replace(view, dropout=None, text=0, of_anchor=False) == View()
            for view in objective.views
        )
        if not plain or objective.inputs or objective.reads_teacher or objective.reads_labels:
            raise UserError(
                f"{objective_name(objective)} with these settings edits or reads tokens, has "
                "auxiliary networks, or learns from labels or a teacher. The trainer of "
                "sentence-transformers has none of these: use `isospace train`"
            )
        self.model = model  # by this name the trainer finds it, and wraps it
        self.objective = objective
        self.head = objective.build_head(int(model.get_embedding_dimension() or 0), seed)
        self._noise = Noise(model)
        parts = list(model)
        while isinstance(parts[-1], Normalize):
            parts.pop()
        self._last = (parts[-1],)  # in a tuple: it is the model's module, not another one here

    def forward(
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> dict[str, Tensor] | Tensor:
        """Return the terms of the loss for a batch, or 0 for a single sentence."""
        if any(getattr(part, "gradient_checkpointing", False) for part in self.model.modules()):
            raise UserError(
                "the model runs its layers again in the backward pass, with the dropout rates of "
                "another view. Leave gradient_checkpointing out of the trainer's arguments"
            )
        columns = list(sentence_features)
        plan = self._plan(len(columns))
        encoded = gather(torch.stack(self._encode(columns, plan.views)))
        if encoded.shape[1] < 2:
            return 0 * encoded.sum()
        ways = []
        for way in plan.ways:
            own = encoded[list(way)]
            ways.append(Views(encoded=own, projected=self.head(own), paired=len(plan.ways) > 1))
        return loss_terms(self.objective, ways)

    def _plan(self, columns: int) -> PassPlan:
        objective = self.objective
        pairs = columns == 2 and objective.takes_pairs
        if not pairs and columns != objective.texts:
            raise UserError(
                f"{objective_name(objective)} with these settings reads {objective.texts} text(s) "
                f"of an example{' or pairs' if objective.takes_pairs else ''}, and the data set "
                f"has {columns} text column(s). Keep only those columns (dataset.select_columns)"
            )
        plan = PassPlan.of_objective(objective, pairs)
        texts = [view.text for view in plan.views]
        if has_equal_views(plan.views, texts, self._noise.rates):
            raise UserError(
                "two views are identical, because this model has a dropout of 0. There is "
                "nothing to learn. Set a rate with isospace.encoders.noise: Noise(model).set(0.1)"
            )
        return plan

    def _encode(self, columns: Sequence[dict[str, Any]], plan: Sequence[View]) -> list[Tensor]:
        def keep(_module: nn.Module, _args: Any, features: dict[str, Any]) -> dict[str, Any]:
            return {**features, "view": features["sentence_embedding"]}

        views = []
        with self._last[0].register_forward_hook(keep):
            for view in plan:
                with self._noise.at(view.dropout):
                    # The modules write into the dictionary that they get.
                    views.append(self.model(dict(columns[view.text]))["view"])
        return views

    def get_config_dict(self) -> dict[str, Any]:
        """Return the objective's settings for sentence-transformers' model card."""
        return {"objective": objective_name(self.objective), **self.objective.to_json()}

    @property
    def citation(self) -> str:
        """BibTeX of the paper for the model card."""
        return self.objective.paper.bibtex
