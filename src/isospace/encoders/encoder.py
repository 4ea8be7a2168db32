"""The encoder: text -> vector. The one module that knows sentence-transformers' parts.

`load_encoder` (in `loading.py`) finds one; `Encoder.forward` makes the views that objectives see;
`Encoder.embed` makes the vectors that users see.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Transformer,
    WeightedLayerPooling,
)
from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from isospace.encoders.batch import Batch
from isospace.encoders.fast import bert as packed
from isospace.encoders.noise import Noise
from isospace.encoders.pooling import POOLINGS, PoolingName
from isospace.encoders.precision import Precision
from isospace.errors import UserError
from isospace.objectives.base import View
from isospace.system.cores import side_by_side
from isospace.system.unicode import without_surrogates

_NO_LIMIT = 10**20
"""What tokenizers without a limit say lies above it."""


class Encoder(nn.Module):
    """A sentence-transformers model with control over its noise.

    Args:
        model: any text `SentenceTransformer` whose first module is a transformer.
        source: where it came from (a name or path), for records and messages.
    """

    def __init__(self, model: SentenceTransformer, source: str) -> None:
        super().__init__()
        if not isinstance(model[0], Transformer) or model.tokenizer is None:
            raise UserError(
                f"{source}: the first module is {type(model[0]).__name__}; isospace adapts text "
                "encoders that start with a transformer and its tokenizer"
            )
        self.model = model
        self.source = source
        self.noise = Noise(model)
        self.prompt = model.prompts.get(model.default_prompt_name or "") or ""
        if model.tokenizer.pad_token_id is None:
            raise UserError(
                f"{source}: its tokenizer has no padding token, so sentences cannot be batched; "
                "isospace adapts text encoders, such as BERT's relatives"
            )
        prompt = model.tokenizer(self.prompt)["input_ids"]
        closing = prompt[-1:] and prompt[-1] in model.tokenizer.all_special_ids
        self._prompt_length = len(prompt) - bool(closing)

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The Hugging Face tokenizer."""
        tokenizer: PreTrainedTokenizerBase = self.model.tokenizer
        return tokenizer

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return int(self.model.get_embedding_dimension() or 0)

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return next(self.model.parameters()).device

    @property
    def max_length(self) -> int | None:
        """Longest input in tokens, special ones included (`None`: no limit known)."""
        limit = self.model.max_seq_length
        return None if limit is None or limit > _NO_LIMIT else int(limit)

    @property
    def pooling(self) -> str:
        """The pooling's name, or sentence-transformers' words for one that has none here."""
        blend = next((m for m in self.model if isinstance(m, WeightedLayerPooling)), None)
        pool = next((m for m in self.model if isinstance(m, PoolingModule)), None)
        if pool is None:
            return "none"
        if blend is None:
            return str(pool.pooling_mode)
        weights = [0.0] * blend.layer_start + blend.layer_weights.tolist()
        used = tuple(i for i, w in enumerate(weights) if w)
        shares = [weights[i] for i in used]
        for name, rule in POOLINGS.items():
            layers = tuple(sorted(i % len(weights) for i in rule.layers))
            if (used, pool.pooling_mode) == (layers, rule.tokens) and len(set(shares)) == 1:
                return name
        return f"layers {used} by {shares}, {pool.pooling_mode}"

    def summary(self, arithmetic: str) -> str:
        """What it is, in a line for people.

        Args:
            arithmetic: the type of its matrix products.
        """
        rates = ", ".join(f"{rate:g}" for rate in self.noise.rates)
        size = sum(p.numel() for p in self.parameters()) / 1e6
        return (
            f"{self.source}: {size:.1f} M parameters, pooling {self.pooling}, dropout {rates}, "
            f"{self.device.type}, {arithmetic}"
        )

    def set_pooling(self, name: PoolingName) -> None:
        """Replace the pooling by one of `isospace.encoders.pooling.POOLINGS`."""
        rule = POOLINGS[name]
        transformer: Any = self.model[0]
        dim = transformer.get_embedding_dimension()
        whole = all(m.include_prompt for m in self.model if isinstance(m, PoolingModule))
        parts: list[nn.Module] = [PoolingModule(dim, rule.tokens, include_prompt=whole)]
        blend = len(rule.layers) > 1
        transformer.model.config.output_hidden_states = blend
        if blend:
            layers = transformer.model.config.num_hidden_layers
            weights = torch.zeros(layers + 1)
            weights[list(rule.layers)] = 1.0
            frozen = nn.Parameter(weights, requires_grad=False)
            parts.insert(0, WeightedLayerPooling(dim, layers, layer_start=0, layer_weights=frozen))
        rest = [m for m in self.model if not isinstance(m, PoolingModule | WeightedLayerPooling)][
            1:
        ]
        self.model = SentenceTransformer(
            modules=[transformer, *parts, *rest],
            device=str(self.device),
            prompts={name: text for name, text in self.model.prompts.items() if text},
            default_prompt_name=self.model.default_prompt_name,
            similarity_fn_name=self.model.similarity_fn_name,
        )
        self.noise = Noise(self.model)

    def _limit(self, max_length: int | None) -> int | None:
        """The shorter of the two limits; `None` is no limit."""
        limits = [limit for limit in (max_length, self.max_length) if limit is not None]
        return min(limits, default=None)

    def fingerprint(self, max_length: int | None) -> str:
        """Names what `token_ids` does: same fingerprint, same ids."""
        backend = getattr(self.model.tokenizer, "backend_tokenizer", None)
        if backend is None:
            tokenizer = {
                "class": type(self.tokenizer).__name__,
                "vocab": self.tokenizer.get_vocab(),
            }
        else:
            tokenizer = json.loads(backend.to_str())
            # Calls leave their own settings behind; they are not part of the tokenizer.
            tokenizer.update(truncation=None, padding=None)
        limit = self._limit(max_length)
        content = json.dumps([tokenizer, self.prompt, limit], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def token_ids(self, texts: Sequence[str], max_length: int | None = None) -> list[list[int]]:
        """Token ids with special tokens, truncated to `max_length` (default: the encoder's own)."""
        limit = self._limit(max_length)
        encoded = self.tokenizer(
            [without_surrogates(self.prompt + text) for text in texts],
            truncation=limit is not None,
            max_length=limit,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def batch(self, ids: Sequence[Sequence[int] | np.ndarray], texts: int = 1) -> Batch:
        """Pad token ids to the longest text among them; where examples have several, as `Batch`."""
        longest = max(len(row) for row in ids)
        padded = np.full((len(ids), longest), self.tokenizer.pad_token_id, dtype=np.int64)
        mask = np.zeros((len(ids), longest), dtype=np.int64)
        for i, row in enumerate(ids):
            padded[i, : len(row)] = row
            mask[i, : len(row)] = 1
        return Batch(torch.from_numpy(padded), torch.from_numpy(mask), texts)

    def _packs(self, batch: Batch) -> bool:
        """Whether the transformer runs without its padding: on the CPU, for the last layer."""
        transformer: Any = self.model[0]
        return (
            batch.input_ids.device.type == "cpu"
            and not transformer.model.config.output_hidden_states
            and packed.packable(transformer.model)
        )

    def _run(self, batch: Batch, *, normalised: bool) -> Tensor:
        features: dict[str, Any] = {
            "input_ids": batch.input_ids,
            "attention_mask": batch.attention_mask,
        }
        if self.prompt:
            features["prompt_length"] = self._prompt_length  # some poolings leave it out
        if "token_type_ids" in self.tokenizer.model_input_names:
            features["token_type_ids"] = torch.zeros_like(batch.input_ids)
        parts = list(self.model)
        while not normalised and isinstance(parts[-1], Normalize):
            parts.pop()
        if self._packs(batch):
            transformer: Any = parts.pop(0)
            pool = parts[0]
            first_only = (
                isinstance(pool, PoolingModule)
                and pool.pooling_mode == "cls"
                and pool.include_prompt
            )
            features["token_embeddings"] = packed.forward(
                transformer.model, batch.input_ids, batch.attention_mask, first_only
            )
            if first_only:
                features["attention_mask"] = batch.attention_mask[:, :1]
        for part in parts:
            features = part(features)
        vectors: Tensor = features["sentence_embedding"]
        return vectors

    def forward(self, batch: Batch, plan: Sequence[View]) -> Tensor:
        """Encode a batch once per view, each from its text, in one pass per distinct dropout rate.

        A closing L2 normalisation is left out, as in the papers: heads and whitening see the pooled
        vector itself. Losses built on cosines do not notice.

        Args:
            batch: token ids on the encoder's device.
            plan: the views, in the order in which they are returned.

        Returns:
            (view, batch, dim).
        """
        views: dict[int, Tensor] = {}
        for rate in dict.fromkeys(view.dropout for view in plan):
            where = [i for i, view in enumerate(plan) if view.dropout == rate]
            with self.noise.at(rate):
                made = self._run(batch.stack([plan[i].text for i in where]), normalised=False)
            views.update(zip(where, made.view(len(where), len(batch), -1), strict=True))
        return torch.stack([views[i] for i in range(len(plan))])

    def embed(
        self,
        texts: Sequence[str],
        view: View = View(dropout=0.0),  # noqa: B008 - frozen
        max_length: int | None = None,
        batch_tokens: int = 2048,
        on_batch: Callable[[int], None] | None = None,
        precision: Precision = "float32",
        one_thread: bool = False,
    ) -> np.ndarray:
        """Vectors of texts, float32, in the order of the texts.

        Sentences are sorted by token length and batched to a number of tokens; none of this changes
        a clean vector beyond rounding (1e-6).

        Args:
            texts: n strings.
            view: the noise; clean unless asked otherwise.
            max_length: truncation in tokens; default: the encoder's own limit.
            batch_tokens: padded tokens in a batch.
            on_batch: called with the number of sentences done after each batch.
            precision: bf16 computes the matrix products in bfloat16, which is faster where the
                processor has it and moves a vector by a cosine of about 1e-4.
            one_thread: a batch has one thread, so that the number of threads changes no bit.

        Returns:
            (n, dim) float32.
        """
        ids = self.token_ids(texts, max_length) if len(texts) else []
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]), reverse=True)
        batches: list[list[int]] = []
        while order:
            size = max(1, batch_tokens // len(ids[order[0]]))
            batches.append(order[:size])
            del order[:size]

        def encode(rows: list[int]) -> np.ndarray:
            bf16 = torch.autocast(self.device.type, torch.bfloat16, enabled=precision == "bf16")
            with torch.inference_mode(), bf16:
                batch = self.batch([ids[i] for i in rows]).to(self.device)
                made: np.ndarray = self._run(batch, normalised=True).float().cpu().numpy()
                return made

        vectors = np.empty((len(ids), self.dim), dtype=np.float32)
        # Noise is drawn in the order of the batches; side by side there is no order.
        apart = self.device.type == "cpu" and view.dropout == 0.0
        with self.noise.at(view.dropout):
            encoded = side_by_side(encode, batches, one_thread) if apart else map(encode, batches)
            for rows, made in zip(batches, encoded, strict=True):
                vectors[rows] = made
                if on_batch is not None:
                    on_batch(len(rows))
        return vectors
