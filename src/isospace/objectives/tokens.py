"""Objectives on tokens: TSDAE rebuilds words, DiffCSE finds replaced ones, IS-BERT its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt

from isospace.errors import UserError
from isospace.losses.detection import replace_words, replacement_detection, token_information
from isospace.objectives import auxiliaries, decoders, heads
from isospace.objectives.base import Objective, Paper, Widths
from isospace.objectives.contrast import Contrast, Term
from isospace.operators import similarity
from isospace.system.settings import settings
from isospace.views import View, Views, networks
from isospace.views.edits import DeleteWords, MaskTokens


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
    batches of 8 at a constant 3e-5.
    """

    deletion_rate: Annotated[float, Field(ge=0, lt=1)] = 0.6
    """Chance of a word to be deleted (section 5.1); one word always stays."""

    paper: ClassVar[Paper] = Paper("wang-etal-2021-tsdae")

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


@settings
class DiffCSE(Contrast):
    r"""InfoNCE, and detection of replaced words by a network that knows the sentence's vector.

    $$\ell = \ell_\mathrm{InfoNCE}(z, z') + \lambda\,\frac1{\sum_i n_i} \sum_i \sum_t
        \mathrm{CE}\big(D(x''_i, z_i)_t,\ [x''_{it} \ne x_{it}]\big)$$

    $x''$: the sentence with words that a frozen masked-language model filled in where $x'$ had
    masks; $D$: a copy of the encoder, trained, which reads $x''$ with the projected vector $z_i$ in
    the place of the first token's embedding; both views are used, each with masks of its own. The
    gradient of the second term reaches the encoder through $z$ alone. Relations: the first term is
    `simcse` with another head; SimCSE++ lays clean negatives and the contrast between dimensions
    over it.
    Paper and released code differ: the paper samples words at the masks; the code (followed here,
    since with it lambda was tuned) takes the likeliest word at every place, masked or not. The
    code's mean counts padding, which makes lambda depend on the longest sentence of a batch; here
    it is over tokens, and with `positions` all as in the code. The code masks 80 % of the drawn
    words, and its generator runs under dropout; here all are masked, and it runs without.
    Over pairs of texts the detector reads the anchor's $z$ with both $x''$, which are its words.
    """

    detection_weight: PositiveFloat = 0.005
    """lambda (0.005 for STS, 0.05 for transfer)."""
    mask_rate: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Chance of a word to be masked (0.30 for BERT, 0.20 for RoBERTa; 0.15 for transfer)."""
    generator: str | None = None
    """Masked-language model with the encoder's vocabulary that fills the masks; "words" draws words
    of the batch. Default: the checkpoint that training starts from, if it is one."""
    variant: Literal["released", "paper"] = "released"
    """All words are replaced by the likeliest (released), or the masked by sampled ones (paper)."""
    positions: Literal["tokens", "all"] = "tokens"
    """Positions where replacement is detected: tokens, or all, padding included (released code)."""

    paper: ClassVar[Paper] = Paper("chuang-etal-2022-diffcse")

    @property
    def inputs(self) -> tuple[View, ...]:
        masked = View(edit=MaskTokens(rate=self.mask_rate), of_anchor=True)
        return (View(of_anchor=True), masked, masked)

    def own_head(self, dim: int, generator: torch.Generator) -> torch.nn.Module:
        return heads.JointProjector(dim, generator)

    @property
    def further(self) -> Mapping[str, Term]:
        return {"detection": self.detection}

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
        own = self.generator
        try:
            generator = None if own == "words" else encoder.language_model(own)
        except ValueError as error:
            raise ValueError(f"{error}. Name a `generator`, or set `generator` words") from error
        return {"detector": decoders.Detector(encoder, generator, seed)}

    def logits(self, views: Views) -> torch.Tensor:
        return similarity.cosine_matrix(*views.projected) / self.temperature

    def detection(self, views: Views, logits: torch.Tensor) -> torch.Tensor:
        z1, z2 = views.projected
        known = torch.cat([z1, z1 if views.paired else z2])
        detector = views.auxiliaries["detector"]
        original, *masked = views.inputs
        everywhere = self.variant == "released" and self.generator != "words"
        guesses = [detector.guesses(original, m, sampled=self.variant == "paper") for m in masked]
        shown = torch.cat(
            [
                replace_words(original.ids, m.ids, words, original.mask, everywhere=everywhere)
                for m, words in zip(masked, guesses, strict=True)
            ]
        )
        ids, mask = original.ids.repeat(2, 1), original.mask.repeat(2, 1)
        found = detector(known, shown, mask)
        loss = replacement_detection(found, shown, ids, mask, positions=self.positions)
        return self.detection_weight * loss


@settings
class ISBERT(Objective):
    r"""Mutual information between a sentence's vector and the features of its tokens.

    $$\mathcal{L} = \mathbb{E}_{t \notin i}[\mathrm{sp}(s_{ti})]
        + \mathbb{E}_{t \in i}[\mathrm{sp}(-s_{ti})],
        \quad s_{ti} = c_t^\top \tfrac{1}{n_i} \textstyle\sum_{u \in i} c_u$$

    $c_t$: what the convolutions make of token t and its neighbours; sp: softplus; means over all
    tokens of the batch, the special ones too. Relations: `simcse` contrasts sentences with each
    other, here a sentence is contrasted with tokens, and one pass is enough. The evaluated and
    shipped model has the convolutions: a sentence's vector is the mean of their features, 768
    numbers as published.
    Paper and released code differ: the paper has a ReLU behind each convolution (as others quote
    it). The code, which made the published numbers and is followed here, has none, and takes log 2
    off both expectations. It lets the states at the padding into the convolutions, so that a
    sentence depends on the longest of its batch; here they are 0.
    """

    channels: PositiveInt = 256
    """Channels of each convolution."""
    kernels: Annotated[Widths, Field(min_length=1)] = (1, 3, 5)
    """Tokens that each convolution sees, odd numbers."""
    variant: Literal["released", "paper"] = "released"
    """released: no ReLU, log 2 taken off. paper: ReLU, and not."""

    paper: ClassVar[Paper] = Paper("zhang-etal-2020-unsupervised")

    def __post_init__(self) -> None:
        even = [kernel for kernel in self.kernels if kernel % 2 == 0]
        if even:
            raise UserError(f"`kernels` {even[0]}: must be odd")

    @property
    def views(self) -> tuple[View, ...]:
        return (View(read="tokens"),)

    def build_auxiliaries(self, encoder: auxiliaries.TextEncoder, seed: int) -> auxiliaries.ByName:
        relu, generator = self.variant == "paper", heads.seeded(seed)
        layers = networks.Convolutions(
            encoder.dim, self.channels, self.kernels, relu=relu, generator=generator
        )
        return {"convolutions": layers}

    def shipped(self, built: auxiliaries.ByName) -> torch.nn.Module:
        """Return the convolutions, whose mean over tokens is the vector."""
        return built["convolutions"]

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        tokens = views.tokens[0]
        local = views.auxiliaries["convolutions"](tokens.states, tokens.mask)
        sentence = local.sum(1) / tokens.mask.sum(1, keepdim=True)
        released = self.variant == "released"
        own, others = token_information(local, sentence, tokens.mask, constants=released)
        return {"own_tokens": -own, "other_tokens": others}
