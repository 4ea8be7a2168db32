"""Auxiliary networks over tokens: masked-language head, decoder, detector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from isospace.objectives import heads
from isospace.objectives.auxiliaries import Auxiliary, Draws, Network
from isospace.views import NO_TARGET, TokenIds, TokenStates
from isospace.views.networks import TextEncoder

_LOGITS = 1 << 24
"""Number of logits in memory: 64 MB in float32. A batch of 64 passages has 100 million or more."""


def word_loss(states: Tensor, words: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    r"""Return $-\sum_t \log \mathrm{softmax}(W h_t + b)_{y_t}$, 0 without tokens.

    $h$ (`states`) is (token, dim), $W$ (`words`) is (word, dim), $y$ (`labels`) is (token,). Only
    the logits of a slice of tokens are in memory at a time; the backward pass makes them again.
    """

    def of_slice(states: Tensor, labels: Tensor) -> Tensor:
        logits = torch.addmm(bias, states, words.T)
        return nn.functional.cross_entropy(logits, labels, reduction="sum")

    size = max(1, _LOGITS // len(words))
    slices = zip(torch.split(states, size), torch.split(labels, size), strict=True)
    sums = [checkpoint(of_slice, *part, use_reentrant=False) for part in slices]
    return torch.stack(sums).sum()


class MaskedHead(Auxiliary):
    """A masked-language head on the encoder's own word embeddings (BERT's head).

    Sentence encoders come without theirs, so the dense layer starts as the identity.

    Raises:
        ValueError: the word embeddings have another width than the token states.
    """

    def __init__(self, words: nn.Embedding, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        count, width = words.weight.shape
        if width != dim:
            raise ValueError(f"word embeddings have {width} dimensions and token states {dim}")
        self._words = (words,)  # in a tuple: it stays the encoder's module alone
        self.dense = nn.Linear(dim, dim, device="meta").to_empty(device="cpu")
        self.norm = nn.LayerNorm(dim, eps=eps)
        self.bias = nn.Parameter(torch.zeros(count))
        with torch.no_grad():
            nn.init.eye_(self.dense.weight)
            self.dense.bias.zero_()

    def forward(self, states: Tensor, ids: Tensor) -> Tensor:
        """Return the negative log-likelihood of tokens `ids` (n,) at `states` (n, dim), summed."""
        hidden = self.norm(nn.functional.gelu(self.dense(states)))
        return word_loss(hidden, self._words[0].weight.to(hidden), self.bias, ids)

    def loss(self, views: Sequence[TokenStates], targets: Sequence[TokenIds]) -> Tensor:
        """Return the cross-entropy, a mean over the tokens to guess in all views, or 0."""
        wanted = [(target.ids != NO_TARGET) & target.mask.bool() for target in targets]
        states = [view.states[here] for view, here in zip(views, wanted, strict=True)]
        ids = torch.cat([target.ids[here] for target, here in zip(targets, wanted, strict=True)])
        total: Tensor = self(torch.cat(states), ids)
        return total / max(1, len(ids))


class CrossAttention(nn.Module):
    """Attention to one vector (TSDAE): its weight is 1, so there are no queries."""

    def __init__(self, attention: Any, dim: int) -> None:
        super().__init__()
        self.value, self.output = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim, eps=attention.output.LayerNorm.eps)
        for layer in (self.value, self.output):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor, sentence: Tensor, attention: Any) -> Tensor:
        """Add the attended `sentence` (n, dim) to states (n, length, dim)."""
        count = attention.self.num_attention_heads
        weights = attention.self.dropout(states.new_ones(*states.shape[:2], count, 1))
        values = self.value(sentence).unflatten(-1, (count, -1)).unsqueeze(1)
        attended = attention.output.dropout(self.output((weights * values).flatten(2)))
        return self.norm(states + attended)


class Decoder(Draws):
    """A causal decoder of the encoder's own layers, which sees the sentence's vector (TSDAE).

    Only the attention to the sentence and the head are its own; both train the other layers.

    Raises:
        ValueError: the encoder's layers or vectors are not of BERT's form.
    """

    def __init__(self, encoder: TextEncoder, seed: int) -> None:
        super().__init__(seed)
        dim = encoder.dim
        self._encoder = (encoder,)  # in a tuple: its weights are not saved a second time
        try:
            pretrained = encoder.language_model().head()
        except ValueError:  # most sentence encoders are published without one
            pretrained = None
        with self.own_draws(torch.device("cpu")):
            crosses = [CrossAttention(attention, dim) for attention in encoder.attentions]
            eps = encoder.attentions[0].output.LayerNorm.eps
            self.head = MaskedHead(encoder.word_embeddings, dim, eps)
            nn.init.normal_(self.head.dense.weight, std=0.02)
        if pretrained is not None:
            self.head.load_state_dict(pretrained)
        self.crosses = nn.ModuleList(crosses)

    def forward(self, sentences: Tensor, target: TokenIds) -> Tensor:
        """Return the mean negative log-likelihood of tokens, given those before and the sentences.

        The first token of each text of `target` is not predicted; `sentences` are (batch, dim).
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
        labels = target.ids[:, 1:][predicted]
        total: Tensor = self.head(states[predicted], labels)
        return total / len(labels)


class Detector(Draws):
    """A detector of words that a generator replaced, given the sentence's vector (DiffCSE).

    The generator is `language_model`, (ids, mask) to logits; `None` draws words of the batch.

    Raises:
        ValueError: sentence vectors cannot be read in the place of an embedding.
    """

    def __init__(self, encoder: TextEncoder, language_model: Any, seed: int) -> None:
        super().__init__(seed)
        width = encoder.word_embeddings.embedding_dim
        if width != encoder.dim:
            raise ValueError(
                f"word embeddings have {width} dimensions and sentence vectors {encoder.dim}; the "
                "detector needs both equal"
            )
        one = torch.ones((1, 1), dtype=torch.int64, device=encoder.device)
        with torch.no_grad():  # refused here and not in the first step
            encoder.token_states(one, one, 0.0, embedded=lambda embedded: embedded)
        self.special = tuple(encoder.vocabulary.special)
        self.language_model = language_model
        if language_model is not None:
            language_model.from_setting = "generator"
        self.discriminator = Network(encoder, trained=True)
        self.head = heads.linear(encoder.dim, 2, self.generator, std=0.02)

    def guesses(self, original: TokenIds, masked: TokenIds, *, sampled: bool) -> Tensor:
        """Return the generator's likeliest words, or `sampled` ones, as ids (n, length)."""
        if self.language_model is None:
            special = torch.tensor(self.special).to(original.ids)
            words = original.ids[original.mask.bool() & ~torch.isin(original.ids, special)]
            drawn = torch.randint(len(words), original.ids.shape, generator=self.generator)
            return words[drawn.to(words)]
        logits: Tensor = self.language_model(masked.ids, masked.mask)
        if sampled:  # the largest after Gumbel noise
            uniform = torch.rand(logits.shape, generator=self.generator).to(logits)
            logits = logits - torch.log(-torch.log(uniform.clamp(min=1e-20)))
        return logits.argmax(-1)

    def forward(self, sentences: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the logits (n, length, 2) of original and replaced.

        `sentences` (n, dim) are read in the place of the first token's embedding.
        """

        def conditioned(embeddings: Tensor) -> Tensor:
            return torch.cat([sentences.unsqueeze(1).to(embeddings), embeddings[:, 1:]], dim=1)

        with self.own_draws(sentences.device):
            states = self.discriminator.encoder.token_states(ids, mask, embedded=conditioned)
        return self.head(states)
