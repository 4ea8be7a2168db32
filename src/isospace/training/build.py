"""Set-up of a training: plan, head, auxiliaries, batches and optimiser, made once at its start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from isospace.config import TrainConfig, objective_name
from isospace.corpus.tokens import Tokens
from isospace.encoders import adapters
from isospace.encoders.batch import Batch
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import state_hash
from isospace.encoders.readings import at_mask, convolved
from isospace.errors import UserError
from isospace.objectives.auxiliaries import Auxiliary
from isospace.operators.convolutions import Convolutions
from isospace.training.batches import Batches
from isospace.training.examples import Examples
from isospace.training.lists import Lists
from isospace.training.plan import PassPlan
from isospace.training.sources import Sources
from isospace.training.step import Training
from isospace.views import View
from isospace.views.edits import Template

_TRIED = 4
"""Examples by which it is seen what a loss reaches, and whether views differ."""


def build_training(
    config: TrainConfig,
    encoder: Encoder,
    tokens: Sequence[Tokens],
    examples: Examples,
    accelerator: Accelerator,
    labels: np.ndarray | None = None,
    lists: Lists | None = None,
) -> Training:
    """Make everything that updates read and change, for an encoder at its start.

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

    Raises:
        UserError: the objective does not fit the encoder or the texts.
    """
    examples = _long_enough(config, encoder, tokens, examples)
    torch.manual_seed(config.seed + accelerator.process_index)
    encoder.to(accelerator.device)
    # What the objectives and the scores compare by, whatever the base model did.
    encoder.model.similarity_fn_name = "cosine"
    parts = build_parts(config, encoder, 0 if labels is None else int(labels.max()) + 1)
    if examples.cropped is not None and encoder.pooling == "mask":
        raise UserError(
            f"{encoder.source}: its tokenizer puts a template around every text, and cropping "
            "would cut it off. Train on other `relations`"
        )
    batches = Batches(
        config, encoder, tokens, examples, parts.plan, parts.sources, accelerator, labels, lists
    )
    first = batches.batch(0)
    if not first.changed:
        first = first.rows(torch.arange(min(_TRIED, len(first)), device=encoder.device))
    views, of_view = parts.plan.views, parts.sources.of_view
    _freeze_unreached(encoder, require_distinct_views(encoder, first, views, of_view))
    modules = nn.ModuleDict({**parts.auxiliaries, "head": parts.head})
    modules.to(accelerator.device).train()
    frozen = _frozen(modules)
    digests = {name: state_hash(module) for name, module in frozen.items()}
    if lists is not None and lists.teacher is not None:
        digests["teacher"] = lists.teacher.digest
    names = {module: name for name, module in modules.named_modules()}
    parameters = [p for m in (encoder, modules) for p in m.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        parameters,
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        fused=accelerator.device.type in ("cpu", "cuda"),
    )
    pulled = _pulled(encoder) if config.hold_to_base else []
    # For its precision alone: gradients are summed here, in an order that no step changes.
    accelerator.prepare_model(encoder, evaluation_mode=True)
    return Training(
        config=config,
        encoder=encoder,
        shipped=parts.shipped,
        plan=parts.plan,
        sources=parts.sources,
        batches=batches,
        modules=modules,
        optimizer=optimizer,
        parameters=parameters,
        pulled=pulled,
        frozen={setting: names[module] for setting, module in frozen.items()},
        digests=digests,
        accelerator=accelerator,
    )


def _long_enough(
    config: TrainConfig, encoder: Encoder, tokens: Sequence[Tokens], examples: Examples
) -> Examples:
    """Keep the examples that have as many tokens as the objective needs."""
    needed = config.objective.tokens_needed
    if not needed:
        return examples
    special = encoder.tokenizer.num_special_tokens_to_add()
    kept = examples.where(tokens[0].lengths[examples.rows[:, 0]] - special >= needed)
    if len(kept) < config.batch_size:
        raise UserError(too_short(config, len(kept), len(examples)))
    return kept


def too_short(config: TrainConfig, long_enough: int, texts: int) -> str:
    """Say why these texts cannot be trained on."""
    return (
        f"`corpus` {' '.join(config.text.corpus)}: {long_enough} of {texts} texts have the "
        f"{config.objective.tokens_needed} tokens that this objective needs of each, fewer than a "
        f"batch of {config.batch_size}. Give documents, in passages that are long enough "
        "(`passage_words`), or set the objective to shorter spans"
    )


def _freeze_unreached(encoder: Encoder, encoded: Sequence[Tensor]) -> None:
    """Freeze the parameters that a loss of these views does not reach."""
    torch.stack([view.sum() for view in encoded]).sum().backward()  # type: ignore[no-untyped-call]
    for parameter in encoder.parameters():
        if parameter.grad is None:
            parameter.requires_grad_(False)
        parameter.grad = None


def _frozen(modules: nn.ModuleDict) -> dict[str, nn.Module]:
    """Setting -> the module that came from it and never changes."""
    own = [part for part in modules.children() if isinstance(part, Auxiliary)]
    return {setting: module for one in own for setting, module in one.frozen.items()}


def _pulled(encoder: Encoder) -> list[tuple[nn.Parameter, Tensor]]:
    """The parameters that each update pulls to the base model, with their values there."""
    # What an adapter adds is B A, so that B held to 0 is all of it held to the base model.
    held = [p for name, p in encoder.named_parameters() if adapters.IN not in name]
    return [(p, p.detach().clone()) for p in held if p.requires_grad]


def require_distinct_views(
    encoder: Encoder, batch: Batch, plan: Sequence[View], texts: Sequence[int]
) -> list[Tensor]:
    """Return the encoder's views of a batch, in training; the CPU's random state does not move.

    `texts` (view,) says which source of the batch each view of the plan encodes.

    Raises:
        UserError: two views of one text are equal, for want of dropout.
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


