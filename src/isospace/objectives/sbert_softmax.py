"""SBERT's softmax loss: the relation of two labelled sentences from their vectors."""

from __future__ import annotations

from typing import ClassVar

import torch

from isospace.objectives import heads
from isospace.objectives.base import Objective, Paper
from isospace.system.settings import settings
from isospace.views import View, Views


@settings
class SBERTSoftmax(Objective):
    r"""A linear classifier tells the relation of two sentences from their vectors.

    $$\ell = -\frac1N \sum_i \log \mathrm{softmax}(W [u_i; v_i; |u_i - v_i|] + b)_{y_i}$$

    $u, v$: the vectors of the two texts of an example, by one encoder; $y$: its label (`columns`
    and `label_column` name them), such as entailment, neutral or contradiction. $W$ has a row for
    each label of the corpus and is left behind after training. Relations: the only row that learns
    from labels; `simcse` with `views` pairs takes the texts that belong together and has the
    others of the batch as negatives. Here no example meets another.
    Where paper and released code differ: the paper prints no bias, the code has one, the default,
    since the published numbers are its (`bias=False` is the formula as printed). The paper trains
    on SNLI and MultiNLI for one epoch: mean pooling, batches of 16, Adam at 2e-5 with a linear
    warm-up over 10 % of the steps (section 3.1); there is no warm-up here.
    """

    with_product: bool = False
    """Give the classifier u v, multiplied dimension by dimension, too (an ablation, Table 6)."""
    bias: bool = True
    """Add b to the logits, as the released code does; the paper prints none."""

    paper: ClassVar[Paper] = Paper("reimers-gurevych-2019-sentence")
    reads_labels: ClassVar[bool] = True

    @property
    def views(self) -> tuple[View, ...]:
        return (View(text=0), View(text=1))

    def build_head(self, dim: int, seed: int, classes: int = 2) -> torch.nn.Module:
        """Build the classifier for this number of labels; its one view is the pairs' logits."""
        return heads.PairClassifier(
            dim, classes, heads.seeded(seed), product=self.with_product, bias=self.bias
        )

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        assert views.labels is not None
        [logits] = views.projected
        return {"relation": torch.nn.functional.cross_entropy(logits, views.labels)}
