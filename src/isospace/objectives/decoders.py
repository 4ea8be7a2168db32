"""Networks that read a sentence's vector beside its tokens: a decoder, a detector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from isospace.objectives import heads
from isospace.objectives.auxiliaries import Draws, MaskedHead, Network
from isospace.views import TokenIds


class CrossAttention(torch.nn.Module):
    """Attention to one vector alone (TSDAE): its weight is 1, so that queries have no part.

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


class Decoder(Draws):
    """The encoder's own layers, from left to right, that see the sentence's vector (TSDAE).

    Only the attention to the sentence and the head are this auxiliary's; embeddings, self-attention
    and feed-forward layers are the encoder's parameters, which both train.

    Raises:
        ValueError: the encoder's layers or vectors are not of BERT's form.
    """

    general_path = "its attention stands between the layers"

    def __init__(self, encoder: Any, seed: int) -> None:
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
            torch.nn.init.normal_(self.head.dense.weight, std=0.02)
        if pretrained is not None:
            self.head.load_state_dict(pretrained)
        self.crosses = torch.nn.ModuleList(crosses)

    def forward(self, sentences: torch.Tensor, target: TokenIds) -> torch.Tensor:
        """Negative log-likelihood of a token given those before it, mean over all but the first.

        Args:
            sentences: (batch, dim).
            target: the sentences' tokens.
        """
        states, labels = self.states(sentences, target)
        total: torch.Tensor = self.head(states, labels)
        return total / len(labels)

    def states(
        self, sentences: torch.Tensor, target: TokenIds
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What every token but the first is guessed from, and that token.

        Args:
            sentences: (batch, dim).
            target: the sentences' tokens.

        Returns:
            (token, dim) and (token,) of all sentences, one after the other.
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
        return states[predicted], target.ids[:, 1:][predicted]


def _require_room(encoder: Any) -> None:
    """Whether the encoder's vector can stand among the embeddings.

    Raises:
        ValueError: they are of another width, or cannot be stepped into.
    """
    widths = []

    def seen(embedded: torch.Tensor) -> torch.Tensor:
        widths.append(embedded.shape[-1])
        return embedded

    one = torch.zeros((1, 1), dtype=torch.int64, device=encoder.device)
    with torch.no_grad():
        encoder.token_states(one, torch.ones_like(one), 0.0, embedded=seen)
    if widths != [encoder.dim]:
        raise ValueError(
            f"its embeddings are of {widths[0]} dimensions and its vectors, which are to stand "
            f"among them, of {encoder.dim}"
        )


class Detector(Draws):
    """Finds words that a generator has replaced, knowing the sentence's vector (DiffCSE).

    The discriminator is a copy of the encoder, which is trained.

    Args:
        encoder: an `encoders.encoder.Encoder`, copied as it is.
        language_model: the generator, (ids, mask) to logits; `None` draws words of the batch.
        seed: of weights and draws.
    """

    general_path = "the sentence's vector stands among the embeddings"

    def __init__(self, encoder: Any, language_model: torch.nn.Module | None, seed: int) -> None:
        super().__init__(seed)
        _require_room(encoder)
        self.special = tuple(encoder.vocabulary.special)
        self.language_model = language_model
        self.discriminator = Network(encoder, trained=True)
        self.head = heads.linear(encoder.dim, 2, self.generator, bias=True)
        with torch.no_grad():
            self.head.weight.normal_(0.0, 0.02, generator=self.generator)
            self.head.bias.zero_()

    @property
    def frozen(self) -> Mapping[str, torch.nn.Module]:
        """The generator, if it is a model."""
        return {} if self.language_model is None else {"generator": self.language_model}

    def guesses(self, original: TokenIds, masked: TokenIds, *, sampled: bool) -> torch.Tensor:
        """Words for every place of the masked sentences, (n, length) ids.

        They are the generator's likeliest, or `sampled` from it.
        """
        if self.language_model is None:
            special = torch.tensor(self.special).to(original.ids)
            words = original.ids[original.mask.bool() & ~torch.isin(original.ids, special)]
            drawn = torch.randint(len(words), original.ids.shape, generator=self.generator)
            return words[drawn.to(words)]
        logits: torch.Tensor = self.language_model(masked.ids, masked.mask)
        if sampled:  # the largest after Gumbel noise
            uniform = torch.rand(logits.shape, generator=self.generator).to(logits)
            logits = logits - torch.log(-torch.log(uniform.clamp(min=1e-20)))
        return logits.argmax(-1)

    def forward(
        self, sentences: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Logits (n, length, 2), of original and replaced.

        Args:
            sentences: (n, dim) vectors, which are read in the place of the first token's embedding.
            ids: (n, length) with replaced words.
            mask: (n, length), 1 for tokens.
        """

        def conditioned(embeddings: torch.Tensor) -> torch.Tensor:
            return torch.cat([sentences.unsqueeze(1).to(embeddings), embeddings[:, 1:]], dim=1)

        encoder: Any = self.discriminator.encoder
        with self.own_draws(sentences.device):
            states = encoder.token_states(ids, mask, embedded=conditioned)
        logits: torch.Tensor = self.head(states)
        return logits
