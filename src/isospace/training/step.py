"""One update: batch -> views -> gather -> head -> losses -> backward -> optimiser.

`build.py` makes the `Training` that an update reads and changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from isospace.encoders.tokenisation import Batch
from isospace.objectives.auxiliaries import Network
from isospace.objectives.base import Objective
from isospace.operators.similarity import upcast
from isospace.system.lifecycle import random_state, restored_random_state
from isospace.training.build import Training
from isospace.views import TokenIds, TokenStates, Views

CLIP_NORM = 1.0
"""Largest norm of a gradient; larger ones are scaled down."""
EXPLODED = 100.0
"""A term this many times larger than in the first steps (and than 1) has exploded."""


class Diverged(Exception):
    """Training has diverged: a term or the gradient is not finite, or has exploded."""

    def __init__(self, step: int, term: str, value: float) -> None:
        super().__init__(f"step {step}: {term} is {value:g}")
        self.step, self.term, self.value = step, term, value


def update(
    training: Training, number: int, learning_rate: float, first_terms: dict[str, float]
) -> tuple[dict[str, float], float]:
    """Do the update `number`, from 0 on; return the terms and the gradient norm before clipping.

    `first_terms`, the largest absolute value of each term in the first ten updates, is updated.

    Raises:
        Diverged: a term or the gradient has diverged; nothing is updated.
    """
    terms, ways = backward(training, number)
    _check_terms(number, terms, first_terms)
    norm = float(nn.utils.clip_grad_norm_(training.parameters, CLIP_NORM))
    if not math.isfinite(norm):
        raise Diverged(number + 1, "gradient norm", norm)
    for group in training.optimizer.param_groups:
        group["lr"] = learning_rate
    training.optimizer.step()
    training.optimizer.zero_grad(set_to_none=True)
    if training.observers:
        seen = _without_gradient(ways)
        for observer in training.observers:
            observer.after_update(training.encoder, seen)
    return terms, norm


def backward(training: Training, number: int) -> tuple[dict[str, float], list[Views]]:
    """Compute the gradient of an update: the mean over its micro-batches and processes.

    Return the terms of the loss, and the views of the last micro-batch in each direction.
    """
    parts, accelerator = training.config.accumulate, training.accelerator
    total: dict[str, float] = {}
    for part in range(parts):
        batch = training.batches.batch(number * parts + part)
        ways = make_views(training, batch, encode(training, batch))
        terms = loss_terms(training.config.objective, ways)
        accelerator.backward(torch.stack(list(terms.values())).sum() / parts)
        for name, term in terms.items():
            total[name] = total.get(name, 0.0) + float(term.detach()) / parts
    if accelerator.num_processes > 1:
        for parameter in training.parameters:
            if parameter.grad is not None:
                parameter.grad = accelerator.reduce(parameter.grad, "mean")
    return total, ways


def encode(training: Training, batch: Batch) -> list[Tensor]:
    """Encode this process's batch: a tensor (batch, dim) for each view of the plan.

    With `pass_tokens`, parts of the batch keep no activations; the backward pass encodes each part
    again with the same noise (gradient caching, Gao et al. 2021, arXiv 2101.06983).
    """
    if (most := training.config.pass_tokens) is None:
        return _encode(training, batch)

    def encode_part(rows: Tensor) -> list[Tensor]:
        return _encode(training, batch.rows(rows))

    # `_both_passes` keeps the random state of every kind of device; torch would keep CUDA's.
    twice = partial(
        checkpoint, use_reentrant=False, context_fn=_both_passes, preserve_rng_state=False
    )
    parts = batch.parts(most * batch.sources // len(training.plan.views))
    encoded = [twice(encode_part, rows) for rows in parts]
    order = torch.cat(parts).argsort()
    return [torch.cat(of_view)[order] for of_view in zip(*encoded, strict=True)]


def _both_passes() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return contexts of the first and second pass of a part, which draw the same noise."""
    return nullcontext(), restored_random_state(random_state())


def _encode(training: Training, batch: Batch) -> list[Tensor]:
    """Encode a batch, each view by the network that it names."""
    plan, of_view = training.plan.views, training.batches.sources.of_view
    made: dict[int, Tensor] = {}
    for by in dict.fromkeys(view.by for view in plan):
        places = [i for i, view in enumerate(plan) if view.by == by]
        views, sources = [plan[i] for i in places], [of_view[i] for i in places]
        if by == "encoder":  # Accelerate sets its precision and returns float32
            vectors = training.encoder(batch, views, sources)
        else:
            network = training.auxiliaries[by]
            assert isinstance(network, Network)
            trained = network.trained and torch.is_grad_enabled()
            with torch.set_grad_enabled(trained), training.accelerator.autocast():
                vectors = network.encoder(batch, views, sources)
        made |= zip(places, map(upcast, vectors), strict=True)
    return [made[i] for i in range(len(plan))]


