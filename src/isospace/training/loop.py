"""The steps: examples -> views -> gather -> head -> objective -> update. One process or many."""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import Tensor, nn

from isospace.config import TrainConfig, objective_name
from isospace.corpus.tokens import Tokens
from isospace.encoders import adapters
from isospace.encoders.batch import Batch
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import state_hash
from isospace.encoders.prompts import side_of
from isospace.errors import UserError
from isospace.objectives.auxiliaries import Auxiliary, find_auxiliary
from isospace.objectives.networks import LastGradient, Network
from isospace.operators.similarity import upcast
from isospace.training import checkpoint
from isospace.training.examples import Examples, Order, crop
from isospace.training.lists import Lists
from isospace.training.parts import parts_of
from isospace.views import TokenIds, TokenStates, View, Views

_TRIED = 4
"""Examples by which it is seen what a loss reaches, and whether views differ."""
_TIMED = 4
"""Updates by which it is estimated how many there is time for; the first warms up."""
EXPLODED = 100.0
"""A term this many times larger than in the first steps (and than 1) has exploded."""


class Diverged(Exception):
    """Training has left the numbers: a term or the gradient is not finite, or has exploded."""

    def __init__(self, step: int, term: str, value: float) -> None:
        super().__init__(f"step {step}: {term} is {value:g}")
        self.step, self.term, self.value = step, term, value


@dataclass(frozen=True)
class Step:
    """What one update did.

    Attributes:
        step: 1 for the first update.
        sentences: seen so far, over all processes.
        terms: the objective's named terms; the loss is their sum.
        learning_rate: used in this update.
        gradient_norm: before clipping.
        seconds: wall clock of this update.
    """

    step: int
    sentences: int
    terms: dict[str, float]
    learning_rate: float
    gradient_norm: float
    seconds: float

    @property
    def loss(self) -> float:
        """The sum of the terms."""
        return sum(self.terms.values())


class _Gather(torch.autograd.Function):
    """Concatenate every process's rows; the backward hands each its rows of the summed gradient."""

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


def gather(local: Tensor) -> Tensor:
    """The global batch of views, (view, batch, dim), with gradient to every process's own rows.

    Every process then computes the same loss. The mean over the processes of their gradients
    divides what is summed here by their number again, so that W processes with B / W sentences
    equal one with B.
    """
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        gathered: Tensor = _Gather.apply(local)  # type: ignore[no-untyped-call]
        return gathered
    return local


def require_distinct_views(
    encoder: Encoder, batch: Batch, plan: Sequence[View], texts: Sequence[int]
) -> list[Tensor]:
    """The encoder's views of a batch, in training; the CPU's random state does not move.

    `texts` (view,) says which source of the batch each view of the plan encodes.

    Raises:
        UserError: dropout cannot tell two views of one text apart.
    """
    own = [i for i, view in enumerate(plan) if view.by == "encoder"]
    plan, texts = [plan[i] for i in own], [texts[i] for i in own]
    with torch.random.fork_rng(devices=[]):
        encoded = encoder(batch, plan, texts)
    twins = [
        (i, j)
        for i in range(len(plan))
        for j in range(i)
        if texts[i] == texts[j] and plan[i].dropout != 0.0 and torch.equal(encoded[i], encoded[j])
    ]
    if twins:
        raise UserError(
            f"{encoder.source}: views {twins[0][1] + 1} and {twins[0][0] + 1} are identical, "
            "because this encoder has a dropout of 0. There is nothing to learn. Set a rate: "
            "`dropout` 0.1"
        )
    return list(encoded)


def too_short(config: TrainConfig, long_enough: int, texts: int) -> str:
    """Why these texts cannot be trained on."""
    return (
        f"`corpus` {' '.join(config.text.corpus)}: {long_enough} of {texts} texts have the "
        f"{config.objective.tokens_needed} tokens that this objective needs of each, fewer than a "
        f"batch of {config.batch_size}. Give documents, in passages that are long enough "
        "(`passage_words`), or set the objective to shorter spans"
    )


