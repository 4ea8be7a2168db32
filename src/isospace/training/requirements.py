"""Checks across settings, made before any text is read."""

from __future__ import annotations

from importlib.util import find_spec

from isospace.config import TrainConfig, objective_name
from isospace.errors import UserError
from isospace.evaluation.other_text import require_other_text
from isospace.objectives import OBJECTIVES
from isospace.statistics.counts import number_of
from isospace.system.imports import require_extra
from isospace.training.queries import rows_of_queries


def require_settings(config: TrainConfig) -> None:
    """Refuse settings that do not fit together, and files and packages that are missing."""
    require_of_objective(config)
    _require_texts(config)
    require_other_text(config.other_text, config.text.corpus)
    if config.queries is not None:
        rows_of_queries(config.queries)  # which are read again once it is known what is held out
    if config.lora is not None:
        require_extra(f"`lora` {config.lora}", "lora", "peft")
    missing = [name for name in config.trackers if find_spec(name) is None]
    if missing:
        raise UserError(f"`trackers` {missing[0]}: not installed. Run pip install {missing[0]}")


def require_of_objective(config: TrainConfig) -> None:
    """Refuse settings that the objective does not use, and settings that it lacks."""
    objective, label_column = config.objective, config.text.label_column
    name = f"{objective_name(objective)} with these settings"
    for setting, value, trait in (
        ("views", config.views if config.views != "dropout" else None, "takes_pairs"),
        ("label_column", label_column, "reads_labels"),
        ("teacher", config.teacher, "reads_teacher"),
        ("mined", config.mined, "takes_candidates"),
    ):
        if value and not getattr(objective, trait):
            users = ", ".join(other for other, kind in OBJECTIVES.items() if getattr(kind(), trait))
            raise UserError(
                f"`{setting}` {value}: {name} does not use it. Leave the setting out, or set an "
                f"`objective` that does ({users})"
            )
    if objective.reads_labels and label_column is None:
        raise UserError(
            f"`label_column` is missing: {name} learns from labels. Name the column that holds them"
        )
    if objective.reads_teacher and config.teacher is None:
        raise UserError(
            f"`teacher` is missing: {name} learns from a teacher's ranking. Set `teacher`, such as "
            "base+bm25 or an encoder, or set `distillation_weight` 0"
        )
    for setting in ("relations", "queries"):
        if config.views == "dropout" and getattr(config, setting):
            raise UserError(
                f"`{setting}` is for pairs of texts. Leave it out, or set `views` pairs or both"
            )
    plain = not objective.inputs and all(
        view.read == "pooled" and not view.changes_embeddings and view.by == "encoder"
        for view in objective.views
    )
    if config.pass_tokens and not plain:
        raise UserError(
            f"`pass_tokens` {config.pass_tokens}: {name} trains an auxiliary network, or reads "
            "tokens, and needs a batch at once. Leave `pass_tokens` out"
        )


def _require_texts(config: TrainConfig) -> None:
    texts, columns = config.objective.texts, config.text.columns
    if config.views != "dropout":
        texts = 2 if columns else 1
    if len(columns) == (texts if texts > 1 else 0):
        return
    advice = (
        "its column with `column`, or train on pairs (`views` pairs) or triples (simcse "
        "`supervision` triples)"
    )
    if texts > 1:
        wanted = ("ANCHOR", "POSITIVE", "HARD_NEGATIVE")[:texts]
        advice = f"the columns of all: `columns` {' '.join(wanted)}"
    raise UserError(
        f"`columns` {' '.join(columns)}: {objective_name(config.objective)} with these settings "
        f"reads {number_of(texts, 'texts')} of each example, but `columns` names {len(columns)}. "
        f"Name {advice}"
    )