def make_views(training: Training, batch: Batch, vectors: Sequence[Tensor]) -> list[Views]:
    """Gather the vectors (view, batch, dim) of all processes, project them, and build the views.

    For pairs the result has two directions.
    """
    plan, of_view, made = training.plan, training.batches.sources.of_view, list(vectors)
    tokens = {}
    for place in [i for i, view in enumerate(plan.views) if view.read == "tokens"]:
        states, mask = made[place], batch.stack([of_view[place]]).attention_mask
        made[place] = states.sum(1) / mask.sum(1, keepdim=True)
        tokens[place] = TokenStates(*(gather_tokens(training, x) for x in (states, mask)))
    encoded = gather(torch.stack(made))
    inputs = [_input(training, batch, source) for source in of_view[len(plan.views) :]]
    count = len(training.config.objective.inputs)
    labels = None if batch.labels is None else gather(batch.labels[None])[0]
    teacher = None if batch.teacher is None else gather(batch.teacher[None])[0]
    found = []
    for number, way in enumerate(plan.ways):
        own, mined = encoded[list(way)], () if number else plan.candidates
        # In one call, because the head may whiten over all of them.
        projected = training.head(torch.cat([own, encoded[list(mined)]]) if mined else own)
        if number and teacher is not None:  # scores of the opposite direction
            teacher = teacher[:, : len(teacher)].T
        found.append(
            Views(
                encoded=own,
                projected=projected[: len(own)] if mined else projected,
                tokens=tokens,
                auxiliaries=training.auxiliaries,
                inputs=tuple(inputs[number * count : (number + 1) * count]),
                labels=labels,
                candidates=projected[len(own) :] if mined else None,
                teacher=teacher,
                paired=len(plan.ways) > 1,
            )
        )
    return found


def loss_terms(objective: Objective, ways: Sequence[Views]) -> dict[str, Tensor]:
    """Return the terms of the loss, each the mean over the directions of the plan."""
    terms = [objective(views) for views in ways]
    return {name: torch.stack([own[name] for own in terms]).mean() for name in terms[0]}


def gather(local: Tensor) -> Tensor:
    """Gather views (view, batch, dim) of all processes, with gradients for the own rows.

    Every process computes the same loss. Gradients are summed here and averaged in `backward`, so
    that W processes with B / W sentences each equal one process with B sentences.
    """
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        return _Gather.apply(local)  # type: ignore[no-untyped-call]
    return local


class _Gather(torch.autograd.Function):
    """Concatenation of all processes' rows; its gradient is summed and cut to the own rows."""

    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        ctx.rows = local.shape[1]
        parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, local.contiguous())
        return torch.cat(parts, dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].contiguous()
        dist.all_reduce(total)
        start = dist.get_rank() * ctx.rows
        return total[:, start : start + ctx.rows]


def gather_tokens(training: Training, tokens: Tensor) -> Tensor:
    """Gather token tensors (batch, length, ...) of all processes, padded with zeros."""
    return gather(training.accelerator.pad_across_processes(tokens, dim=1)[None])[0]


def _input(training: Training, batch: Batch, source: int) -> TokenIds:
    own = batch.stack([source])
    return TokenIds(
        gather_tokens(training, own.input_ids), gather_tokens(training, own.attention_mask)
    )


def _without_gradient(ways: Sequence[Views]) -> Views:
    """Return detached views for the auxiliaries; rows of both directions of pairs alternate."""
    views = ways[0]
    tokens = {i: replace(read, states=read.states.detach()) for i, read in views.tokens.items()}
    encoded, projected = (
        torch.stack([getattr(way, name).detach() for way in ways], dim=2).flatten(1, 2)
        for name in ("encoded", "projected")
    )
    return replace(views, encoded=encoded, projected=projected, tokens=tokens)


def _check_terms(number: int, terms: Mapping[str, float], first_terms: dict[str, float]) -> None:
    """Refuse terms that have diverged, and keep `first_terms` up to date."""
    for name, value in terms.items():
        usual = max(1.0, first_terms.get(name, abs(value)))
        if not math.isfinite(value) or abs(value) > EXPLODED * usual:
            raise Diverged(number + 1, name, value)
        if number < 10:
            first_terms[name] = max(first_terms.get(name, 0.0), abs(value))
