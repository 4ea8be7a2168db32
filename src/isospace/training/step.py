"""One update: batch -> views -> gather -> head -> losses -> backward -> optimiser.

`build.py` makes the `Training` that an update reads and changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import Tensor, nn

from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.tokenisation import Batch
from isospace.objectives.auxiliaries import Auxiliary, Network
from isospace.operators.similarity import upcast
from isospace.training.batches import Batches
from isospace.training.checkpoint import random_state, set_random_state
from isospace.training.plan import PassPlan, Sources
from isospace.views import TokenIds, TokenStates, Views

CLIP_NORM = 1.0
"""Largest norm of a gradient; larger ones are scaled down."""

Check = Callable[[Mapping[str, float]], None]


def update(
    training: Training, number: int, learning_rate: float, check: Check
) -> tuple[dict[str, float], float]:
    """Do one update; return the terms of the loss, and the gradient norm before clipping.

    If they are not finite, nothing is updated (`Diverged`).
    """
    found = backward(training, number)
    check(found.terms)
    norm = float(nn.utils.clip_grad_norm_(training.parameters, CLIP_NORM))
    if not math.isfinite(norm):
        raise Diverged(number + 1, "gradient norm", norm)
    for group in training.optimizer.param_groups:
        group["lr"] = learning_rate
    training.optimizer.step()
    training.optimizer.zero_grad(set_to_none=True)
    if found.seen is not None:
        for one in training.observers:
            one.after_update(training.encoder, found.seen)
    return found.terms, norm


def backward(training: Training, number: int) -> Gradient:
    """Compute the gradient of an update: the mean over its micro-batches and processes."""
    parts, accelerator = training.config.accumulate, training.accelerator
    terms: dict[str, float] = {}
    for part in range(parts):
        found = _backward_of(training, training.batches.batch(number * parts + part))
        for name, value in found.terms.items():
            terms[name] = terms.get(name, 0.0) + value / parts
    if accelerator.num_processes > 1:
        for parameter in training.parameters:
            if parameter.grad is not None:
                parameter.grad = accelerator.reduce(parameter.grad, "mean")
    return replace(found, terms=terms)


def _backward_of(training: Training, batch: Batch) -> Gradient:
    """Add the gradient of one micro-batch to the parameters."""

    def of_vectors(vectors: Iterable[Tensor]) -> Gradient:
        views = make_views(training, batch, vectors)
        seen = _without_gradient(views) if training.observers else None
        terms = loss_terms(training, views)
        loss = torch.stack(list(terms.values())).sum()
        training.accelerator.backward(loss / training.config.accumulate)
        return Gradient({name: float(x.detach()) for name, x in terms.items()}, seen)

    def vectors_of(rows: Tensor) -> Tensor:
        return torch.stack(encode(training, batch.rows(rows)))

    if (most := training.config.pass_tokens) is None:
        return of_vectors(encode(training, batch))
    parts = batch.parts(most * batch.sources // len(training.plan.views))
    return _backward_by_parts(parts, vectors_of, of_vectors)


def _backward_by_parts(
    parts: Sequence[Tensor],
    encode: Callable[[Tensor], Tensor],
    backward: Callable[[Tensor], Gradient],
) -> Gradient:
    """Add the gradient of a large batch to the encoder's parameters, with little memory.

    The batch is encoded without gradients, and the loss gives the gradient of its vectors. Then
    each part is encoded again with the same noise, and its gradient is passed on to the encoder.
    Source: Gao et al. 2021, https://arxiv.org/abs/2101.06983.

    `parts` are (example,) positions, `encode` returns their vectors (view, example, dim), and
    `backward` computes the loss of all vectors and its backward pass.
    """
    states, found = [], []
    for rows in parts:
        states.append(random_state())
        with torch.no_grad():
            found.append(encode(rows))
    after = random_state()
    vectors = torch.cat(found, dim=1)[:, torch.cat(list(parts)).argsort()].requires_grad_()
    result = backward(vectors)
    assert vectors.grad is not None
    for rows, state in zip(parts, states, strict=True):
        set_random_state(state)
        torch.autograd.backward(encode(rows), vectors.grad[:, rows])
    set_random_state(after)
    return result


def encode(training: Training, batch: Batch) -> list[Tensor]:
    """Encode this process's batch: (view, batch, dim), each view by the network that it names."""
    plan, of_view = training.plan.views, training.sources.of_view
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


