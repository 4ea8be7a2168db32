"""Checks across settings, made before any text is read."""

from __future__ import annotations

from importlib.util import find_spec

from isospace.config import TrainConfig, objective_name
from isospace.errors import UserError
from isospace.evaluation.other_text import require_other_text
from isospace.objectives import OBJECTIVES
from isospace.system.imports import require_extra
from isospace.training.queries import rows_of_queries


def require_settings(config: TrainConfig) -> None:
    """Refuse settings that do not fit together, and files that are missing."""
    require_pairs(config)
    require_plain_passes(config)
    require_other_text(config.other_text, config.text.corpus)
    if config.queries is not None:
        rows_of_queries(config.queries)  # which are read again once it is known what is held out
    _require_texts(config)
    _require_labels(config)
    _require_teacher(config)
    if config.lora is not None:
        require_extra(f"`lora` {config.lora}", "lora", "peft")


def require_pairs(config: TrainConfig) -> None:
    """Refuse pairs if the objective cannot use them, and contradictory settings of pairs."""
    if config.views == "dropout":
        for name in ("relations", "queries"):
            if getattr(config, name):
                raise UserError(
                    f"`{name}` is for pairs of texts. Leave it out, or set `views` pairs or both"
                )
        return
    if not config.objective.takes_pairs:
        takers = ", ".join(name for name, kind in OBJECTIVES.items() if kind().takes_pairs)
        raise UserError(
            f"`views` {config.views}: {objective_name(config.objective)} with these settings "
            f"accepts no pairs. Set an `objective` that does ({takers})"
        )


def require_plain_passes(config: TrainConfig) -> None:
    """Refuse `pass_tokens` if the objective needs more than vectors."""
    views = config.objective.views
    plain = not config.objective.inputs and all(
        view.read == "pooled" and not view.changes_embeddings and view.by == "encoder"
        for view in views
    )
    if config.pass_tokens and not plain:
        raise UserError(
            f"`pass_tokens` {config.pass_tokens}: {objective_name(config.objective)} with these "
            "settings trains an auxiliary network, or reads tokens, and needs a batch at once. "
            "Leave `pass_tokens` out"
        )


def require_trackers(config: TrainConfig) -> None:
    """Refuse a tracker whose package is not installed."""
    missing = [name for name in config.trackers if find_spec(name) is None]
    if missing:
        raise UserError(f"`trackers` {missing[0]}: not installed. Run pip install {missing[0]}")


def _require_texts(config: TrainConfig) -> None:
    texts, columns = config.objective.texts, config.text.columns
    if config.views != "dropout":
        texts = 2 if columns else 1
    if len(columns) == (texts if texts > 1 else 0):
        return
    name = objective_name(config.objective)
    if texts == 1:
        raise UserError(
            f"`columns` {' '.join(columns)}: {name} with these settings reads one text. Name its "
            "column with `column`, or train on pairs (`views` pairs) or triples (simcse "
            "`supervision` triples)"
        )
    wanted = " ".join(("ANCHOR", "POSITIVE", "HARD_NEGATIVE")[:texts])
    raise UserError(
        f"`columns` {' '.join(columns)}: {name} with these settings reads {texts} texts of each "
        f"example, but `columns` names {len(columns)}. Name the columns of all texts: `columns` "
        f"{wanted}"
    )


def _require_labels(config: TrainConfig) -> None:
    column, name = config.text.label_column, objective_name(config.objective)
    if config.objective.reads_labels and column is None:
        raise UserError(
            f"`label_column` is missing: {name} learns from labels. Name the column that holds them"
        )
    if column is not None and not config.objective.reads_labels:
        readers = ", ".join(name for name, kind in OBJECTIVES.items() if kind.reads_labels)
        raise UserError(
            f"`label_column` {column}: {name} does not read labels. Leave the setting out, or "
            f"train an objective that does ({readers})"
        )


def _require_teacher(config: TrainConfig) -> None:
    name, reads = objective_name(config.objective), config.objective.reads_teacher
    if reads and config.teacher is None:
        raise UserError(
            f"`teacher` is missing: {name} with these settings learns from a teacher's ranking. "
            "Set `teacher`, such as base+bm25 or an encoder, or set `distillation_weight` 0"
        )
    if config.teacher is not None and not reads:
        raise UserError(
            f"`teacher` {config.teacher}: {name} with these settings does not use a teacher. "
            "Leave the setting out, or train rankcse"
        )
    if config.mined and not config.objective.takes_candidates:
        takers = ", ".join(name for name, kind in OBJECTIVES.items() if kind.takes_candidates)
        raise UserError(
            f"`mined` {config.mined}: {name} does not use mined texts. Leave the setting out, or "
            f"train an objective that does ({takers})"
        )
