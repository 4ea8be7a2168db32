"""Objectives of two networks: CT and PCL."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt

from isospace.losses.contrastive import (
    contrastive_tension,
    diagonal_cross_entropy,
    group_cross_entropy,
    group_logits,
    info_nce,
    pair_layout,
    softmax_divergence,
)
from isospace.objectives import auxiliaries
from isospace.objectives.base import Objective, OnCosines, Paper
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import Edit, View, Views
from isospace.views.edits import DeleteTokens, InsertTokens, Reverse, Shuffle


@settings
class CT(Objective):
    r"""Inner products of two towers: large for a sentence with itself, small for unlike ones.

    $$\ell = -\frac1{(1 + K) N} \sum_i \Big[\log \sigma(\langle a_i, b_i \rangle)
        + \sum_{k=1}^{K} \log \sigma(-\langle a_{n_{ik}}, b_{n'_{ik}} \rangle)\Big]$$

    $a, b$: vectors of the encoder and of a second one, a copy at the start, both trained, neither
    with dropout. $n, n'$: drawn from the batch, each by itself, so that one negative pair in B - 1
    is a sentence with itself. The draws set the towers apart, which a symmetric loss over all pairs
    would keep equal. Relations: `ct-in-batch` compares all with all, and takes pairs of texts.

    Where paper and released code differ:
    - Code, the default, since the published numbers are its: two unrelated sentences make a
      negative pair. Paper (`variant="paper"`): the positive and another sentence.
    - The release trains on batches of 16 pairs of 30 sentences. Here every sentence of the batch is
      a positive, so a batch of B makes 8 B pairs.
    - The release keeps the tower that is better on labelled pairs; here the first is the encoder.
    - The release's optimiser is RMSprop, with steps of the learning rate; here it is the run's.
    """

    num_negatives: PositiveInt = 7
    """K, negative pairs for each positive one."""
    variant: Literal["released", "paper"] = "released"
    """Negative pairs of two unrelated sentences (released), or with the positive (paper)."""

    paper: ClassVar[Paper] = Paper("carlsson-etal-2021-semantic")
    one_text_only: ClassVar[bool] = True

    @property
    def views(self) -> tuple[View, ...]:
        return (View(dropout=0.0), View(dropout=0.0, by="second"))

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
        second = auxiliaries.Network(encoder, trained=True)
        return {"second": second, "pairs": auxiliaries.Draws(seed)}

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        a, b = views.encoded
        own = torch.arange(len(a))
        draws = views.auxiliaries["pairs"]
        shape = (len(a), 2, self.num_negatives)
        others = torch.randint(len(a) - 1, shape, generator=draws.generator)
        others += others >= own[:, None, None]
        pairs = pair_layout(own, others, with_positive=self.variant == "paper")
        first, second, labels = (x.to(a.device) for x in pairs)
        losses = contrastive_tension(a[first], b[second], labels) / len(labels)
        return {"positives": losses @ labels.to(a), "negatives": losses @ (1 - labels).to(a)}


@settings
class CTInBatch(Objective):
    r"""InfoNCE in both directions between two towers, with a scale that is learnt.

    $$\ell_i = -\tfrac12 \Big[\log \frac{e^{s \cos(a_i, b_i)}}{\sum_j e^{s \cos(a_i, b_j)}}
        + \log \frac{e^{s \cos(a_i, b_i)}}{\sum_j e^{s \cos(a_j, b_i)}}\Big]$$

    $a, b$: vectors of the encoder and of a second one, a copy at the start, both trained under
    dropout. $s$: `scale`, its logarithm is trained. Relations: `ct` draws pairs; with one tower
    and one direction this is `simcse`. It is sentence-transformers' version of CT, no paper's;
    there the second tower is kept, here the first is the encoder.
    """

    scale: PositiveFloat = 20.0
    """s at the start, multiplies the cosines."""

    paper: ClassVar[Paper] = Paper("carlsson-etal-2021-semantic")

    @property
    def views(self) -> tuple[View, ...]:
        return (View(), View(by="second"))

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
        scale = torch.nn.ParameterDict({"log": torch.tensor(self.scale).log()})
        return {"second": auxiliaries.Network(encoder, trained=True), "scale": scale}

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        scale = views.auxiliaries["scale"]["log"].to(views.encoded).exp()
        logits = scale * similarity.cosine_matrix(*views.encoded)
        directions = {"first_to_second": logits, "second_to_first": logits.T}
        return {name: diagonal_cross_entropy(x).mean() / 2 for name, x in directions.items()}


@settings
class PCL(OnCosines):
    r"""InfoNCE, a group of copies against the batch, and agreement of two networks P and Q.

    $$\ell = \sum_{N \in P, Q} \big[\mathrm{NCE}(N) + \mathrm{BCE}(w_{N \to N})\big]
        + \mathrm{KL}(w_{Q \to Q} \| w_{P \to P}) + \mathrm{KL}(w_{Q \to P} \| w_{P \to Q})$$

    $w_{X \to Y}$: for every sentence a softmax over the cosines, divided by $\tau$, of its vector
    by X with its copies by Y (labels 1) and with the other sentences by Y (labels 0). The copies
    are one under dropout, and each of four edits `copies` times: shuffled, reversed, tokens
    deleted, tokens repeated. NCE is `simcse` on sentence and dropout copy. P is the encoder, Q a
    copy at the start; they share the head. Relations: with one copy and no peer this is `simcse`
    with a second, binary loss; `ct` trains two networks too.

    Where paper and released code differ:
    - The code takes the probabilities $w$ for logits (`variant="released"`), so that the binary
      loss stays near ln 2 and says little. By default it is that of the probabilities.
    - The code is followed in means over all cells, KL with gradient in both networks, deletion of
      the first occurrence of a drawn token, and no repetition beyond 32 tokens.
    - Not here: the code's peer has no attention mask, and a pre-trained pooler before the head.

    Over pairs of texts all copies are of the positives.
    """

    copies: PositiveInt = 2
    """Copies by each of the four edits."""
    edit_rate: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the tokens that is deleted, or repeated."""
    peer: Literal["trained", "frozen"] = "trained"
    """Q learns too, or stays as P was at the start and has no loss of its own."""
    variant: Literal["paper", "released"] = "paper"
    """Binary loss of probabilities (paper), or of their sigmoid (released)."""

    paper: ClassVar[Paper] = Paper("wu-etal-2022-pcl")

    @property
    def views(self) -> tuple[View, ...]:
        """Sentence, dropout copy and edited copies, by the encoder and by the peer."""
        edits: list[Edit | None] = [None, None]
        for number in range(self.copies):
            edits += [
                Shuffle(stream=f"shuffle {number}"),
                Reverse(stream=f"reverse {number}"),
                DeleteTokens(stream=f"delete {number}", rate=self.edit_rate),
                InsertTokens(stream=f"insert {number}", rate=self.edit_rate),
            ]
        return tuple(
            View(edit=edit, by=by, of_anchor=place == 0)
            for by in ("encoder", "peer")
            for place, edit in enumerate(edits)
        )

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
        return {"peer": auxiliaries.Network(encoder, trained=self.peer == "trained")}

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        p, q = views.projected.chunk(2)
        if self.peer == "frozen":
            q = q.detach()
        learning = (p, q) if self.peer == "trained" else (p,)
        within = [group_logits(x[0], x, self.temperature) for x in (p, q)]
        across = [group_logits(x[0], y, self.temperature) for x, y in ((p, q), (q, p))]
        contrast = [info_nce(x[0], x[1], self.temperature) for x in learning]
        released = self.variant == "released"
        copies = len(p) - 1
        groups = [
            group_cross_entropy(x, copies, released=released) for x in within[: len(learning)]
        ]
        return {
            "info_nce": torch.stack(contrast).sum(),
            "group": torch.stack(groups).sum(),
            "kl_within": softmax_divergence(*within),
            "kl_cross": softmax_divergence(*across),
        }
