"""PCL: many edited copies of a sentence as positives, and two networks that teach each other."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt

from isospace.losses.contrastive import (
    group_cross_entropy,
    group_logits,
    info_nce,
    softmax_divergence,
)
from isospace.objectives import auxiliaries
from isospace.objectives.base import MLPOrNone, Paper
from isospace.system.settings import settings
from isospace.views import Edit, View, Views
from isospace.views.edits import DeleteTokens, InsertTokens, Reverse, Shuffle


@settings
class PCL(MLPOrNone):
    r"""InfoNCE, a group of copies against the batch, and agreement of two networks P and Q.

    $$\ell = \sum_{N \in P, Q} \big[\mathrm{NCE}(N) + \mathrm{BCE}(w_{N \to N})\big]
        + \mathrm{KL}(w_{Q \to Q} \| w_{P \to P}) + \mathrm{KL}(w_{Q \to P} \| w_{P \to Q})$$

    $w_{X \to Y}$: for every sentence a softmax over the cosines, divided by $\tau$, of its vector
    by X with its copies by Y (labels 1) and with the other sentences by Y (labels 0). The copies
    are one under dropout, and each of four edits `copies` times: shuffled, reversed, tokens
    deleted, tokens repeated. NCE is `simcse` on sentence and dropout copy. P is the encoder, Q a
    second network, a copy at the start; they share the head. Relations: with one copy and no peer
    this is `simcse` with a second, binary loss; `ct` trains two networks too.

    Where paper and released code differ:
    - The code takes the probabilities $w$ for logits (`variant="released"`), so that the binary
      loss stays near ln 2 and says little. By default it is that of the probabilities.
    - The code is followed in means over all cells, KL with gradient in both networks, deletion of
      the first occurrence of a drawn token, and no repetition beyond 32 tokens.
    - Not here: the code's peer has no attention mask, and a pre-trained pooler before the head.

    Over pairs of texts the sentences are anchors, and all copies are of their positives.
    """

    temperature: PositiveFloat = 0.05
    """tau, divides the cosines."""
    copies: PositiveInt = 2
    """Copies by each of the four edits."""
    edit_rate: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the tokens that is deleted, or repeated."""
    peer: Literal["trained", "frozen"] = "trained"
    """Q learns too, or stays as P was at the start and has no loss of its own."""
    variant: Literal["paper", "released"] = "paper"
    """Binary loss of probabilities (paper), or of their sigmoid (released)."""

    paper: ClassVar[Paper] = Paper("wu-etal-2022-pcl")
    term_names: ClassVar[tuple[str, ...]] = ("info_nce", "group", "kl_within", "kl_cross")

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

    def build_auxiliaries(self, encoder: auxiliaries.Encoder, seed: int) -> auxiliaries.ByName:
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
