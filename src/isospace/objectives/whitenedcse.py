"""WhitenedCSE: shuffled group whitening before the head, and several positives per sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from isospace.objectives.base import Objective, Paper, View, Views, require, require_not_negative
from isospace.objectives.heads import GroupWhitening, HeadChoice, TanhMLP, mlp_or_none, seeded
from isospace.operators.similarity import cosine_matrix


@dataclass(frozen=True)
class WhitenedCSE(Objective):
    r"""Multi-positive InfoNCE on group-whitened views.

    $$z_v = \tanh(W\,\mathrm{SGW}_{\pi_v}(h_v) + b), \qquad
      q_{ip} = \frac{e^{s_{ip}}}{D_{ip}}, \quad s_{ip} = \cos(z_{0i}, z_{pi})/\tau, \quad
      D_{ip} = \sum_j e^{\cos(z_{0i}, z_{pj})/\tau}$$
    $$L_1 = -\lambda \sum_p \log q_{ip} \;(\text{Eq. 7}), \qquad
      L_2 = \log \sum_p \lambda / q_{ip} \;(\text{Eq. 8, interpreted})$$

    $\mathrm{SGW}_\pi$: deal the columns to groups by the permutation $\pi$, ZCA-whiten each group
    by batch statistics, undo $\pi$. View 0 is the anchor, $p = 1 .. m-1$ its positives; the loss is
    the mean over i. Relations: m = 2 without whitening is `simcse`.

    Where paper and released code differ:
    - Eq. 8 as printed, $-\log \sum_p \lambda e^{-s_p} / D_p$ ("l2-printed"), pushes positives away.
      "l2-plus" flips the sign, which is the hard mining that the text rejects. "l2" gives the least
      similar positive the largest gradient, as the text intends, and is InfoNCE for one positive.
      The code has $L_1$ with lambda = 1, the default.
    - Paper: one permutation and one set of statistics per view. Code: the rows run sentence by
      sentence and are cut in m equal parts, so a part holds all views of 1/m of the sentences.
      `variant="paper"` is the default because only it makes positives differ by their shuffle.
    - Paper: positives are shuffles of one feature; code: separate dropout passes, the default.
    - Paper: 384 groups; code: 128. The code stops the gradient at the whitening matrix, so does
      this class. The code has no eps and gives NaN on singular groups.
    """

    num_views: int = 3
    """m, encodings of a sentence, the anchor included: the "positives" of its ablation, 2 to 5."""
    positives: Literal["dropout", "permutation"] = "dropout"
    """Where positives come from: m dropout passes (code), or m shuffles of one pass (paper)."""
    whitening: Literal["none", "pca", "zca", "group", "shuffled-group"] = "shuffled-group"
    """What stands before the head; pca and zca whiten all dimensions as one group."""
    groups: int | None = None
    """k, number of groups; None takes groups of 2: the paper's 384 at BERT-base's 768."""
    variant: Literal["paper", "released"] = "paper"
    """What one permutation and one set of statistics span: a view, or 1/m of the sentences."""
    loss: Literal["l1", "l2", "l2-printed", "l2-plus"] = "l1"
    """Eq. 7 (l1); Eq. 8 interpreted (l2), as printed, or with its sign flipped."""
    positive_weight: float = 1.0
    """lambda of Eq. 7 and 8; the paper gives no value, the code has 1."""
    temperature: float = 0.05
    """tau, divides the cosines."""
    eps: float = 1e-5
    """Added to every variance; the released code has none. By a constant matrix, directions in
    which a batch does not vary (all dimensions as one group) get gradients times eps^(-1/2), and
    none with 0."""
    stop_gradient: bool = True
    """Treat the whitening matrix as a constant (released code)."""
    momentum: float = 0.99
    """beta of the running statistics (Eq. 13; no value given). The head keeps them in its state
    for whitening at inference, as the paper has it; nothing that is trained or shipped depends on
    them."""
    head: HeadChoice = "mlp"
    """Dense + tanh after the whitening, or whitening alone."""

    paper: ClassVar[Paper] = Paper(
        title="WhitenedCSE: Whitening-based Contrastive Learning of Sentence Embeddings",
        year=2023,
        url="https://aclanthology.org/2023.acl-long.677",
        bibtex="""@inproceedings{zhuo-etal-2023-whitenedcse,
    title = {{WhitenedCSE}: Whitening-based Contrastive Learning of Sentence Embeddings},
    author = {Zhuo, Wenjie and Sun, Yifan and Wang, Xiaohan and Zhu, Linchao and Yang, Yi},
    booktitle = {Proceedings of ACL 2023},
    pages = {12135--12148},
    year = {2023},
    url = {https://aclanthology.org/2023.acl-long.677},
}""",
    )
    term_names: ClassVar[tuple[str, ...]] = ("multi_positive",)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.num_views >= 2, f"num_views must be at least 2; got {self.num_views}")
        require(self.temperature > 0, f"temperature must be above 0; got {self.temperature}")
        require(self.positive_weight > 0, "positive_weight must be above 0")
        require_not_negative(self, "eps")
        require(0 <= self.momentum <= 1, f"momentum must lie in [0, 1]; got {self.momentum}")
        require(
            self.positives == "dropout" or self.whitening == "shuffled-group",
            "positives by permutation need whitening shuffled-group: nothing else tells them apart",
        )
        require(
            self.positives == "dropout" or self.variant == "paper",
            "positives by permutation need variant paper: in the released one all views of a "
            "sentence share a permutation, and would be identical",
        )

    @property
    def views(self) -> tuple[View, ...]:
        """A dropout pass per view, or one for all."""
        return (View(),) * (self.num_views if self.positives == "dropout" else 1)

    def projected_views(self, batch: int) -> int:
        """m, however many passes there are."""
        return self.num_views

    @property
    def head_summary(self) -> str:
        """The head in a few words."""
        parts = {"none": [], "pca": ["PCA"], "zca": ["ZCA"], "group": ["group whitening"]}
        names = parts.get(self.whitening, ["SGW"]) + ["tanh MLP"] * (self.head == "mlp")
        return " + ".join(names) or "none"

    def build_head(self, dim: int, seed: int) -> nn.Module:
        """Whitening, then dense + tanh.

        Raises:
            ValueError: `groups` does not divide `dim`, or makes all permutations the same where
                positives are permutations.
        """
        groups = self.group_count(dim)
        require(
            self.positives == "dropout" or groups not in (1, dim),
            f"positives by permutation need groups between 1 and {dim}, the width of the vectors; "
            f"got {groups}, where every permutation gives the same",
        )
        generator = seeded(seed)
        if self.whitening == "none":
            return mlp_or_none(self.head, dim, generator)
        whitening = GroupWhitening(
            dim,
            groups,
            generator,
            shuffle=self.whitening == "shuffled-group",
            copies=self.num_views // len(self.views),
            layout="view" if self.variant == "paper" else "sentence",
            method="pca" if self.whitening == "pca" else "zca",
            eps=self.eps,
            stop_gradient=self.stop_gradient,
            momentum=self.momentum,
        )
        return (
            nn.Sequential(whitening, TanhMLP(dim, generator)) if self.head == "mlp" else whitening
        )

    def group_count(self, dim: int) -> int:
        """Number of groups at this width: 1 for full whitening, dim / 2 where none is named."""
        if self.whitening in ("pca", "zca"):
            return 1
        return max(dim // 2, 1) if self.groups is None else self.groups

    def terms(self, views: Views) -> dict[str, Tensor]:
        """L1 or one of the forms of L2."""
        anchor, *positives = views.projected
        logits = torch.stack([cosine_matrix(anchor, p) / self.temperature for p in positives])
        similarity = logits.diagonal(dim1=1, dim2=2)
        return {"multi_positive": self._combine(similarity, logits.logsumexp(dim=2)).mean()}

    def _combine(self, s: Tensor, log_d: Tensor) -> Tensor:
        """`s` and `log_d`, both (positive, batch), to the loss of every sentence (batch,)."""
        weight = self.positive_weight
        if self.loss == "l1":
            return weight * (log_d - s).sum(0)
        if self.loss == "l2":
            return math.log(weight) + (log_d - s).logsumexp(0)
        sign = -1 if self.loss == "l2-printed" else 1
        return -math.log(weight) - (sign * s - log_d).logsumexp(0)
