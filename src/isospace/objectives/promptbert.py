"""PromptBERT: two templates around the sentence, read at their mask tokens, make two views."""

from __future__ import annotations

from typing import ClassVar

import torch

from isospace.errors import UserError
from isospace.losses.contrastive import info_nce
from isospace.objectives import auxiliaries, heads
from isospace.objectives.base import OnCosines, Paper
from isospace.system.settings import settings
from isospace.views import View, Views
from isospace.views.edits import Template


@settings
class PromptBERT(OnCosines):
    r"""InfoNCE between the states at the mask tokens of two templates, less the templates' own.

    $$\ell_i = -\log \frac{e^{\cos(z^1_i, z^2_i)/\tau}}{\sum_j e^{\cos(z^1_i, z^2_j)/\tau}},
        \quad z^v_i = \tanh(W (h^v_i - \hat h^v_i) + b)$$

    $h^v_i$: at the mask token of template v around sentence i. $\hat h^v_i$: the same without the
    sentence, whose positions stay free (template denoising). Relations: `simcse` reads one pooled
    vector under dropout. The encoder needs a mask token, and learned positions for the denoising.
    The evaluated and shipped model reads the mask token of the first template, without W and
    denoising, as the paper does; the tokenizer then holds the template.
    The released code computes one template state for all sentences of equal length, under one
    dropout draw; here each has its own. It counts the free positions from the first template's
    length for both templates, and from 0 for RoBERTa, whose positions begin at 2; not here, with no
    effect on BERT with the published templates. RoBERTa's templates are
    `This sentence : ' {} ' means [MASK].` and `The sentence : ' {} ' means [MASK].`.
    """

    first: str = 'This sentence of "{}" means [MASK].'
    """Template of the first view: {} is the sentence, [MASK] the encoder's own mask token."""
    second: str = 'This sentence : "{}" means [MASK].'
    """Template of the second view."""

    paper: ClassVar[Paper] = Paper("jiang-etal-2022-promptbert")

    def __post_init__(self) -> None:
        for name, template in (("first", self.first), ("second", self.second)):
            if template.count("{}") != 1 or template.count("[MASK]") != 1:
                raise UserError(
                    f"`{name}` {template!r}: write {{}} once, for the sentence, and [MASK] once"
                )

    @property
    def views(self) -> tuple[View, ...]:
        """The sentence in both templates, then both templates without it."""
        return tuple(
            View(edit=template, read="mask", of_anchor=place == 0)
            for empty in (False, True)
            for place, template in enumerate(self._templates(empty))
        )

    def _templates(self, empty: bool) -> list[Template]:
        parts = (self.first.split("{}"), self.second.split("{}"))
        return [Template(before=before, after=after, empty=empty) for before, after in parts]

    def make_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        """Make the head of the denoised vectors, a view of each template."""
        return heads.Differences(super().make_head(dim, generator))

    def shipped(self, built: auxiliaries.ByName) -> Template:
        """Return the first template, whose mask token is read."""
        return self._templates(empty=False)[0]

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        z1, z2 = views.projected
        return {"info_nce": info_nce(z1, z2, self.temperature)}
