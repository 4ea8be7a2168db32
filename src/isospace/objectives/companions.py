"""What trains, or remembers, beside the encoder: other networks, memories. Never shipped.

A companion is a module, so that its parameters are optimised (where they ask for a gradient), its
parameters and buffers saved with the checkpoint, and its gradients averaged over processes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from isospace.objectives import heads
from isospace.objectives.base import TokenIds, Views


class Companion(torch.nn.Module):
    """Base of all companions."""

    def after_update(self, encoder: torch.nn.Module, views: Views) -> None:
        """What is to be done once the optimiser has stepped; by itself nothing.

        Args:
            encoder: as it now is.
            views: of the batch of this update, the last one if several were accumulated, without
                gradient.
        """


class RandomCompanion(heads.RandomHead, Companion):
    """Base of companions that draw random numbers, dropout's too.

    Every process runs them on the whole batch, so all of them have to draw the same: from a
    generator of their own, which the checkpoint saves.
    """

    @contextmanager
    def own_draws(self, device: torch.device) -> Iterator[None]:
        """A context in which the global generator draws what this one decides."""
        seed = int(torch.randint(2**62, (), generator=self.generator))
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield


class Network(Companion):
    """A copy of the encoder, by which a view can be made (`View.by`).

    Args:
        encoder: copied as it is.
        trained: by the optimiser, beside the encoder; else its vectors have no gradient.
        momentum: m, after every update the copy is m times itself plus (1 - m) times the encoder;
            `None` leaves it as it is.
    """

    def __init__(
        self, encoder: torch.nn.Module, *, trained: bool = False, momentum: float | None = None
    ) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder).requires_grad_(trained)
        self.trained, self.momentum = trained, momentum

    @torch.no_grad()
    def after_update(self, encoder: torch.nn.Module, views: Views) -> None:
        """Follow the encoder."""
        if self.momentum is not None:
            for ours, theirs in zip(self.encoder.parameters(), encoder.parameters(), strict=True):
                ours.lerp_(theirs, 1 - self.momentum)


class Queue(Companion):
    """The last vectors of one view, oldest first (MoCo, He et al. 2020).

    Args:
        size: vectors that are kept.
        dim: of a vector.
        view: which of the projected views is remembered.
    """

    def __init__(self, size: int, dim: int, view: int) -> None:
        super().__init__()
        self.dim, self.view = dim, view
        self._rows: torch.Tensor
        self._filled: torch.Tensor
        self.register_buffer("_rows", torch.zeros(size, dim))
        self.register_buffer("_filled", torch.zeros((), dtype=torch.int64))

    @property
    def rows(self) -> torch.Tensor:
        """(n, dim), n at most the size."""
        return self._rows[len(self._rows) - int(self._filled) :]

    @torch.no_grad()
    def push(self, vectors: torch.Tensor) -> None:
        """Remember these (batch, dim), and forget the oldest."""
        size = len(self._rows)
        self._rows.copy_(torch.cat([self._rows, vectors.to(self._rows)])[-size:])
        self._filled.copy_(torch.clamp(self._filled + len(vectors), max=size))

    def after_update(self, encoder: torch.nn.Module, views: Views) -> None:
        """Remember the view."""
        self.push(views.projected[self.view])


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


class Decoder(RandomCompanion):
    """The encoder's own layers, from left to right, that see the sentence's vector (TSDAE).

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


class Detector(RandomCompanion):
    """Finds words that a generator has replaced, knowing the sentence's vector (DiffCSE).

    The discriminator is a copy of the encoder, which is trained.

    Args:
        encoder: copied as it is.
        dim: of its vectors.
        language_model: the generator, (ids, mask) to logits; `None` draws words of the batch.
        seed: of weights and draws.
    """

    def __init__(
        self,
        encoder: torch.nn.Module,
        dim: int,
        language_model: torch.nn.Module | None,
        seed: int,
    ) -> None:
        super().__init__(heads.seeded(seed))
        host: Any = encoder
        self.special = tuple(host.vocabulary.special)
        self.language_model = language_model
        self.discriminator = Network(encoder, trained=True)
        self.head = heads.linear(dim, 2, self.generator, bias=True)
        with torch.no_grad():
            self.head.weight.normal_(0.0, 0.02, generator=self.generator)
            self.head.bias.zero_()

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

        host: Any = self.discriminator.encoder
        with self.own_draws(sentences.device):
            states = host.token_states(ids, mask, embedded=conditioned)
        logits: torch.Tensor = self.head(states)
        return logits


def remembered(views: Views, name: str) -> torch.Tensor:
    """The vectors (n, dim) in the queue of this name, oldest first.

    Raises:
        ValueError: there is no such queue beside the views.
    """
    queue = views.companions.get(name)
    if not isinstance(queue, Queue):
        raise ValueError(f"companions: expected a queue {name!r}; got {sorted(views.companions)}")
    return queue.rows