def longest_read(config: TrainConfig) -> int | None:
    """To how many tokens texts are cut while training; `None` where they are read whole."""
    return None if config.objective.reads_whole_texts else config.max_length


def require_plain_passes(config: TrainConfig) -> None:
    """Refuse passes in parts, or at half precision, where an objective needs more than vectors.

    Raises:
        UserError: naming the setting.
    """
    views = config.objective.views
    vectors = not config.objective.inputs and all(
        view.read == "pooled" and not view.changes_embeddings for view in views
    )
    plain = vectors and all(view.by == "encoder" for view in views)
    if config.half_weights and not vectors:
        raise UserError(
            f"`half_weights`: {objective_name(config.objective)} with these settings reads tokens "
            "or edits embeddings, which needs full precision. Leave `half_weights` out"
        )
    reasons = {
        "pass_tokens": "reads tokens, and needs a batch at once",
        "trained_layers": "reads tokens or changes their embeddings, and needs all layers",
        "gradient_checkpointing": "changes single layers, which a recomputed pass would not repeat",
    }
    for name, reason in reasons.items():
        value = getattr(config, name)
        if value and not plain:
            raise UserError(
                f"`{name}` {value}: {objective_name(config.objective)} with these settings trains "
                f"an auxiliary network, or {reason}. Leave `{name}` out"
            )


def _loss(terms: Mapping[str, Tensor]) -> Tensor:
    return torch.stack(list(terms.values())).sum()


def _without_gradient(ways: Sequence[Views]) -> Views:
    """The batch as auxiliaries are told of it: of pairs both directions, row by row in turn."""
    views = ways[0]
    tokens = {i: replace(read, states=read.states.detach()) for i, read in views.tokens.items()}
    encoded, projected = (
        torch.stack([getattr(way, name).detach() for way in ways], dim=2).flatten(1, 2)
        for name in ("encoded", "projected")
    )
    return replace(views, encoded=encoded, projected=projected, tokens=tokens)


