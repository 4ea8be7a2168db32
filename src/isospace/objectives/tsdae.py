"""TSDAE: rebuild a sentence from the vector of its remaining words."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field

from isospace.objectives import auxiliaries, decoders
from isospace.objectives.base import Objective, Paper
from isospace.system.settings import settings
from isospace.views import View, Views
from isospace.views.edits import DeleteWords


@settings
class TSDAE(Objective):
    r"""A decoder rebuilds the sentence from the vector of its remaining words.

    $$\ell = -\frac1{\sum_i n_i} \sum_i \sum_{t=1}^{n_i}
        \log \mathrm{softmax}\big(E\,h_t(x_{i,<t}, s_i)\big)_{x_{it}}$$

    $s_i$: the encoder's vector of sentence i after words were deleted, the only input of the
    decoder's cross-attention. $h_t$: the decoder's state after the tokens before t, made ready
    as for masked words; $E$: the word embeddings. The decoder has the encoder's own parameters,
    with a causal mask and cross-attention beside its layers. Relations: no other row rebuilds text;
    there are no negatives, and nothing compares sentences.
    The mean is over all tokens of the batch, so that long sentences weigh more. Words are those of
    the encoder's tokenizer; the authors' are NLTK's. Newer example scripts of sentence-transformers
    delete 1 - rate by mistake. The paper pools by the first token (`pooling` cls), and takes
    batches of 8 at 3e-5 constant.
    """

    deletion_rate: Annotated[float, Field(ge=0, lt=1)] = 0.6
    """Chance of a word to be deleted (section 5.1); one word always stays."""

    paper: ClassVar[Paper] = Paper("wang-etal-2021-tsdae")
    term_names: ClassVar[tuple[str, ...]] = ("reconstruction",)

    @property
    def views(self) -> tuple[View, ...]:
        return (View(edit=DeleteWords(rate=self.deletion_rate)),)

    @property
    def inputs(self) -> tuple[View, ...]:
        return (View(),)

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
        return {"decoder": decoders.Decoder(encoder, seed)}

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        [sentences] = views.projected
        return {"reconstruction": views.auxiliaries["decoder"](sentences, *views.inputs)}
