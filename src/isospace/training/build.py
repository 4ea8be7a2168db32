"""Set-up of a training: plan of passes, head, auxiliary networks, batches and optimiser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
from isospace.objectives.base import Objective
from isospace.training.batches import Batches, Sources
from isospace.training.examples import Examples
from isospace.training.lists import Lists
from isospace.views import View
from isospace.views.edits import Template
from isospace.views.networks import Convolutions


@dataclass(frozen=True)
class PassPlan:
    """The passes through the encoder in an update, and the views that the objective gets.

    Attributes:
        ways: the directions in which the objective is computed (two for pairs), each with the
            position in `views` of each view of the objective. The loss is the mean over them.
        texts: number of texts of an example, mined ones included.
        candidates: positions in `views` of the mined texts, for the first direction only.
        inputs: views whose tokens the objective reads, of the first direction and then the second.
    """

    views: tuple[View, ...]
    ways: tuple[tuple[int, ...], ...]
    texts: int
    candidates: tuple[int, ...] = ()
    inputs: tuple[View, ...] = ()

    @classmethod
    def from_config(cls, config: TrainConfig) -> PassPlan:
        """Return the plan of a training; with pairs, its objective must have `takes_pairs`.

        With pairs, the first view and views `of_anchor` encode one text, all others the other. The
        second direction exchanges the texts; both share passes where they can.
        """
        plan, mined = cls.of_objective(config.objective, config.views != "dropout"), config.mined
        passes = tuple(View(text=plan.texts + number) for number in range(mined))
        places = tuple(range(len(plan.views), len(plan.views) + mined))
        views, texts = plan.views + passes, plan.texts + mined
        return replace(plan, views=views, texts=texts, candidates=places)

    @classmethod
    def of_objective(cls, objective: Objective, pairs: bool) -> PassPlan:
        """Return the plan of an objective without mined texts; with pairs, for both directions."""
        own = objective.views
        if not pairs:
            every = tuple(range(len(own)))
            return cls(own, (every,), objective.texts, inputs=objective.inputs)
        sided = (replace(own[0], of_anchor=True), *own[1:])
        ways = [_over_pair(sided, anchor) for anchor in (0, 1)]
        # Directions share passes but no inputs, because each draws its own edits.
        inputs = [view for anchor in (0, 1) for view in _over_pair(objective.inputs, anchor)]
        counts = Counter(ways[0]) | Counter(ways[1])
        views = tuple(counts.elements())
        places = tuple(_places(way, views) for way in ways)
        return cls(views, places, 2, inputs=tuple(inputs))


def _over_pair(views: Sequence[View], anchor: int) -> list[View]:
    """Return the views for a pair whose anchor is text number `anchor`."""
    return [
        replace(view, text=anchor if view.of_anchor else 1 - anchor, of_anchor=False)
        for view in views
    ]


def _places(way: Sequence[View], views: Sequence[View]) -> tuple[int, ...]:
    """Return the position of each view of a direction; equal views get different positions."""
    places = []
    for number, view in enumerate(way):
        earlier = list(way[:number]).count(view)
        places.append([i for i, one in enumerate(views) if one == view][earlier])
    return tuple(places)


def has_equal_views(views: Sequence[View], inputs: Sequence[int], rates: Sequence[float]) -> bool:
    """Return true if two views are equal because the encoder has no dropout.

    `inputs` (view,) numbers the input of each view, `rates` are the encoder's dropout rates. Two
    views may both be clean by their own rate of 0.
    """
    noisy = [
        (number, view.read)
        for view, number in zip(views, inputs, strict=False)
        if view.by == "encoder" and view.dropout is None
    ]
    return len(noisy) > len(set(noisy)) and not any(rates)


class Parts(NamedTuple):
    """The parts of a training that the objective and the encoder determine."""

    plan: PassPlan
    head: nn.Module
    auxiliaries: dict[str, nn.Module]
    sources: Sources
    shipped: Encoder


def build_parts(config: TrainConfig, encoder: Encoder, classes: int = 2) -> Parts:
    """Build the parts of a training for a number of label classes."""
    objective = config.objective
    plan = PassPlan.from_config(config)
    reads_tokens = objective.inputs or any(view.read != "pooled" for view in plan.views)
    if reads_tokens and encoder.dim != encoder.token_dim:
        raise UserError(
            f"{encoder.source}: a dense layer follows the pooling, and {objective_name(objective)} "
            "reads token states. Take an encoder without that layer"
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
            "Set `dropout` 0.1"
        )
    return Parts(plan, head, auxiliaries, sources, shipped)


@dataclass(frozen=True)
class Training:
    """Everything that an update reads and changes.

    Attributes:
        shipped: the encoder as it is measured and saved, sharing its weights.
        modules: the head, and the auxiliary networks and memories by name.
        frozen: names in `modules` of those that never change.
        digests: setting -> hash of the frozen module or of the teacher that it names.
    """

    config: TrainConfig
    encoder: Encoder
    shipped: Encoder
    plan: PassPlan
    batches: Batches
    modules: nn.ModuleDict
    optimizer: torch.optim.Optimizer
    parameters: Sequence[nn.Parameter]
    frozen: Sequence[str]
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


def build_training(
    config: TrainConfig,
    encoder: Encoder,
    tokens: Sequence[Tokens],
    examples: Examples,
    accelerator: Accelerator,
    labels: np.ndarray | None = None,
    lists: Lists | None = None,
) -> Training:
    """Build everything that updates read and change; the encoder is trained in place.

    `tokens` (text,) has the corpus once for each text of an example, tokenised with the prompt of
    that text's side. `labels` (example,) are classes from 0 on.
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
    batches = Batches(config, encoder, tokens, examples, parts.sources, accelerator, labels, lists)
    modules = nn.ModuleDict({**parts.auxiliaries, "head": parts.head})
    modules.to(accelerator.device).train()
    frozen = {name: one for name, one in modules.named_modules() if hasattr(one, "from_setting")}
    digests = {str(one.from_setting): state_hash(one) for one in frozen.values()}
    if lists is not None and lists.teacher is not None:
        digests["teacher"] = lists.teacher.digest
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
        batches=batches,
        modules=modules,
        optimizer=optimizer,
        parameters=parameters,
        frozen=[*frozen],
        digests=digests,
        accelerator=accelerator,
    )