class Parts(NamedTuple):
    """The parts that an objective makes for an encoder.

    Attributes:
        plan: the passes of a step.
        head: on what the encoder gives.
        auxiliaries: what is trained or remembered beside the encoder.
        sources: the distinct inputs of the passes.
        shipped: the encoder, with the same weights, as it is measured and shipped once trained.
    """

    plan: PassPlan
    head: nn.Module
    auxiliaries: dict[str, Auxiliary]
    sources: Sources
    shipped: Encoder


def build_parts(config: TrainConfig, encoder: Encoder, classes: int = 2) -> Parts:
    """Make the parts of a training for an encoder at its start.

    `classes` are those of the labels, where the objective reads some; what ships is the same for
    any.

    Raises:
        UserError: the objective does not fit the encoder.
    """
    objective = config.objective
    plan = PassPlan.from_config(config)
    reads_tokens = objective.inputs or any(view.read != "pooled" for view in plan.views)
    if reads_tokens and encoder.dim != encoder.token_dim:
        raise UserError(
            f"{encoder.source}: its sentence vectors have {encoder.dim} dimensions and its token "
            f"states {encoder.token_dim}, because a dense layer follows the pooling. "
            f"{objective_name(objective)} needs both equal: take an encoder without that layer"
        )
    try:
        head = objective.build_classifier(encoder.dim, classes, config.seed)
        auxiliaries = objective.build_auxiliaries(encoder, config.seed)
        sources = Sources((*plan.views, *plan.inputs), encoder, config.seed)
        match objective.shipped(auxiliaries):
            case Template() as template:
                shipped = at_mask(encoder, template)
            case Convolutions() as layers:
                shipped = convolved(encoder, layers)
            case None:
                shipped = encoder
    except ValueError as error:
        raise UserError(f"{encoder.source} and this objective: {error}") from error
    return Parts(plan, head, auxiliaries, sources, shipped)
