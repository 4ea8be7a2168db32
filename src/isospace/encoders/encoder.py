"""The encoder: text -> vector, around a `SentenceTransformer`.

`Encoder.forward` encodes the views of a training batch, `Encoder.embed` a user's texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
    WordEmbeddings,
    WordWeights,
)
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from isospace.encoders import adapters, fast
from isospace.encoders.language import LanguageModel, masked_language_model
from isospace.encoders.modules import (
    default_route,
    includes_prompt,
    modules_of,
    pooling_of,
    rebuilt,
)
from isospace.encoders.noise import Noise
from isospace.encoders.places import MERGE_FIRST
from isospace.encoders.settings import NAMES, Precision, Prompts, Side
from isospace.encoders.tokenisation import Batch, Tokenisation, changed_embeddings
from isospace.errors import UserError
from isospace.system.devices import side_by_side
from isospace.system.progress import Progress
from isospace.views import Read, View, Vocabulary
from isospace.views.networks import TextEncoder

PROBES = (
    "A short sentence.",
    "Größe, 大きさ, حجم 😀",
    "one two three four " * 12,
    "longer than any encoder of sentences reads " * 120,
    "x",
    "",
)
"""Texts that test whether a saved model gives the same vectors as the encoder."""


class Encoder(TextEncoder):
    """A sentence-transformers model with control over its dropout.

    The model begins with a transformer or with word vectors; a `Router` may send queries and
    documents through different modules. `source` is its name or path, for records and messages.

    Attributes:
        tokens: the tokenizer; if queries have a different one, the tokenizer of documents.
        noise: the dropout rates.

    Raises:
        UserError: the model is not a text encoder, its tokenizer cannot pad, its `Router` has
            routes other than query and document, or the two routes have different widths.
    """

    is_frozen = False
    """True if the vectors are given, so that training is impossible (`frozen.py`)."""

    def __init__(
        self, model: SentenceTransformer, source: str, prompts: Prompts | None = None
    ) -> None:
        super().__init__()
        default = default_route(model, source)
        for module in model.modules():
            if isinstance(module, WordWeights):  # these weights are settings, not trained
                module.requires_grad_(False)
        self.model = model
        self.source = source
        self.noise = Noise(model)
        own = Prompts.of_model(model.prompts, model.default_prompt_name)
        given = replace(own if prompts is None else prompts, default_route=default)
        self._sides: dict[Side, Encoder] = {}
        if default is not None:
            one = replace(given, default_route=None)
            self._sides = {
                side: type(self)(rebuilt(model, modules_of(model, side)), source, one)
                for side in NAMES
            }
            _require_same_width(self._sides, source)
        self.tokens = self._tokenisation(given)

    def _tokenisation(self, prompts: Prompts) -> Tokenisation:
        _require_text_encoder(self._documents, self.source)
        return Tokenisation(self._documents, self.source, prompts)

    def of_side(self, side: Side | None) -> Encoder:
        """Return the encoder with the modules and weights of one side; self if all are shared."""
        route = side or self.prompts.default_route
        return self._sides[route] if route and self._sides else self

    @property
    def _documents(self) -> SentenceTransformer:
        return self._sides["document"].model if self._sides else self.model

    @property
    def prompts(self) -> Prompts:
        """The prompts before the texts of each side."""
        return self.tokens.prompts

    def with_prompts(self, prompts: Prompts) -> Encoder:
        """Return an encoder with other prompts and the same weights."""
        return type(self)(self.model, self.source, prompts)

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The Hugging Face tokenizer; for word vectors an object with the same methods."""
        return self.tokens.tokenizer

    @property
    def vocabulary(self) -> Vocabulary:
        """The facts about the tokenizer that token edits need."""
        return self.tokens.vocabulary

    @property
    def max_length(self) -> int | None:
        """Longest input in tokens, special tokens included; `None`: no limit is known."""
        return self.tokens.max_length

    @property
    def is_transformer(self) -> bool:
        """True if the first module is a transformer, false if it looks up word vectors."""
        return isinstance(self._documents[0], Transformer)

    def expect(
        self, asked: Iterable[tuple[Side | None, Iterable[str]]], progress: Progress
    ) -> None:
        """Announce the texts of each side that a command will send to an endpoint."""

    @property
    def probes(self) -> Sequence[str]:
        """Texts that test whether a saved model gives the same vectors as this one."""
        return PROBES

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return int(self._documents.get_embedding_dimension() or 0)

    @property
    def token_dim(self) -> int:
        """Width of the token states."""
        first: Any = self._documents[0]
        return int(first.get_embedding_dimension())

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.model.parameters()).device

    @property
    def pooling(self) -> str:
        """The pooling's name in `POOLINGS`, or a description if it has none."""
        return pooling_of(self._documents)

    @property
    def transformer(self) -> Any:
        """The Hugging Face model inside the first module; requires `is_transformer`."""
        return self._documents[0].model

    @property
    def family(self) -> str:
        """The architecture's name in transformers, or "word vectors"."""
        return str(self.transformer.config.model_type) if self.is_transformer else "word vectors"

    @property
    def is_fast(self) -> bool:
        """True if the fast path runs, not transformers' layers; values agree up to rounding."""
        return (
            self.is_transformer
            and self.device.type == "cpu"
            and not self.transformer.config.output_hidden_states  # a pooling reads every layer
            and not adapters.has_adapters(self.transformer)
            and fast.fits(self.transformer)
        )

    def add_adapters(self, rank: int, seed: int) -> None:
        """Freeze the encoder, and add an adapter to each linear layer of its transformer.

        Raises:
            UserError: the transformer has no linear layers.
        """
        self.requires_grad_(False)
        adapters.insert(self.transformer, rank, seed, f"{self.source} ({self.family})")

    def summary(self, arithmetic: str, plan: Sequence[View] = ()) -> str:
        """Return a line that describes the encoder, for training with the views of a `plan`."""
        rates = ", ".join(f"{rate:g}" for rate in self.noise.rates) or "none"
        size = sum(p.numel() for p in self.parameters()) / 1e6
        if adapters.has_adapters(self.model):
            added = sum(p.numel() for p in self.parameters() if p.requires_grad) / 1e6
            size -= added
            rates += f", trains adapters of {added:.1f} M"
        path = "fast path" if self.is_fast else "transformers' own layers"
        if self.is_fast and any(view.changes_embeddings for view in plan):
            path += " (transformers' layers where the embeddings change)"
        return (
            f"{self.source}: {size:.1f} M parameters, pooling {self.pooling}, dropout {rates}, "
            f"{self.device.type}, {arithmetic}; {path}"
        )

    @property
    def word_embeddings(self) -> nn.Embedding:
        """The input embedding table of the tokens."""
        return self.transformer.get_input_embeddings()

    def vectors(self, batch: Batch, *, normalised: bool, read: Read = "pooled") -> Tensor:
        """Encode a batch of single texts with the current dropout rates.

        `normalised` applies the model's final L2 normalisation, if it has one. The result is
        (batch, dim), or (batch, length, dim), zero at the padding, if all tokens are read.
        """
        ids, mask = batch.input_ids, batch.attention_mask
        features = self.features(batch)
        modules = list(self.model)
        while not normalised and isinstance(modules[-1], Normalize):
            modules.pop()
        changed = batch.changed.get(0)
        if changed is None and self.is_fast:
            pooling = modules[1]
            first_only = (
                read == "pooled"
                and isinstance(pooling, Pooling)
                and pooling.pooling_mode == "cls"
                and pooling.include_prompt
                and bool(mask[:, 0].all())  # a text may have no tokens
            )
            features["token_embeddings"] = fast.forward(self.transformer, ids, mask, first_only)
            if first_only:
                features["attention_mask"] = mask[:, :1]
            del modules[0]
        else:
            made = changed_embeddings(self.transformer, changed) if changed else nullcontext()
            with made:
                features = modules.pop(0)(features)
        if read != "pooled":
            states: Tensor = features["token_embeddings"]
            if read == "tokens":
                return states * mask.unsqueeze(-1)
            here = (ids == self.tokenizer.mask_token_id).float().argmax(1)
            return states[torch.arange(len(states), device=states.device), here]
        for module in modules:
            features = module(features)
        return features["sentence_embedding"]

    def features(self, batch: Batch) -> dict[str, Any]:
        """Return a batch of single texts in the form that the model's modules expect."""
        if isinstance(self.model[0], StaticEmbedding):
            lengths = batch.attention_mask.sum(1)
            pieces = batch.input_ids[batch.attention_mask.bool()]
            return {"input_ids": pieces, "offsets": lengths.cumsum(0) - lengths}
        features: dict[str, Any] = {
            "input_ids": batch.input_ids,
            "attention_mask": batch.attention_mask,
        }
        if batch.prompts:
            features["prompt_length"] = batch.prompts[0]
        if "token_type_ids" in self.tokenizer.model_input_names:
            features["token_type_ids"] = torch.zeros_like(batch.input_ids)
        return features

    def forward(
        self, batch: Batch, plan: Sequence[View], sources: Sequence[int] | None = None
    ) -> list[Tensor]:
        """Encode a batch once per view, after its edits; similar views share one pass.

        The model's final L2 normalisation is skipped, as in the papers: heads and whitening see the
        pooled vector itself. `sources` has the index of the source that each view encodes; default:
        `View.text`. The result has a tensor (batch, dim) for each view; (batch, length, dim) if it
        reads all tokens.
        """
        sources = [view.text for view in plan] if sources is None else sources
        views: dict[int, Tensor] = {}
        # Prompts of different lengths are left out of the pooling in different passes.
        left_out = {} if includes_prompt(self.model) else batch.prompts
        passes = [
            (view.dropout, view.read, source in batch.changed, left_out.get(source, 0))
            for view, source in zip(plan, sources, strict=True)
        ]
        for alike in dict.fromkeys(passes):
            places = [i for i, one in enumerate(passes) if one == alike]
            rate, read, *_ = alike
            with self.noise.at(rate):
                stacked = batch.stack([sources[i] for i in places])
                if read == "tokens":
                    vectors = self.vectors(stacked, normalised=False, read=read)
                else:
                    vectors = self._vectors_by_length(stacked.without_idle_padding(), read)
            views.update(zip(places, vectors.chunk(len(places)), strict=True))
        return [views[i] for i in range(len(plan))]

    def _vectors_by_length(self, batch: Batch, read: Read) -> Tensor:
        parts = [] if batch.changed else batch.by_length()
        if len(parts) < 2:
            return self.vectors(batch, normalised=False, read=read)
        alone = [batch.rows(rows).without_idle_padding() for rows in parts]
        made = [self.vectors(part, normalised=False, read=read) for part in alone]
        return torch.cat(made)[torch.cat(parts).argsort()]

    @property
    def attentions(self) -> list[nn.Module]:
        """The attention module of each layer; its output is the state after self-attention.

        Raises:
            ValueError: the layers are not built like BERT's.
        """
        layers = getattr(getattr(self.transformer, "encoder", None), "layer", [])
        found = [layer.attention for layer in layers if hasattr(layer, "attention")]
        built = found and all(hasattr(module, "self") for module in found)
        if not built or self.family.startswith("deberta"):  # DeBERTa's attention uses distances
            raise ValueError(
                f"the layers of {self.family} are not built like BERT's, "
                "so nothing can be put between their attention and the rest"
            )
        return found

    def language_model(self, name: str | None = None) -> LanguageModel:
        """Load a masked-language model (`masked_language_model`); default: this checkpoint."""
        return masked_language_model(self.source, self.tokenizer, name)

    def token_states(
        self,
        ids: Tensor,
        mask: Tensor,
        dropout: float | None = None,
        *,
        embedded: Callable[[Tensor], Tensor] | None = None,
        attended: Sequence[Callable[[Tensor], Tensor]] = (),
    ) -> Tensor:
        """Return the states of all tokens (n, length, dim), not zero at the padding.

        Args:
            ids: token ids (n, length).
            mask: (n, length), 1 for tokens; or (n, length, length), 1 where token i sees token j.
            dropout: dropout rate; `None`: the encoder's own.
            embedded: function of the embeddings (n, length, width) before the first layer.
            attended: one function per module of `attentions`, of its output (n, length, dim).

        Raises:
            ValueError: the transformer has no module whose output could be replaced.
        """
        transformer = self.transformer
        places = [*zip(self.attentions if attended else [], attended, strict=True)]
        if embedded is not None:
            if not isinstance(getattr(transformer, "embeddings", None), nn.Module):
                raise ValueError(
                    f"the embeddings of {self.family} are not a module, so they cannot be changed"
                )
            places.append((transformer.embeddings, embedded))
        if mask.dim() == 3:
            seen = mask.bool().unsqueeze(1)
            mask = torch.zeros_like(seen, dtype=self.word_embeddings.weight.dtype)
            mask = mask.masked_fill(~seen, torch.finfo(mask.dtype).min)
        features = self.features(Batch(ids, mask))
        with self.noise.at(dropout), _after(places):
            states: Tensor = transformer(**features).last_hidden_state
        return states

    def embed(
        self,
        texts: Sequence[str],
        dropout: float | None = 0.0,
        max_length: int | None = None,
        *,
        batch_tokens: int = 2048,
        batch_size: int | None = None,
        on_batch: Callable[[int], None] | None = None,
        precision: Precision = "float32",
        one_thread: bool = False,
        side: Side | None = None,
    ) -> np.ndarray:
        """Encode texts to vectors (n, dim) in float32, in the order of the texts.

        Texts are sorted by token length and batched by number of tokens. Without dropout, batching
        changes a vector by rounding only (1e-6).

        Args:
            texts: n strings.
            dropout: dropout rate; `None`: the encoder's own.
            max_length: truncation in tokens; default: the encoder's own limit.
            batch_tokens: maximal number of padded tokens in a batch of several texts.
            batch_size: maximal number of texts in a batch.
            on_batch: called after each batch with the number of its texts.
            precision: bf16 changes a vector by about 1e-4 (1 - cosine).
            one_thread: run each batch on one thread, so that the number of threads changes no bit.
            side: side of the texts, which selects prompt and modules; default: no side.
        """
        own = self.of_side(side)
        ids = own.tokens.ids(texts, max_length, side=side) if len(texts) else []
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]), reverse=True)
        batches: list[list[int]] = []
        while order:
            longest = max(1, len(ids[order[0]]))
            size = max(1, min(batch_tokens // longest, batch_size or len(order)))
            batches.append(order[:size])
            del order[:size]
        device = own.device

        def encode(rows: list[int]) -> np.ndarray:
            bf16 = torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
            with torch.inference_mode(), bf16:
                batch = own.tokens.collate([ids[i] for i in rows], sides=(side,)).to(device)
                return own.vectors(batch, normalised=True).float().cpu().numpy()

        vectors = np.empty((len(ids), own.dim), dtype=np.float32)
        # Dropout is drawn in the order of the batches; parallel batches have no fixed order.
        parallel = device.type == "cpu" and dropout == 0.0
        with own.noise.at(dropout):
            results = (
                side_by_side(encode, batches, one_thread) if parallel else map(encode, batches)
            )
            for rows, encoded in zip(batches, results, strict=True):
                vectors[rows] = encoded
                if on_batch is not None:
                    on_batch(len(rows))
        return vectors


def _require_text_encoder(model: SentenceTransformer, source: str) -> None:
    """Refuse a model that isospace would encode differently from sentence-transformers."""
    known = Transformer | WordEmbeddings | StaticEmbedding
    if not isinstance(model[0], known) or model.tokenizer is None:
        raise UserError(
            f"{source}: the first module is {type(model[0]).__name__}. Give a text encoder that "
            "starts with a transformer and its tokenizer, or with static word vectors"
        )
    if pooling_of(model) == "none":
        raise UserError(
            f"{source}: none of its modules pools the states of a text's tokens. Remove its "
            "modules.json, and give `pooling`"
        )
    if getattr(getattr(model[0], "model", None), "_hf_peft_config_loaded", False):
        raise UserError(f"{source}: {MERGE_FIRST}")
    kwargs = getattr(model[0], "processing_kwargs", None)
    for name, value in (("truncate_dim", model.truncate_dim), ("processing_kwargs", kwargs)):
        if value:
            raise UserError(f"{source}: isospace does not support {name}. Remove it from its JSON")


def _require_same_width(sides: Mapping[Side, Encoder], source: str) -> None:
    widths = {side: encoder.dim for side, encoder in sides.items()}
    if len(set(widths.values())) > 1:
        raise UserError(f"{source}: vectors of queries and documents differ in width: {widths}")


@contextmanager
def _after(places: Sequence[tuple[nn.Module, Callable[[Tensor], Tensor]]]) -> Iterator[None]:
    """Apply a function to each module's output, or to the first of several outputs."""

    def hook(function: Callable[[Tensor], Tensor]) -> Callable[[nn.Module, Any, Any], Any]:
        def replaced(_module: nn.Module, _inputs: Any, output: Any) -> Any:
            if isinstance(output, Tensor):
                return function(output)
            return (function(output[0]), *output[1:])

        return replaced

    with ExitStack() as hooks:
        for module, function in places:
            hooks.enter_context(module.register_forward_hook(hook(function)))
        yield
