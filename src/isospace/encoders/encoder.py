"""The encoder: text -> vector, around a `SentenceTransformer`.

`load_encoder` (in `loading.py`) finds one; `Encoder.forward` makes the views that objectives see;
`Encoder.embed` makes the vectors that users see. Both pad token ids by `collate` and run the
model's modules in `_vectors`.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
    WeightedLayerPooling,
    WordEmbeddings,
    WordWeights,
)
from sentence_transformers.sentence_transformer.modules.tokenizer import (
    TransformersTokenizerWrapper,
    WordTokenizer,
)
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedTokenizerBase

from isospace.encoders import adapters, changes, fast
from isospace.encoders.batch import Batch
from isospace.encoders.layers import LastLayers, layers_of
from isospace.encoders.noise import Noise
from isospace.encoders.pooling import POOLINGS, PoolingName
from isospace.encoders.precision import Precision
from isospace.encoders.prompts import Prompts, Side
from isospace.encoders.routes import modules_of, router_of
from isospace.encoders.words import WordIds
from isospace.errors import UserError, first_line
from isospace.system.cores import side_by_side
from isospace.system.unicode import without_surrogates
from isospace.views import Read, View, Vocabulary, describe_views

_NO_LIMIT = 10**20
"""What tokenizers without a limit say lies above it."""

_NO_ARCHITECTURE = {
    "_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache",
}  # fmt: skip
"""Settings of a transformer that change no vector, as are those of dropout and of outputs."""
_LONG_TEXT = 1 << 14
"""Characters from which on a text may be more than is worth tokenising whole."""


class Encoder(nn.Module):
    """A sentence-transformers model with control over its noise.

    Args:
        model: any text `SentenceTransformer` whose first module is a transformer, or word vectors.
        source: where it came from (a name or path), for records and messages.
        prompts: put before the texts; default: those of the model.

    Raises:
        UserError: not a text encoder, a tokenizer that cannot pad, or a `Router` with other routes
            than those of queries and documents.
    """

    def __init__(
        self, model: SentenceTransformer, source: str, prompts: Prompts | None = None
    ) -> None:
        super().__init__()
        if not isinstance(model[0], Transformer | WordEmbeddings) or model.tokenizer is None:
            raise UserError(
                f"{source}: the first module is {type(model[0]).__name__}; isospace adapts text "
                "encoders that start with a transformer and its tokenizer"
            )
        if model.truncate_dim is not None:
            raise UserError(
                f"{source}: is set to cut vectors to {model.truncate_dim} numbers (truncate_dim), "
                "and isospace reads them whole. Take that out of its "
                "config_sentence_transformers.json, or of what made the model; whiten with `dim` "
                "makes one of shorter vectors"
            )
        if getattr(model[0], "processing_kwargs", None):
            raise UserError(
                f"{source}: its tokenizer is called with settings of its own (processing_kwargs), "
                "which isospace would not pass on. Take them out of sentence_bert_config.json; "
                "texts are cut to its max_seq_length"
            )
        for module in model:
            if isinstance(module, WordWeights):  # what it is loaded with is no weight to train
                module.requires_grad_(False)
        self.model = model
        self.source = source
        self.noise = Noise(model)
        self._last: LastLayers | None = None
        self._checkpoints = False
        own = Prompts.own(model.prompts, model.default_prompt_name)
        routed = router_of(model, source) is not None
        self.prompts = replace(own if prompts is None else prompts, routed=routed)
        if self.tokenizer.pad_token_id is None and self.tokenizer.eos_token is not None:
            # As is usual for decoders: the mask says what is padding, whichever token stands there.
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if self.tokenizer.pad_token_id is None:
            raise UserError(
                f"{source}: its tokenizer has no padding token, so sentences cannot be batched; "
                "isospace adapts text encoders, such as BERT's relatives"
            )

    def prompt_tokens(self, side: Side | None) -> int:
        """How many tokens the prompt of a side is, with the special ones that open a text."""
        ids = self.tokenizer(self.prompts.of(side))["input_ids"]
        closes = bool(ids) and ids[-1] in self.tokenizer.all_special_ids
        return len(ids) - closes

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The Hugging Face tokenizer, or what answers in its place for word vectors."""
        tokenizer: Any = self.model.tokenizer
        if isinstance(tokenizer, TransformersTokenizerWrapper):
            tokenizer = tokenizer.tokenizer
        elif isinstance(tokenizer, WordTokenizer):
            tokenizer = WordIds(tokenizer)
        return cast(PreTrainedTokenizerBase, tokenizer)

    @property
    def is_transformer(self) -> bool:
        """Whether there are layers under noise; else vectors of words are averaged."""
        return isinstance(self.model[0], Transformer)

    @functools.cached_property
    def vocabulary(self) -> Vocabulary:
        """What edits of the tokens need to know of the tokenizer.

        Kept, since it goes through all tokens that there are, and every cropped text asks for it.
        """
        tokenizer = self.tokenizer
        # Words may be unknown, or masked, at the ends of a sentence too.
        within = {tokenizer.unk_token_id, tokenizer.mask_token_id}
        return Vocabulary(
            frozenset(tokenizer.all_special_ids) - within,
            tokenizer.mask_token_id,
            # Of templates, which are put around every text.
            functools.cache(lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]),
            len(tokenizer),
            _word_beginnings(tokenizer),
        )

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return int(self.model.get_embedding_dimension() or 0)

    @property
    def token_dim(self) -> int:
        """Width of the states of tokens."""
        first: Any = self.model[0]
        return int(first.get_embedding_dimension())

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return next(self.model.parameters()).device

    @property
    def is_half(self) -> bool:
        """Whether its own weights are bfloat16."""
        return next(self.model.parameters()).dtype == torch.bfloat16

    @property
    def max_length(self) -> int | None:
        """Longest input in tokens, special ones included (`None`: no limit known)."""
        limit = self.model.max_seq_length
        return None if limit is None or limit > _NO_LIMIT else int(limit)

    @property
    def pooling(self) -> str:
        """Name in `POOLINGS`, or sentence-transformers' words for a pooling that has none there."""
        layer_pooling = next((m for m in self.model if isinstance(m, WeightedLayerPooling)), None)
        token_pooling = next((m for m in self.model if isinstance(m, Pooling)), None)
        if token_pooling is None:
            return "none"
        between = self._between
        if any(isinstance(module, WordWeights) and _of_mask(module) for module in between):
            return "mask"
        if between:
            names = (type(module).__name__ for module in between)
            return ", ".join([*names, str(token_pooling.pooling_mode)])
        if layer_pooling is None:
            return str(token_pooling.pooling_mode)
        weights = [0.0] * layer_pooling.layer_start + layer_pooling.layer_weights.tolist()
        used = tuple(i for i, w in enumerate(weights) if w)
        shares = [weights[i] for i in used]
        for name, rule in POOLINGS.items():
            layers = tuple(sorted(i % len(weights) for i in rule.layers))
            same = (used, token_pooling.pooling_mode) == (layers, rule.tokens)
            if same and len(set(shares)) == 1:
                return name
        return f"layers {used} by {shares}, {token_pooling.pooling_mode}"

    def modules_of(self, side: Side | None) -> list[nn.Module]:
        """Return the modules that a text of a side passes, in order."""
        return modules_of(self.model, side)

    def module_names(self, side: Side | None) -> list[str]:
        """Of each of these modules its type, and what beside its weights decides what it gives."""
        names = []
        for module in self.modules_of(side):
            name = type(module).__name__
            if not getattr(module, "include_prompt", True):
                name += " less prompt"
            if isinstance(module, Dense):
                config: dict[str, Any] = module.get_config_dict()  # type: ignore[no-untyped-call]
                name += f" {config}"
            names.append(name)
        return names

    @property
    def _between(self) -> list[nn.Module]:
        """The modules that change the states of tokens before they are pooled."""
        modules = list(self.model)
        end = next((i for i, m in enumerate(modules) if isinstance(m, Pooling)), 1)
        return [m for m in modules[1:end] if not isinstance(m, WeightedLayerPooling)]

    @property
    def path(self) -> str:
        """Which arithmetic runs the transformer, and why: `fast path: bert` or `general path: ...`.

        The values are the same to rounding.
        """
        reason = self._why_general_path()
        if reason is not None:
            return f"general path: {reason}"
        return f"fast path: {self._family}"

    @property
    def transformer(self) -> Any:
        """The Hugging Face model inside the first module, where `is_transformer`."""
        return self.model[0].model

    @property
    def _family(self) -> str:
        """The name that transformers has for its architecture."""
        return fast.model_type(self.transformer) if self.is_transformer else "word vectors"

    def _why_general_path(self) -> str | None:
        """Why transformers' own modules run, padding included; `None` where a fast path serves."""
        if not self.is_transformer:
            return "word vectors"
        if self.device.type != "cpu":
            return f"on {self.device.type}"
        if self.transformer.config.output_hidden_states:
            return f"every layer is read (pooling {self.pooling})"
        if adapters.has_adapters(self.transformer):
            return "its layers have adapters"
        if self.is_half:
            return "weights in half precision"
        if torch.is_grad_enabled() and self._checkpoints:
            return "gradient checkpointing runs its layers again"
        return fast.refusal(self.transformer)

    def summary(self, arithmetic: str, plan: Sequence[View] = ()) -> str:
        """What it is, in a line for people.

        Args:
            arithmetic: the type of its matrix products.
            plan: the views of a training, some of which may need the general path.
        """
        rates = ", ".join(f"{rate:g}" for rate in self.noise.rates) or "none"
        if self._last is not None:
            rates += f", {self._last.described}"
        size = sum(p.numel() for p in self.parameters()) / 1e6
        if adapters.has_adapters(self.model):
            added = sum(p.numel() for p in self.parameters() if p.requires_grad) / 1e6
            size -= added
            rates += f", trains adapters of {added:.1f} M"
        path, changing = self.path, [view for view in plan if view.changes_embeddings]
        if changing and self._why_general_path() is None:
            path += f" (general path where the embeddings change: {describe_views(changing)})"
        return (
            f"{self.source}: {size:.1f} M parameters, pooling {self.pooling}, dropout {rates}, "
            f"{self.device.type}, {arithmetic}; {path}"
        )

    @property
    def is_causal(self) -> bool:
        """Whether no token's state depends on those after it, as a decoder's do not.

        It is tried: families have many words for it.
        """
        if not self.is_transformer:
            return False
        first_states = []
        for last in (1, 2):
            ids = torch.tensor([[0, 0, last]], device=self.device)
            batch = Batch(ids, torch.ones_like(ids))
            with torch.no_grad(), self.noise.at(0.0):
                states = self.model[0](self._features(batch))["token_embeddings"]
            first_states.append(states[:, :2])
        return torch.equal(*first_states)

    def attend_both_ways(self) -> None:
        """Let every token of a decoder see those after it too.

        transformers makes the mask of its decoders so where their configuration says that they are
        not causal, which a saved folder says as well (LLM2Vec, BehnamGhader et al. 2024).

        Raises:
            UserError: it is no decoder, or one whose mask transformers leaves as it is.
        """
        if not self.is_causal:
            raise UserError(
                f"`bidirectional`: {self.source} ({self._family}) is no decoder: its tokens see "
                "those after them already; leave the setting out"
            )
        self.transformer.config.is_causal = False
        if self.is_causal:
            raise UserError(
                f"`bidirectional`: transformers has no such mask for {self.source} "
                f"({self._family}); leave the setting out"
            )

    def set_pooling(self, name: PoolingName) -> None:
        """Replace the modules that pool by those of one of `isospace.encoders.pooling.POOLINGS`.

        Raises:
            UserError: another than the mean, of word vectors; any, where the model was made to be
                read in another way, such as at the mask token of a template.
        """
        if not self.is_transformer:
            if name == self.pooling:
                return
            raise UserError(
                f"`pooling` {name}: {self.source} averages word vectors, which have neither layers "
                f"nor a first token to pool by; leave it at {self.pooling}"
            )
        if self._between:
            raise UserError(
                f"`pooling` {name}: {self.source} was trained to be read by the pooling "
                f"{self.pooling}, which is part of it; leave it as it is"
            )
        rule = POOLINGS[name]
        first: Any = self.model[0]
        # The model may be somebody's own, who reads it as before: the weights alone are shared.
        tensors = *first.parameters(), *first.buffers()
        shared = {id(part): part for part in (*tensors, first.processor)}
        first = copy.deepcopy(first, shared)
        config, dim = first.model.config, self.token_dim
        with_prompt = all(m.include_prompt for m in self.model if isinstance(m, Pooling))
        modules: list[nn.Module] = [first]
        config.output_hidden_states = len(rule.layers) > 1
        if config.output_hidden_states:
            weights = torch.zeros(config.num_hidden_layers + 1)
            weights[list(rule.layers)] = 1.0
            frozen = nn.Parameter(weights, requires_grad=False)
            modules.append(
                WeightedLayerPooling(
                    dim, config.num_hidden_layers, layer_start=0, layer_weights=frozen
                )
            )
        modules.append(Pooling(dim, rule.tokens, include_prompt=with_prompt))
        after = list(self.model)[1:]
        modules += [m for m in after if not isinstance(m, Pooling | WeightedLayerPooling)]
        self.model = self.rebuilt(modules)
        self.noise = Noise(self.model)

    def rebuilt(self, modules: Sequence[nn.Module]) -> SentenceTransformer:
        """A model of other modules that has this one's device, prompts and similarity."""
        return SentenceTransformer(
            modules=list(modules),
            device=str(self.device),
            prompts={name: text for name, text in self.model.prompts.items() if text},
            default_prompt_name=self.model.default_prompt_name,
            similarity_fn_name=self.model.similarity_fn_name,
        )

    @property
    def word_embeddings(self) -> nn.Embedding:
        """The table of the tokens' vectors."""
        table: nn.Embedding = self.transformer.get_input_embeddings()
        return table

    def _limit(
        self, max_length: int | None, whole: bool = False, side: Side | None = None
    ) -> int | None:
        """The shorter of the two limits; `None` is no limit.

        What `max_length` says is of the text: a prompt comes on top, as a template does.
        """
        if whole:
            return None
        if max_length is not None and self.prompts.of(side):
            prompt = self.tokenizer(self.prompts.of(side), add_special_tokens=False)
            max_length += len(prompt["input_ids"])
        limits = [limit for limit in (max_length, self.max_length) if limit is not None]
        limit = min(limits, default=None)
        if limit is not None and limit < self.tokens_around:  # a tokenizer would not cut at all
            raise UserError(
                f"`max_length` {limit}: {self.source} puts {self.tokens_around} tokens around "
                "every text; expected more than these"
            )
        return limit

    @property
    def tokens_around(self) -> int:
        """How many tokens the tokenizer puts around a text: special ones, those of a template."""
        return int(self.tokenizer.num_special_tokens_to_add())

    @property
    def architecture(self) -> dict[str, Any]:
        """Settings of the transformer that decide, beside the weights, what it makes of tokens.

        Empty of word vectors.
        """
        if not self.is_transformer:
            return {}
        settings: dict[str, Any] = self.transformer.config.to_dict()
        return {
            name: settings[name]
            for name in sorted(settings)
            if name not in _NO_ARCHITECTURE and not name.startswith("output_")
            if "dropout" not in name
        }

    def fingerprint(
        self, max_length: int | None, whole: bool = False, side: Side | None = None
    ) -> str:
        """Names what `token_ids` does: same fingerprint, same ids."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            name, vocabulary = type(self.tokenizer).__name__, self.tokenizer.get_vocab()
            tokenizer = json.dumps({"class": name, "vocab": vocabulary}, sort_keys=True)
        else:
            tokenizer = _without_calls(backend.to_str())
        limit = self._limit(max_length, whole, side)
        # Word vectors' tokenizers name no side, and keep the beginning.
        kept = getattr(self.tokenizer, "truncation_side", "right")
        about = json.dumps([self.prompts.of(side), limit, kept])
        return hashlib.sha256(f"[{tokenizer}, {about}]".encode()).hexdigest()

    def token_ids(
        self,
        texts: Sequence[str],
        max_length: int | None = None,
        whole: bool = False,
        side: Side | None = None,
    ) -> list[list[int]]:
        """Token ids with special tokens, truncated to `max_length` (default: the encoder's own).

        `whole` texts are not truncated at all, and may be longer than what the encoder can read.
        Each begins with the prompt of its `side`.
        """
        limit = self._limit(max_length, whole, side)
        prompt = self.prompts.of(side)
        prompted = [without_surrogates(prompt + text) for text in texts]
        return self._tokenise([self._beginning(text, limit) for text in prompted], limit)

    def cut(self, ids: np.ndarray, max_length: int, side: Side | None = None) -> np.ndarray:
        """(token,) ids of a text as `token_ids` gives them where it truncates to `max_length`."""
        limit = self._limit(max_length, side=side)
        if limit is None or len(ids) <= limit:
            return ids
        inner = self.vocabulary.inner(ids)
        room = limit - (len(ids) - (inner.stop - inner.start))
        kept = slice(inner.start, inner.start + room)
        if self.tokenizer.truncation_side != "right":
            kept = slice(inner.stop - room, inner.stop)
        return np.concatenate([ids[: inner.start], ids[kept], ids[inner.stop :]])

    def _beginning(self, text: str, limit: int | None) -> str:
        """So much of a long text as is read at all, since a tokenizer takes a text whole.

        A beginning is enough where one of half its length fills the limit with the same tokens:
        what a cut does to a word at its end is then far from what is read.
        """
        if limit is None or self.tokenizer.truncation_side != "right":
            return text
        size = max(_LONG_TEXT, 32 * limit)
        ids_of_half: list[int] = []
        while size < len(text):
            [ids] = self._tokenise([text[:size]], limit)
            if len(ids) == limit and ids == ids_of_half:
                return text[:size]
            ids_of_half, size = ids, 2 * size
        return text

    def _tokenise(self, texts: list[str], limit: int | None) -> list[list[int]]:
        encoded = self.tokenizer(
            texts,
            truncation=limit is not None,
            max_length=limit,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # that the encoder could not read so many is known
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def collate(
        self,
        ids: Sequence[Sequence[int] | np.ndarray],
        texts: int = 1,
        sides: Sequence[Side | None] = (None,),
    ) -> Batch:
        """Pad token ids to the longest text among them.

        Where examples have several `texts`, the ids come in the order of `Batch`, and there is a
        side for each of them.
        """
        longest = max(1, *(len(row) for row in ids))  # no word of a text may be known
        padded = np.full((len(ids), longest), self.tokenizer.pad_token_id, dtype=np.int64)
        mask = np.zeros((len(ids), longest), dtype=np.int64)
        for i, row in enumerate(ids):
            padded[i, : len(row)] = row
            mask[i, : len(row)] = 1
        prompts = {
            text: self.prompt_tokens(side)
            for text, side in enumerate(sides)
            if self.prompts.of(side)
        }
        return Batch(torch.from_numpy(padded), torch.from_numpy(mask), texts, prompts=prompts)

    def _vectors(
        self, batch: Batch, *, normalised: bool, read: Read = "pooled", side: Side | None = None
    ) -> Tensor:
        """Vectors of a batch of single texts, under the noise in force.

        Args:
            batch: on the encoder's device.
            normalised: with the L2 normalisation that closes the model, if it has one.
            read: what of the states.
            side: whose modules the texts pass.

        Returns:
            (batch, dim); of all tokens (batch, length, dim), zero at the padding.
        """
        ids, mask = batch.input_ids, batch.attention_mask
        features = self._features(batch)
        modules = self.modules_of(side)
        while not normalised and isinstance(modules[-1], Normalize):
            modules.pop()
        changed = batch.changed.get(0)
        if changed is None and self._why_general_path() is None:
            pooling = modules[1]
            first_only = (
                read == "pooled"
                and isinstance(pooling, Pooling)
                and pooling.pooling_mode == "cls"
                and pooling.include_prompt
                and bool(mask[:, 0].all())  # a text may be without a token
            )
            layers = slice(None)
            if self._last is not None and batch.states is not None:
                layers = self._last.last
            features["token_embeddings"] = fast.forward(
                self.transformer, ids, mask, first_only, layers, batch.states
            )
            if first_only:
                features["attention_mask"] = mask[:, :1]
            del modules[0]
        else:
            with self._replacing(batch):
                features = modules.pop(0)(features)
        if read != "pooled":
            return self._of_tokens(features["token_embeddings"], batch, read)
        for module in modules:
            features = module(features)
        vectors: Tensor = features["sentence_embedding"]
        return vectors

    def _features(self, batch: Batch) -> dict[str, Any]:
        """A batch of single texts, as the model's modules take it."""
        features: dict[str, Any] = {
            "input_ids": batch.input_ids,
            "attention_mask": batch.attention_mask,
        }
        if batch.prompts:
            features["prompt_length"] = batch.prompts[0]
        if "token_type_ids" in self.tokenizer.model_input_names:
            features["token_type_ids"] = torch.zeros_like(batch.input_ids)
        return features

    def _replacing(self, batch: Batch) -> AbstractContextManager[None]:
        """Run transformers' own modules with what a batch has in place of what they make."""
        if self._last is not None and batch.states is not None:
            return self._last.given(batch.states)
        if 0 in batch.changed:
            return changes.changed(self.transformer, batch.changed[0])
        return nullcontext()

    def train_last(self, count: int) -> None:
        """Freeze what comes before the last `count` layers.

        `forward` then runs it once for each text of a batch, clean and without a gradient, and
        every view of the text goes on from there under its own noise.

        Raises:
            UserError: there are fewer layers, or they cannot be run on their own.
        """
        said = f"`trained_layers` {count}: "
        layers = layers_of(self.transformer)
        if layers and count > len(layers):
            raise UserError(
                f"{said}{self.source} has {len(layers)} layers; expected at most so many"
            )
        if self.transformer.config.output_hidden_states:
            raise UserError(
                f"{said}the pooling {self.pooling} of {self.source} reads lower layers too; take "
                "another `pooling`, or leave the setting out"
            )
        self._last = LastLayers(layers, count) if layers else None
        if self._last is None or not self._same_apart():
            raise UserError(
                f"{said}the last layers of {self.source} ({self._family}) cannot be run apart from "
                "those below; leave the setting out"
            )
        batch = self._two_texts()
        with self.noise.at(0.0):
            reached = self._states_below(batch).sum()
        trained = [p for p in self.parameters() if p.requires_grad]
        gradients = torch.autograd.grad(reached, trained, allow_unused=True)
        for parameter, gradient in zip(trained, gradients, strict=True):
            if gradient is not None:
                parameter.requires_grad_(False)

    def train_adapters(self, rank: int, seed: int) -> None:
        """Freeze everything, and train adapters of this rank beside all linear layers.

        Raises:
            UserError: it has none.
        """
        self.requires_grad_(False)
        try:
            adapters.insert(self.transformer, rank, seed)
        except ValueError as error:
            raise UserError(
                f"`lora` {rank}: {self.source} ({self._family}) has no linear layers that adapters "
                f"could stand beside ({first_line(error)}); leave the setting out"
            ) from error

    def checkpoint_layers(self) -> None:
        """Keep no more than what goes into each layer for the backward pass, which runs it again.

        Views without dropout keep everything: transformers runs no layer again in evaluation mode.

        Raises:
            UserError: the family cannot do this.
        """
        model = self.transformer
        newer = "activation_checkpointing_enable"  # its name in later versions of transformers 5
        try:
            getattr(model, newer, model.gradient_checkpointing_enable)()
        except ValueError as error:
            raise UserError(
                f"`gradient_checkpointing`: transformers cannot run the layers of {self.source} "
                f"({self._family}) again; leave the setting out, or give `pass_tokens`"
            ) from error
        self._checkpoints = True

    def _same_apart(self) -> bool:
        """Whether clean vectors are the same by way of the states below the last layers."""
        batch = self._two_texts()
        with torch.no_grad(), self.noise.at(0.0):
            whole = self._vectors(batch, normalised=False)
            try:
                states = self._states_below(batch)
            except ValueError:
                return False
            if states.shape[:2] != batch.input_ids.shape:
                return False
            return torch.equal(
                whole, self._vectors(replace(batch, states=states), normalised=False)
            )

    def _two_texts(self) -> Batch:
        """A batch to try things with."""
        ids = self.token_ids(["one text", "and another that is longer"])
        return self.collate(ids).to(self.device)

    def _states_below(self, batch: Batch) -> Tensor:
        """What the last layers get of a batch of single texts, under the noise in force.

        Raises:
            ValueError: a pass does not come to them.
        """
        assert self._last is not None
        if self._why_general_path() is None:
            ids, mask = batch.input_ids, batch.attention_mask
            return fast.forward(self.transformer, ids, mask, False, self._last.below)
        return self._last.states_below(lambda: self.model[0](self._features(batch)))

    def _with_states(self, batch: Batch) -> Batch:
        """A batch with what the frozen layers make of each of its texts."""
        length, each = batch.input_ids.shape[1], Batch(batch.input_ids, batch.attention_mask)
        parts, made = each.by_length(), []
        with torch.no_grad(), self.noise.at(0.0):
            for rows in parts:
                states = self._states_below(each.rows(rows).without_idle_padding())
                made.append(functional.pad(states, (0, 0, 0, length - states.shape[1])))
        return replace(batch, states=torch.cat(made)[torch.cat(parts).argsort()])

    def _of_tokens(self, states: Tensor, batch: Batch, read: Read) -> Tensor:
        """All states, zero at the padding, or those at the mask token."""
        if read == "tokens":
            return states * batch.attention_mask.unsqueeze(-1)
        here = (batch.input_ids == self.tokenizer.mask_token_id).float().argmax(1)
        return states[torch.arange(len(states), device=states.device), here]

    def forward(
        self, batch: Batch, plan: Sequence[View], texts: Sequence[int] | None = None
    ) -> list[Tensor]:
        """Encode a batch once per view, in one pass for all that are made and read alike.

        A closing L2 normalisation is left out, as in the papers: heads and whitening see the pooled
        vector itself. Losses built on cosines do not notice.

        Args:
            batch: token ids on the encoder's device.
            plan: the views; their edits were made before.
            texts: which text of the batch each view encodes; default: `View.text`.

        Returns:
            (batch, dim) of each view in the order of the plan, or (batch, length, dim) where all
            tokens are read.
        """
        texts = [view.text for view in plan] if texts is None else texts
        if self._last is not None:
            batch = self._with_states(batch)
        views: dict[int, Tensor] = {}
        passes = [
            (view.dropout, view.read, text in batch.changed, self._left_out(batch, text))
            for view, text in zip(plan, texts, strict=True)
        ]
        for alike in dict.fromkeys(passes):
            places = [i for i, one in enumerate(passes) if one == alike]
            rate, read, *_ = alike
            with self.noise.at(rate):
                stacked = batch.stack([texts[i] for i in places])
                if read == "tokens":
                    vectors = self._vectors(stacked, normalised=False, read=read)
                else:
                    vectors = self._vectors_by_length(stacked.without_idle_padding(), read)
            views.update(zip(places, vectors.chunk(len(places)), strict=True))
        return [views[i] for i in range(len(plan))]

    def _vectors_by_length(self, batch: Batch, read: Read) -> Tensor:
        """`_vectors` for training: short texts do not wait for the attention of long ones."""
        parts = [] if batch.changed else batch.by_length()
        if len(parts) < 2:
            return self._vectors(batch, normalised=False, read=read)
        alone = [batch.rows(rows).without_idle_padding() for rows in parts]
        made = [self._vectors(part, normalised=False, read=read) for part in alone]
        return torch.cat(made)[torch.cat(parts).argsort()]

    def _left_out(self, batch: Batch, text: int) -> int:
        """Tokens at the beginning of a text of the batch that its pooling leaves out."""
        whole = all(module.include_prompt for module in self.model if isinstance(module, Pooling))
        return 0 if whole else batch.prompts.get(text, 0)

    @property
    def attentions(self) -> list[nn.Module]:
        """The module of each layer that ends with the states after its self-attention.

        Raises:
            ValueError: the layers are not built like BERT's.
        """
        layers = getattr(getattr(self.transformer, "encoder", None), "layer", [])
        found = [layer.attention for layer in layers if hasattr(layer, "attention")]
        built = found and all(hasattr(module, "self") for module in found)
        if not built or self._family.startswith("deberta"):  # which also looks at distances
            raise ValueError(
                f"the layers of {self._family} are not built like BERT's, "
                "so nothing can be put between their attention and the rest"
            )
        return found

    def language_model(self, name: str | None = None) -> nn.Module:
        """A masked-language model of this encoder's vocabulary, (ids, mask) to logits.

        Args:
            name: a folder or Hub name; default: the checkpoint that this encoder came from.

        Raises:
            ValueError: it has no trained head for masked words, or another vocabulary.
        """
        from isospace.encoders import language

        return language.masked_language_model(self, name)

    def token_states(
        self,
        ids: Tensor,
        mask: Tensor,
        dropout: float | None = None,
        *,
        embedded: Callable[[Tensor], Tensor] | None = None,
        attended: Sequence[Callable[[Tensor], Tensor]] = (),
    ) -> Tensor:
        """States of all tokens, by transformers' own modules, with something put in between.

        Args:
            ids: (n, length).
            mask: (n, length), 1 for tokens; or (n, length, length), which tokens each one sees.
            dropout: the rate; `None` is the encoder's own.
            embedded: makes of the embeddings (n, length, width), after their norm and dropout, what
                the first layer gets.
            attended: one for each of `attentions`, whose states (n, length, dim) it gets.

        Returns:
            (n, length, dim), not zero at the padding.

        Raises:
            ValueError: the transformer has no such place.
        """
        transformer = self.transformer
        places = [*zip(self.attentions if attended else [], attended, strict=True)]
        if embedded is not None:
            if not isinstance(getattr(transformer, "embeddings", None), nn.Module):
                raise ValueError(
                    f"the embeddings of {self._family} are no module that can be stepped into"
                )
            places.append((transformer.embeddings, embedded))
        if mask.dim() == 3:
            seen = mask.bool().unsqueeze(1)
            mask = torch.zeros_like(seen, dtype=self.word_embeddings.weight.dtype)
            mask = mask.masked_fill(~seen, torch.finfo(mask.dtype).min)
        features = self._features(Batch(ids, mask))
        with self.noise.at(dropout), _after(places):
            states: Tensor = transformer(**features).last_hidden_state
        return states

    def embed(
        self,
        texts: Sequence[str],
        view: View = View(dropout=0.0),  # noqa: B008 - frozen
        max_length: int | None = None,
        batch_tokens: int = 2048,
        batch_size: int | None = None,
        on_batch: Callable[[int], None] | None = None,
        precision: Precision = "float32",
        one_thread: bool = False,
        side: Side | None = None,
    ) -> np.ndarray:
        """Vectors of texts, float32, in the order of the texts.

        Sentences are sorted by token length and batched to a number of tokens; none of this changes
        a clean vector beyond rounding (1e-6).

        Args:
            texts: n strings.
            view: the noise; clean unless asked otherwise.
            max_length: truncation in tokens; default: the encoder's own limit.
            batch_tokens: padded tokens in a batch, at most, where a batch has several texts.
            batch_size: texts in a batch, at most; default: as many as `batch_tokens` allows.
            on_batch: called with the number of sentences done after each batch.
            precision: bf16 computes the matrix products in bfloat16, which is faster where the
                processor has it and moves a vector by a cosine of about 1e-4.
            one_thread: a batch has one thread, so that the number of threads changes no bit.
            side: whose prompt is put before every text, and whose modules it passes; default: those
                of texts without a side.

        Returns:
            (n, dim) float32.
        """
        ids = self.token_ids(texts, max_length, side=side) if len(texts) else []
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]), reverse=True)
        batches: list[list[int]] = []
        while order:
            longest = max(1, len(ids[order[0]]))
            size = max(1, min(batch_tokens // longest, batch_size or len(order)))
            batches.append(order[:size])
            del order[:size]

        def encode(rows: list[int]) -> np.ndarray:
            bf16 = torch.autocast(self.device.type, torch.bfloat16, enabled=precision == "bf16")
            with torch.inference_mode(), bf16:
                batch = self.collate([ids[i] for i in rows], sides=(side,)).to(self.device)
                vectors = self._vectors(batch, normalised=True, side=side)
                encoded: np.ndarray = vectors.float().cpu().numpy()
                return encoded

        vectors = np.empty((len(ids), self.dim), dtype=np.float32)
        # Noise is drawn in the order of the batches; side by side there is no order.
        parallel = self.device.type == "cpu" and view.dropout == 0.0
        with self.noise.at(view.dropout):
            results = (
                side_by_side(encode, batches, one_thread) if parallel else map(encode, batches)
            )
            for rows, encoded in zip(batches, results, strict=True):
                vectors[rows] = encoded
                if on_batch is not None:
                    on_batch(len(rows))
        return vectors


@functools.lru_cache(maxsize=4)
def _without_calls(tokenizer: str) -> str:
    """The JSON of a tokenizer less what calls leave behind, which is no part of it."""
    content = json.loads(tokenizer) | {"truncation": None, "padding": None}
    return json.dumps(content, sort_keys=True)


@contextmanager
def _after(places: Sequence[tuple[nn.Module, Callable[[Tensor], Tensor]]]) -> Iterator[None]:
    """Replace what modules give, or the first of several, by what the functions make of it."""

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


def _of_mask(module: WordWeights) -> bool:
    """Whether all tokens but one kind weigh nothing."""
    return len(module.word_weights) == 1 and module.unknown_word_weight == 0


def _word_beginnings(tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """(id,) whether a token begins a word, by the marks that tokenizers use: ##, Ġ, ▁."""
    tokens = [str(t) for t in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
    for mark in ("Ġ", "▁"):
        if sum(token.startswith(mark) for token in tokens) > len(tokens) // 10:
            return np.array([token.startswith(mark) for token in tokens])
    return np.array([not token.startswith("##") for token in tokens])
