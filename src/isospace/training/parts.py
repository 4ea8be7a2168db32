"""What a training is made of beside the encoder, by the objective."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from isospace.config import TrainConfig, objective_name
from isospace.encoders.encoder import Encoder
from isospace.encoders.readings import at_mask, convolved
from isospace.errors import UserError
from isospace.objectives.auxiliaries import Auxiliary
from isospace.operators.convolutions import Convolutions
from isospace.training.plan import Plan
from isospace.training.sources import Sources
from isospace.views.edits import Template


class Parts(NamedTuple):
    """The parts of a training.

    Attributes:
        plan: the passes of a step.
        head: on what the encoder gives.
        auxiliaries: what is trained or remembered beside the encoder.
        sources: the distinct inputs of the passes.
        shipped: the encoder, with the same weights, as it is measured and shipped once trained.
    """

    plan: Plan
    head: nn.Module
    auxiliaries: dict[str, Auxiliary]
    sources: Sources
    shipped: Encoder


def parts_of(config: TrainConfig, encoder: Encoder, classes: int = 2) -> Parts:
    """Make them for an encoder at its start.

    `classes` are those of the labels, where the objective reads some; what ships is the same for
    any.

    Raises:
        UserError: the objective does not fit the encoder.
    """
    objective = config.objective
    plan = Plan.of(config)
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
