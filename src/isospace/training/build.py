"""Set-up of a training: plan, head, auxiliary networks, batches and optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn

from isospace.config import TrainConfig, objective_name
from isospace.corpus.lines import Tokens
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import state_hash
from isospace.encoders.trained_pooling import at_mask, convolved
from isospace.errors import UserError
from isospace.objectives.auxiliaries import Auxiliary
from isospace.training.batches import Batches
from isospace.training.examples import Examples
from isospace.training.lists import Lists
from isospace.training.plan import PassPlan, Sources, has_equal_views
from isospace.training.step import Training
from isospace.views.edits import Template
from isospace.views.networks import Convolutions


def build_training(
    config: TrainConfig,
    encoder: Encoder,
    tokens: Sequence[Tokens],
    examples: Examples,
    accelerator: Accelerator,
    labels: np.ndarray | None = None,
    lists: Lists | None = None,
) -> Training:
    """Build everything that updates read and change.

    The encoder is trained in place. `tokens` (text,) has the tokenised corpus once for each text of
    an example, with the prompt of that text's side. `labels` (example,) are classes from 0 on.
    """
    special = encoder.tokenizer.num_special_tokens_to_add()
    examples = examples.long_enough(config, tokens[0].lengths - special)
    torch.manual_seed(config.seed + accelerator.process_index)
    encoder.to(accelerator.device)
    # Objectives and scores use cosines, whatever the base model used.
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
    modules = nn.ModuleDict({**parts.auxiliaries, "head": parts.head})
    modules.to(accelerator.device).train()
    auxiliaries = [part for part in modules.children() if isinstance(part, Auxiliary)]
    frozen = {setting: module for part in auxiliaries for setting, module in part.frozen.items()}
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
    # For its precision only: `step.backward` sums the gradients itself, always in the same order.
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
        frozen={setting: names[module] for setting, module in frozen.items()},
        digests=digests,
        accelerator=accelerator,
    )


class Parts(NamedTuple):
    """The parts of a training that the objective and the encoder determine."""

    plan: PassPlan
    head: nn.Module
    auxiliaries: dict[str, nn.Module]
    sources: Sources
    shipped: Encoder


def build_parts(config: TrainConfig, encoder: Encoder, classes: int = 2) -> Parts:
    """Build the parts of a training.

    `classes` is the number of label classes, for objectives that read labels. It does not change
    the saved model.
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
        head = objective.build_head(encoder.dim, config.seed, classes)
        auxiliaries = objective.build_auxiliaries(encoder, config.seed)
        views = (*plan.views, *plan.inputs)
        sources = Sources(views, encoder, config.seed, objective.without_mask)
        match objective.shipped(auxiliaries):
            case Template() as template:
                shipped = at_mask(encoder, template)
            case Convolutions() as layers:
                shipped = convolved(encoder, layers)
            case None:
                shipped = encoder
    except ValueError as error:
        raise UserError(f"{encoder.source} and this objective: {error}") from error
    if has_equal_views(plan.views, sources.of_view, encoder.noise.rates):
        raise UserError(
            f"{encoder.source}: two views are identical, because this encoder has a dropout of 0. "
            "There is nothing to learn. Set a rate: `dropout` 0.1"
        )
    return Parts(plan, head, auxiliaries, sources, shipped)
