"""Merging of models on disk: load, check that they match, average, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import architecture, load_encoder
from isospace.encoders.merging import merge
from isospace.encoders.modules import module_names
from isospace.encoders.prompts import SIDES
from isospace.encoders.saving import require_classic, save_model
from isospace.errors import UserError
from isospace.objectives.base import Paper
from isospace.system.files import expanded, require_new
from isospace.training.card import Usage, classic_usage, heading
from isospace.training.results import Origin

_PAPER = Paper("xiao-etal-2024-lm")


def merge_models(
    base: str | Path,
    models: str | Path | Sequence[str | Path],
    share: float,
    to: Path | str,
) -> float:
    """Merge a base model and the mean of models fine-tuned from it, and write the result.

    Args:
        base: the base model: minilm, a model folder, the folder of a run, or a Hub name.
        models: one or more fine-tuned models, named like `base`.
        share: 0 is the base model, 1 the mean of the models (`encoders.merging.merge`).
        to: the new sentence-transformers folder.

    Returns:
        The largest 1 - cosine between the vectors of the merged encoder and of the folder.

    Raises:
        UserError: there are no models to merge, the models do not match, or the folder has
            content.
    """
    folder, several = expanded(to), [models] if isinstance(models, str | Path) else models
    names = list(map(str, (base, *several)))
    if len(names) < 2:
        raise UserError(
            "nothing to merge. Name the base model, and one or more models that were fine-tuned "
            "from it"
        )
    require_new(folder, "to")
    encoders = [load_encoder(name, device="cpu") for name in names]
    merged, *others = encoders
    require_classic(merged)
    for other in others:
        require_alike(merged, other)
    results = [other.model.state_dict() for other in others]
    merged.model.load_state_dict(merge(merged.model.state_dict(), results, share))
    usage = classic_usage(merged.prompts)
    card = _card(names, share, merged.pooling, usage)
    return save_model(merged, folder, card, replace=False)


def require_alike(base: Encoder, other: Encoder) -> None:
    """Refuse to merge an encoder that differs from the base model in more than its weights."""
    here, there = _about(base), _about(other)
    for name, value in here.items():
        theirs = there.get(name)  # another architecture may lack the setting
        if theirs != value:
            raise UserError(
                f"{base.source} and {other.source}: {name} {value} and {theirs}. Merge models "
                "that were trained from one base model and make vectors in the same way"
            )


def _about(encoder: Encoder) -> dict[str, Any]:
    """Return everything except the weights that determines the vector of a text."""
    about: dict[str, Any] = {
        "modules": " / ".join(
            dict.fromkeys(", ".join(module_names(encoder.model, s)) for s in SIDES)
        ),
        "pooling": encoder.pooling,
        "prompts": encoder.prompts.summary or "none",
        "longest input": encoder.max_length,
    }
    about |= {f"setting {name}": value for name, value in architecture(encoder).items()}
    # The tokenizer comes last: a hash explains a difference worst.
    return about | {"tokenizer": encoder.tokens.fingerprint(None, whole=True)[:8]}


def _card(names: Sequence[str], share: float, pooling: str, usage: Usage) -> str:
    """Return the README.md of the folder; `names` begins with the base model."""
    origin, *others = map(Origin.from_model, names)
    alike = all(one.licence == origin.licence for one in others)
    # The front matter holds one licence for the whole model.
    whole = replace(origin, licence=origin.licence if alike else None)
    listed = "\n".join(f"  - `{one.name}`, licence: {one.licence_text}" for one in others)
    mean = f"the mean of these {len(others)}" if len(others) > 1 else "this model's"
    return f"""{heading(whole, "merged with what was trained from it", usage)}

{usage.text}

- Weights: {1 - share:g} of the base model's and {share:g} of {mean}:
{listed}
- Base model: `{origin.name}`; pooling: {pooling}
- Licence of the base model: {origin.licence_text}
- Scores: not measured here; `isospace evaluate` measures them

```bibtex
{_PAPER.bibtex}
```
"""
