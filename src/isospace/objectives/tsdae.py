"""TSDAE: rebuild a sentence from the vector of what deletion left of it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field

from isospace.objectives import companions, heads
from isospace.objectives.base import Objective, Paper, TokenIds, View, Views
from isospace.objectives.edits import DeleteWords
from isospace.system.settings import settings

PAPER = Paper(
    title=(
        "TSDAE: Using Transformer-based Sequential Denoising Auto-Encoder for Unsupervised "
        "Sentence Embedding Learning"
    ),
    year=2021,
    url="https://aclanthology.org/2021.findings-emnlp.59",
    bibtex="""@inproceedings{wang-etal-2021-tsdae,
    title = {{TSDAE}: Using Transformer-based Sequential Denoising Auto-Encoder for Unsupervised
             Sentence Embedding Learning},
    author = {Wang, Kexin and Reimers, Nils and Gurevych, Iryna},
    booktitle = {Findings of EMNLP 2021},
    pages = {671--688},
    year = {2021},
    url = {https://aclanthology.org/2021.findings-emnlp.59},
}""",
)


class CrossAttention(torch.nn.Module):
    """Attention to one vector alone: its weight is 1, so that queries and keys have no part.

    Args:
        attention: of the layer that it follows; heads, norm and dropout are as there.
        dim: of states and vector.
    """

    def __init__(self, attention: Any, dim: int) -> None:
        super().__init__()
        self.value, self.output = torch.nn.Linear(dim, dim), torch.nn.Linear(dim, dim)
        self.norm = torch.nn.LayerNorm(dim, eps=attention.output.LayerNorm.eps)
        for layer in (self.value, self.output):
            torch.nn.init.normal_(layer.weight, std=0.02)
            torch.nn.init.zeros_(layer.bias)

    def forward(self, states: torch.Tensor, sentence: torch.Tensor, attention: Any) -> torch.Tensor:
        """States (n, length, dim) that have seen the `sentence` (n, dim)."""
        count = attention.self.num_attention_heads
        weights = attention.self.dropout(states.new_ones(*states.shape[:2], count, 1))
        values = self.value(sentence).unflatten(-1, (count, -1)).unsqueeze(1)
        attended = attention.output.dropout(self.output((weights * values).flatten(2)))
        out: torch.Tensor = self.norm(states + attended)
        return out


class WordHead(torch.nn.Module):
    """States to logits of the vocabulary: dense, GELU, norm, then the word embeddings.

    Args:
        dim: of a state.
        vocabulary: number of words.
        pretrained: weights of dense, norm and bias; default: drawn, as BERT's.
    """

    def __init__(
        self, dim: int, vocabulary: int, eps: float, pretrained: dict[str, torch.Tensor] | None
    ) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(dim, dim)
        self.norm = torch.nn.LayerNorm(dim, eps=eps)
        self.bias = torch.nn.Parameter(torch.zeros(vocabulary))
        torch.nn.init.normal_(self.dense.weight, std=0.02)
        torch.nn.init.zeros_(self.dense.bias)
        if pretrained is not None:
            self.load_state_dict(pretrained)

    def forward(self, states: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """`states` (n, dim) and `words` (vocabulary, dim) to logits (n, vocabulary)."""
        transformed = self.norm(torch.nn.functional.gelu(self.dense(states)))
        return torch.nn.functional.linear(transformed, words, self.bias)


class Decoder(companions.RandomCompanion):
    """The encoder's own layers, each with attention to the sentence's vector, from left to right.

    Only the attention to the sentence and the head are this companion's; embeddings, self-attention
    and feed-forward layers are the encoder's parameters, which both train.

    Raises:
        ValueError: the encoder's layers or vectors are not of BERT's form.
    """

    def __init__(self, encoder: torch.nn.Module, dim: int, seed: int) -> None:
        super().__init__(heads.seeded(seed))
        host: Any = encoder
        self._encoder = (host,)  # in a tuple: its weights are not saved a second time
        vocabulary, width = host.word_embeddings.shape
        if width != dim:
            raise ValueError(f"its vectors have {dim} dimensions and its embeddings {width}")
        try:
            pretrained = host.language_model().head()
        except ValueError:  # most sentence encoders are published without one
            pretrained = None
        with self.own_draws(torch.device("cpu")):
            crosses = [CrossAttention(attention, dim) for attention in host.attentions]
            eps = host.attentions[0].output.LayerNorm.eps
            self.head = WordHead(dim, vocabulary, eps, pretrained)
        self.crosses = torch.nn.ModuleList(crosses)

    def forward(self, sentences: torch.Tensor, target: TokenIds) -> torch.Tensor:
        """Negative log-likelihood of every token but the first, given those before it.

        Args:
            sentences: (batch, dim).
            target: the sentences' tokens.

        Returns:
            (token,) of all sentences, one after the other.
        """
        [encoder] = self._encoder
        ids, seen, predicted = target.ids[:, :-1], target.mask[:, :-1], target.mask[:, 1:].bool()
        attended = [
            lambda states, cross=cross, attention=attention: cross(states, sentences, attention)
            for cross, attention in zip(self.crosses, encoder.attentions, strict=True)
        ]
        earlier = torch.ones(ids.shape[1], ids.shape[1]).to(seen).tril()
        with self.own_draws(sentences.device):
            states = encoder.token_states(ids, earlier * seen.unsqueeze(1), attended=attended)
        logits = self.head(states[predicted], encoder.word_embeddings)
        labels = target.ids[:, 1:][predicted]
        return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


@settings
class TSDAE(Objective):
    r"""A decoder rebuilds the sentence from the vector of its remains.

    $$\ell = -\frac1{\sum_i n_i} \sum_i \sum_{t=1}^{n_i}
        \log \mathrm{softmax}\big(E\,h_t(x_{i,<t}, s_i)\big)_{x_{it}}$$

    $s_i$: the encoder's vector of sentence i after words were deleted, which is all that the
    decoder's cross-attention sees. $h_t$: the decoder's state after the tokens before t, made ready
    as for masked words; $E$: the word embeddings. The decoder is the encoder itself, with a causal
    mask and cross-attention beside its layers: their parameters are the same. Relations: no other
    row rebuilds text; there are no negatives, and nothing compares sentences.
    The mean is over all tokens of the batch, so that long sentences weigh more. Words are those of
    the encoder's tokenizer; the authors' are NLTK's. Newer example scripts of sentence-transformers
    delete 1 - rate by mistake. The paper pools by the first token (`pooling` cls), and takes
    batches of 8 at 3e-5 constant. The decoder runs in float32, by transformers' own modules, on
    every process for the whole batch.
    """

    deletion_rate: Annotated[float, Field(ge=0, lt=1)] = 0.6
    """Chance of a word to be deleted (section 5.1); one word always stays."""

    paper: ClassVar[Paper] = PAPER
    term_names: ClassVar[tuple[str, ...]] = ("reconstruction",)

    @property
    def views(self) -> tuple[View, ...]:
        """The sentence without most of its words."""
        return (View(edit=DeleteWords(rate=self.deletion_rate)),)

    @property
    def inputs(self) -> tuple[View, ...]:
        """The whole sentence, to be rebuilt."""
        return (View(),)

    def build_companions(
        self, encoder: torch.nn.Module, dim: int, seed: int
    ) -> dict[str, companions.Companion]:
        """The decoder."""
        return {"decoder": Decoder(encoder, dim, seed)}

    def terms(self, views: Views) -> dict[str, torch.Tensor]:
        """Mean over the tokens of the batch."""
        [sentences] = views.projected
        return {"reconstruction": views.companions["decoder"](sentences, *views.inputs).mean()}