class Loop:
    """Training as an iterator over updates.

    Args:
        config: batch size, learning rate, seed and the objective.
        encoder: trained in place.
        tokens: (text,) the tokenised corpus, as each text of an example is read: with the prompt of
            its side.
        examples: what may be trained on.
        accelerator: devices, processes and precision.
        labels: (example,) class of each example of the corpus, from 0 on, for an objective that
            reads labels.
        lists: a teacher's scores and mined texts, for an objective that learns a ranking.

    Attributes:
        shipped: the encoder as it is measured and shipped, with the same weights.
        frozen: setting -> hash of the network beside the encoder that came from it and never
            changes (`Auxiliary.frozen`).
    """

    def __init__(
        self,
        config: TrainConfig,
        encoder: Encoder,
        tokens: Sequence[Tokens],
        examples: Examples,
        accelerator: Accelerator,
        labels: np.ndarray | None = None,
        lists: Lists | None = None,
    ) -> None:
        self.config, self.encoder, self.tokens = config, encoder, tokens
        self.examples = self._long_enough(examples)
        self.accelerator = accelerator
        self.labels, self.lists = labels, lists
        self.objective = config.objective
        self.step = 0
        self._order = Order(self.examples, config.batch_size, config.seed)
        self.total_steps = 0
        self._falls_from = (config.learning_rate, 0)
        """A rate, and the step from which it falls to 0 at the end."""
        self.sentences_per_step = config.batch_size * config.accumulate
        torch.manual_seed(config.seed + accelerator.process_index)
        encoder.to(accelerator.device)
        # What the objectives and the scores compare by, whatever the base model did.
        encoder.model.similarity_fn_name = "cosine"
        classes = 0 if labels is None else int(labels.max()) + 1
        parts = parts_of(config, encoder, classes)
        self.plan, self.head, self.auxiliaries, self.sources, self.shipped = parts
        self._sides = [side_of(text, self.plan.texts) for text in range(len(tokens))]
        self._prompts = [
            encoder.tokens.prompt_length(side) if encoder.prompts.for_side(side) else 0
            for side in self._sides
        ]
        if examples.cropped is not None and encoder.pooling == "mask":
            raise UserError(
                f"{encoder.source}: its tokenizer puts a template around every text, and cropping "
                "would cut it off. Train on other `relations`"
            )
        first = self._micro_batch(0)
        if not first.changed:
            first = first.rows(torch.arange(min(_TRIED, len(first)), device=encoder.device))
        self._freeze(require_distinct_views(encoder, first, self.plan.views, self.sources.of_view))
        self._beside = nn.ModuleDict({**self.auxiliaries, "head": self.head})
        self._beside.to(accelerator.device).train()
        self._told = [part for part in self._beside.children() if isinstance(part, Auxiliary)]
        frozen = dict(part for told in self._told for part in told.frozen.items())
        self.frozen = {setting: state_hash(part) for setting, part in frozen.items()}
        if lists is not None and lists.teacher is not None:
            self.frozen["teacher"] = lists.teacher.digest
        names = {part: name for name, part in self._beside.named_modules()}
        self._frozen_names = tuple(f"{names[part]}." for part in frozen.values())
        self._parameters = [
            p for m in (encoder, self._beside) for p in m.parameters() if p.requires_grad
        ]
        self.optimizer = torch.optim.AdamW(
            self._parameters,
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=accelerator.device.type in ("cpu", "cuda"),
        )
        # What an adapter adds is B A, so that B held to 0 is all of it held to the base model.
        held = [p for name, p in encoder.named_parameters() if adapters.IN not in name]
        self._held = [
            (p, p.detach().clone()) for p in held if config.hold_to_base and p.requires_grad
        ]
        # For its precision alone: gradients are summed here, in an order that no step changes.
        accelerator.prepare_model(encoder, evaluation_mode=True)
        self._first_terms: dict[str, float] = {}
        self._seen: Views | None = None
        self._added: dict[str, Tensor] = {}

    def _long_enough(self, examples: Examples) -> Examples:
        """Examples that the objective can serve."""
        needed = self.config.objective.tokens_needed
        if not needed:
            return examples
        special = self.encoder.tokenizer.num_special_tokens_to_add()
        kept = examples.where(self.tokens[0].lengths[examples.rows[:, 0]] - special >= needed)
        if len(kept) < self.config.batch_size:
            raise UserError(too_short(self.config, len(kept), len(examples)))
        return kept

    @property
    def updates_per_epoch(self) -> float:
        """Updates that one pass over the examples makes; what fits no batch makes none."""
        return self._order.per_epoch / self.config.accumulate

    @property
    def tokens_per_step(self) -> float:
        """Tokens in the texts of the examples of an update, on average; each text counts once."""
        own = self.examples.rows.shape[1]
        longest = longest_read(self.config)
        tokens = self.examples.mean_tokens(self.tokens[:own], longest)
        if self.lists is not None:
            most = np.inf if longest is None else longest
            for mined in self.tokens[own:]:
                tokens += float(np.minimum(mined.lengths[self.lists.pool], most).mean())
        return tokens * self.sentences_per_step

    def _freeze(self, encoded: Sequence[Tensor]) -> None:
        """Freeze what a loss of these views cannot reach."""
        torch.stack([view.sum() for view in encoded]).sum().backward()  # type: ignore[no-untyped-call]
        for parameter in self.encoder.parameters():
            if parameter.grad is None:
                parameter.requires_grad_(False)
            parameter.grad = None

    def _micro_batch(self, micro: int) -> Batch:
        """This process's share of the `micro`-th micro-batch of the run."""
        everything = self._order.batch(micro)
        share = len(everything) // self.accelerator.num_processes
        start = self.accelerator.process_index * share
        chosen = everything[start : start + share]
        rows = self.examples.rows[chosen]
        if self.lists is not None:
            rows = np.concatenate([rows, self.lists.candidates(rows, micro)], axis=1)
        texts = [tokens.batch(rows[:, text]) for text, tokens in enumerate(self.tokens)]
        if self.examples.cropped is not None:
            for place in np.flatnonzero(self.examples.cropped[chosen]).tolist():
                draws = np.random.default_rng([self.config.seed, micro, int(rows[place, 0])])
                for ids, prompt in zip(texts, self._prompts, strict=True):
                    ids[place] = crop(ids[place], draws, self.encoder.vocabulary, prompt)
            longest = self.config.max_length
            assert longest is not None  # of what was prepared
            texts = [
                [self.encoder.tokens.cut(ids, longest, side) for ids in of_text]
                for of_text, side in zip(texts, self._sides, strict=True)
            ]
        batch = self.sources.batch(texts, rows[:, 0], micro)
        if self.lists is not None:
            second = self.examples.rows[everything, -1]
            scores = self.lists.scores(rows, second, start)
            if scores is not None:
                batch = replace(batch, teacher=torch.from_numpy(scores).to(self.encoder.device))
        if self.labels is None:
            return batch
        labels = torch.from_numpy(self.labels[rows[:, 0] // self.plan.texts])
        return replace(batch, labels=labels.to(self.encoder.device))

    def _with_added(self, batch: Batch) -> Batch:
        """The batch with what auxiliaries add to its embeddings."""
        changed = dict(batch.changed)
        for source, name in self.sources.added_by.items():
            first = self.accelerator.process_index * len(batch)
            added = find_auxiliary(self.auxiliaries, name, LastGradient).added(
                changed[source].kept.float(), first
            )
            changed[source] = replace(changed[source], added=added)
            self._added[name] = added
        return replace(batch, changed=changed)

    def _remember_gradients(self) -> None:
        """Give auxiliaries the gradient of what they added."""
        for name, added in self._added.items():
            assert added.grad is not None
            find_auxiliary(self.auxiliaries, name, LastGradient).remember(
                self._gather_tokens(added.grad)
            )

    def _passes(self, batch: Batch) -> list[Tensor]:
        """Each view of the plan of this process's batch, made by its network."""
        plan = self.plan.views
        made: dict[int, Tensor] = {}
        for by in dict.fromkeys(view.by for view in plan):
            places = [i for i, view in enumerate(plan) if view.by == by]
            own, texts = [plan[i] for i in places], [self.sources.of_view[i] for i in places]
            if by == "encoder":  # which Accelerate has compute in its precision, and give float32
                vectors = self.encoder(batch, own, texts)
            else:
                network = find_auxiliary(self.auxiliaries, by, Network)
                trained = network.trained and torch.is_grad_enabled()
                with torch.set_grad_enabled(trained), self.accelerator.autocast():
                    vectors = network.encoder(batch, own, texts)
            made |= zip(places, map(upcast, vectors), strict=True)
        return [made[i] for i in range(len(plan))]

    def _make_views(self, batch: Batch, passes: Iterable[Tensor] | None = None) -> list[Views]:
        """The global batch of views, in every way in which the objective sees them.

        Args:
            batch: of this process.
            passes: (view, batch, dim) of the plan, where the batch has passed already.
        """
        plan = self.plan.views
        batch = self._with_added(batch)
        made = self._passes(batch) if passes is None else list(passes)
        tokens = {}
        for place in [i for i, view in enumerate(plan) if view.read == "tokens"]:
            states, mask = made[place], batch.stack([self.sources.of_view[place]]).attention_mask
            made[place] = states.sum(1) / mask.sum(1, keepdim=True)
            tokens[place] = TokenStates(self._gather_tokens(states), self._gather_tokens(mask))
        encoded = gather(torch.stack(made))
        read = [self._input(batch, source) for source in self.sources.of_view[len(plan) :]]
        count = len(self.objective.inputs)
        labels = None if batch.labels is None else gather(batch.labels[None])[0]
        teacher = None if batch.teacher is None else gather(batch.teacher[None])[0]
        found = []
        for number, way in enumerate(self.plan.ways):
            own, beside = encoded[list(way)], () if number else self.plan.candidates
            # By the head at once, which may whiten.
            made = self.head(torch.cat([own, encoded[list(beside)]]) if beside else own)
            projected, candidates = made, None
            if beside:
                projected, candidates = made[: len(own)], made[len(own) :]
            if number and teacher is not None:  # what it says of a pair, looked for by the other
                teacher = teacher[:, : len(teacher)].T
            inputs = tuple(read[number * count : (number + 1) * count])
            views = Views(own, projected, tokens, self.auxiliaries, inputs, labels)
            paired = len(self.plan.ways) > 1
            found.append(replace(views, candidates=candidates, teacher=teacher, paired=paired))
        return found

    def _input(self, batch: Batch, source: int) -> TokenIds:
        """The token ids of one source, of the global batch."""
        own = batch.stack([source])
        return TokenIds(self._gather_tokens(own.input_ids), self._gather_tokens(own.attention_mask))

    def _gather_tokens(self, tokens: Tensor) -> Tensor:
        """What tokens have, (batch, length, ...), of all processes; zero where it is padded."""
        return gather(self.accelerator.pad_across_processes(tokens, dim=1)[None])[0]

    def _terms(self, batch: Batch, passes: Iterable[Tensor] | None = None) -> dict[str, Tensor]:
        """The terms, each the mean over the ways in which the objective sees the views."""
        ways = self._make_views(batch, passes)
        self._seen = _without_gradient(ways) if self._told else None
        terms = [self.objective(views) for views in ways]
        return {name: torch.stack([of[name] for of in terms]).mean() for name in terms[0]}

    def _guard(self, terms: dict[str, float]) -> None:
        for name, value in terms.items():
            usual = max(1.0, self._first_terms.get(name, abs(value)))
            if not math.isfinite(value) or abs(value) > EXPLODED * usual:
                raise Diverged(self.step + 1, name, value)
            if self.step < 10:
                self._first_terms[name] = max(self._first_terms.get(name, 0.0), abs(value))

    def _backward(self) -> dict[str, float]:
        """Accumulate the gradient of one update; the terms are means over micro-batches."""
        parts = self.config.accumulate
        totals: dict[str, float] = {}
        for part in range(parts):
            batch = self._micro_batch(self.step * parts + part)
            if self.config.pass_tokens is not None:
                terms = self._backward_by_passes(batch)
            else:
                terms = self._terms(batch)
                self.accelerator.backward(_loss(terms) / parts)
            for name, value in terms.items():
                totals[name] = totals.get(name, 0.0) + float(value.detach()) / parts
        if self.accelerator.num_processes > 1:
            for parameter in self._parameters:
                if parameter.grad is not None:
                    parameter.grad = self.accelerator.reduce(parameter.grad, "mean")
        return totals

    def _backward_by_passes(self, batch: Batch) -> dict[str, Tensor]:
        """As the backward of the whole batch, with the states of few texts in memory at a time.

        Gradient caching (Gao et al. 2021): the batch passes without a gradient; the loss gives the
        gradient of its vectors; then each part passes again, under the same noise, with it.
        """
        assert self.config.pass_tokens is not None
        views = self.plan.views
        parts = batch.parts(self.config.pass_tokens * batch.texts // len(views))

        def passes(rows: Tensor) -> Tensor:
            return torch.stack([upcast(x) for x in self.encoder(batch.rows(rows), views, texts)])

        texts, states, found = self.sources.of_view, [], []
        for rows in parts:
            states.append(checkpoint.random_state())
            with torch.no_grad():
                found.append(passes(rows))
        after = checkpoint.random_state()
        vectors = torch.cat(found, dim=1)[:, torch.cat(parts).argsort()].requires_grad_()
        terms = self._terms(batch, vectors)
        self.accelerator.backward(_loss(terms) / self.config.accumulate)
        assert vectors.grad is not None
        for rows, state in zip(parts, states, strict=True):
            checkpoint.set_random_state(state)
            torch.autograd.backward(passes(rows), vectors.grad[:, rows])
        checkpoint.set_random_state(after)
        return terms

    def learning_rate(self, step: int) -> float:
        """Linear decay to zero over the run, no warm-up; `step` counts from 0."""
        rate, since = self._falls_from
        return rate * (1.0 - (step - since) / (self.total_steps - since))

    def end_at(self, total_steps: int) -> None:
        """Give a training that has begun another length: its rate falls from where it is."""
        self._falls_from = (self.learning_rate(self.step), self.step)
        self.total_steps = total_steps

    @torch.no_grad()
    def _pull_to_start(self, rate: float) -> None:
        """L2-SP, the pull to the base model (Li et al. 2018, https://arxiv.org/abs/1802.01483).

        It stands beside the gradient, as AdamW's decay does, so that Adam does not scale it away.
        """
        for parameter, start in self._held:
            parameter.lerp_(start, rate * self.config.hold_to_base)

    def seconds_per_step(self) -> float:
        """Time whole updates, leaving no trace in weights, moments or random states.

        For a run that has done none yet: they are its first ones, at a learning rate of 0.
        """
        random_state = checkpoint.random_state()
        beside = copy.deepcopy(self._beside_state())
        seconds = []
        for step in range(_TIMED):
            self.step = step
            started = time.perf_counter()
            with contextlib.suppress(Diverged):  # The training itself will tell.
                self._update(0.0)
            seconds.append(time.perf_counter() - started)
        self.step = 0
        self._first_terms.clear()
        self.optimizer.state.clear()
        self.optimizer.zero_grad(set_to_none=True)
        self._load_beside(beside)
        checkpoint.set_random_state(random_state)
        return float(np.median(seconds[1:]))

    def __iter__(self) -> Iterator[Step]:
        """Do the remaining updates.

        Raises:
            Diverged: a term or the gradient is not finite or has exploded; nothing was updated.
        """
        while self.step < self.total_steps:
            started = time.perf_counter()
            rate = self.learning_rate(self.step)
            terms, norm = self._update(rate)
            self.step += 1
            yield Step(
                self.step,
                self.step * self.sentences_per_step,
                terms,
                rate,
                norm,
                time.perf_counter() - started,
            )

    def _update(self, rate: float) -> tuple[dict[str, float], float]:
        """One update by this learning rate; its terms, and the gradient's norm before clipping."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        terms = self._backward()
        self._guard(terms)
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, self.config.clip_norm))
        if not math.isfinite(norm):
            raise Diverged(self.step + 1, "gradient norm", norm)
        self._pull_to_start(rate)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._remember_gradients()
        if self._seen is not None:
            for told in self._told:
                told.after_update(self.encoder, self._seen)
        return terms, norm

    def _beside_state(self) -> dict[str, Any]:
        """Of head and auxiliaries, without what never changes."""
        state = self._beside.state_dict()
        return {name: x for name, x in state.items() if not name.startswith(self._frozen_names)}

    def _load_beside(self, state: dict[str, Any]) -> None:
        """Put back what `_beside_state` returned; older checkpoints hold everything."""
        own = self._beside.state_dict()
        frozen = {name: x for name, x in own.items() if name.startswith(self._frozen_names)}
        self._beside.load_state_dict({**frozen, **state})

    def state(self) -> dict[str, Any]:
        """Everything that decides the rest of the run, but for the random states."""
        return {
            "step": self.step,
            "total_steps": self.total_steps,
            "falls_from": self._falls_from,
            "encoder": adapters.trained_state(self.encoder.model),
            "beside": self._beside_state(),
            "frozen": self.frozen,
            "optimizer": self.optimizer.state_dict(),
            "first_terms": self._first_terms,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Put back what `state` returned."""
        self.step, self.total_steps = state["step"], state["total_steps"]
        self._falls_from = state.get("falls_from", self._falls_from)  # older ones have none
        adapters.load_trained(self.encoder.model, state["encoder"])
        self._load_beside(state["beside"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._first_terms = dict(state["first_terms"])