def make_views(training: Training, batch: Batch, vectors: Iterable[Tensor]) -> list[Views]:
    """Gather the vectors of all processes, project them, and build the objective's views.

    Vectors are (view, batch, dim), as `encode` returns them. For pairs the result has two
    directions.
    """
    plan, of_view, made = training.plan, training.sources.of_view, list(vectors)
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


def loss_terms(training: Training, ways: Sequence[Views]) -> dict[str, Tensor]:
    """Return the terms of the loss, each the mean over the directions of the plan."""
    terms = [training.config.objective(views) for views in ways]
    return {name: torch.stack([own[name] for own in terms]).mean() for name in terms[0]}


def gather(local: Tensor) -> Tensor:
    """Gather views (view, batch, dim) of all processes, with gradients for the own rows.

    Every process then computes the same loss. The backward pass sums the gradients of all
    processes, and `backward` takes their mean. So W processes with B / W sentences each equal one
    process with B sentences.
    """
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        gathered: Tensor = _Gather.apply(local)  # type: ignore[no-untyped-call]
        return gathered
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


@dataclass(frozen=True)
class Training:
    """Everything that an update reads and changes.

    Attributes:
        encoder: the encoder; trained in place.
        shipped: the encoder as it is measured and saved, sharing its weights.
        modules: the head, and the auxiliary networks and memories by name.
        frozen: setting -> name in `modules` of the module that it made and that never changes.
        digests: setting -> hash of that module, or of the teacher.
    """

    config: TrainConfig
    encoder: Encoder
    shipped: Encoder
    plan: PassPlan
    sources: Sources
    batches: Batches
    modules: nn.ModuleDict
    optimizer: torch.optim.Optimizer
    parameters: Sequence[nn.Parameter]
    frozen: Mapping[str, str]
    digests: Mapping[str, str]
    accelerator: Accelerator

    @property
    def head(self) -> nn.Module:
        """The projection head."""
        return self.modules["head"]

    @property
    def auxiliaries(self) -> dict[str, nn.Module]:
        """The auxiliary networks and memories by name, without the head."""
        parts: Any = self.modules.items()
        return {name: part for name, part in parts if name != "head"}

    @property
    def observers(self) -> list[Auxiliary]:
        """The modules to call after each update: the auxiliaries, and a head that is one."""
        return [part for part in self.modules.children() if isinstance(part, Auxiliary)]


@dataclass(frozen=True)
class Gradient:
    """The results of a backward pass besides the gradients of the parameters."""

    terms: dict[str, float]
    seen: Views | None = None


EXPLODED = 100.0
"""A term this many times larger than in the first steps (and than 1) has exploded."""


class Diverged(Exception):
    """Training has diverged: a term or the gradient is not finite, or has exploded."""

    def __init__(self, step: int, term: str, value: float) -> None:
        super().__init__(f"step {step}: {term} is {value:g}")
        self.step, self.term, self.value = step, term, value


def check_terms(
    step: int, terms: Mapping[str, float], first_terms: Mapping[str, float]
) -> dict[str, float]:
    """Refuse diverged terms; return the largest absolute value of each in the first ten updates.

    `first_terms` is the result for the previous update.
    """
    found = dict(first_terms)
    for name, value in terms.items():
        usual = max(1.0, first_terms.get(name, abs(value)))
        if not math.isfinite(value) or abs(value) > EXPLODED * usual:
            raise Diverged(step + 1, name, value)
        if step < 10:
            found[name] = max(found.get(name, 0.0), abs(value))
    return found
