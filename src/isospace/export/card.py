"""The model card: what the model is, what it was measured at. Never a sentence of the corpus."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from isospace.config import TrainConfig, objective_name
from isospace.loading import MINILM_HUB_NAME, run_model, wheel_minilm
from isospace.tables import markdown_table

_STS_PROTOCOL = (
    "Spearman of the cosine; STS12-16 'all', STS-B and SICK-R (4,927 pairs) test; Avg is the plain "
    "mean of the seven"
)

UNKNOWN_LICENCE = "unknown: see the base model"


@dataclass(frozen=True)
class Usage:
    """How a folder is loaded.

    Attributes:
        library: the Hub's name of the library that loads it.
        text: Markdown, code included.
    """

    library: str
    text: str


CLASSIC = Usage(
    "sentence-transformers",
    """```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
vectors = model.encode(["one sentence", "another sentence"])
```""",
)


def model_card(config: TrainConfig, results: Mapping[str, Any], usage: Usage = CLASSIC) -> str:
    """Markdown for the README.md of a run's model.

    Args:
        config: the run's settings.
        results: the content of results.json.
        usage: how the folder that gets the card is loaded.
    """
    kept_start = results["model_step"] == 0
    title = "the starting encoder, unchanged" if kept_start else "adapted without labels"
    return f"""{heading(config.model, title, usage)}

{results["verdict"]["text"]}

{usage.text}

{_scores(results, kept_start)}

{_origin(config, results)}
- Licence of the start: {known_licence(config.model) or UNKNOWN_LICENCE}

```bibtex
{config.objective.paper.bibtex}
```
"""


def plain_card(model: str, about: str, usage: Usage) -> str:
    """Markdown for the README.md of a model that no run of isospace made.

    Args:
        model: what the user named: minilm, a folder, or a Hub name.
        about: e.g. "384 dimensions, pooling mean".
        usage: how the folder that gets the card is loaded.
    """
    return f"""{heading(model, "as it was given", usage)}

{usage.text}

- The model `{public_name(model)}` as it was given to isospace; {about}
- Licence of this model: {known_licence(model) or UNKNOWN_LICENCE}
- Method, training text and scores: not known here. This card states none; the model's own card may
"""


def heading(model: str, state: str, usage: Usage) -> str:
    """Front matter and title of a card.

    Args:
        model: what the card's model was made from: minilm, a folder, or a Hub name.
        state: what became of it, in a few words.
        usage: how the folder that gets the card is loaded.
    """
    lines = [f"library_name: {usage.library}", "pipeline_tag: sentence-similarity"]
    licence = known_licence(model)
    if licence is not None:
        lines.append(f"license: {licence}")
    if _is_hub_name(model):
        lines.append(f"base_model: {_hub_name(model)}")
    lines.append(f"tags: [{usage.library}, feature-extraction, sentence-similarity, isospace]")
    return "\n".join(["---", *lines, "---", "", f"# {public_name(model)}, {state}"])


def known_licence(model: str) -> str | None:
    """The licence that a model's own card states, `None` where no card on this machine does.

    Args:
        model: minilm, a folder, or a Hub name; the Hub itself is not asked.
    """
    card = _own_card(model)
    if card is None or not card.is_file():
        return None
    text = card.read_text(encoding="utf-8", errors="replace")
    block = re.match(r"---\r?\n(.*?)\n---", text, re.DOTALL)
    stated = re.search(r"^license:[ \t]*(\S.*?)\s*$", block[1] if block else "", re.MULTILINE)
    return stated[1].strip("\"'") if stated else None


def _own_card(model: str) -> Path | None:
    """Where a model's own card would be."""
    folder = wheel_minilm() if model == "minilm" else None
    if folder is None and Path(model).exists():
        folder = run_model(Path(model)) or Path(model)
    if folder is not None:
        return folder / "README.md"
    try:
        found = try_to_load_from_cache(_hub_name(model), "README.md")
    except ValueError:  # not even the name of a model, such as that of a folder that is gone
        return None
    return Path(found) if isinstance(found, str) else None


def _hub_name(model: str) -> str:
    return MINILM_HUB_NAME if model == "minilm" else model


def _is_hub_name(model: str) -> bool:
    return not Path(model).exists() and bool(re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", model))


def public_name(model: str) -> str:
    """A model's name without the folders above it, which are nobody's business."""
    return model if _is_hub_name(model) else Path(model).resolve().name


def _scores(results: Mapping[str, Any], kept_start: bool) -> str:
    """Scores before and after as tables, with their protocols."""
    before, after = (results[key]["scores"] for key in ("start", "result"))
    columns = {"start": before} if kept_start else {"start": before, "this model": after}
    rows = [
        {"x 100": name}
        | {column: f"{100 * scores['pairs'][key]:.2f}" for column, scores in columns.items()}
        for name, key in (("MRR", "mrr"), ("recall@1", "recall@1"), ("recall@10", "recall@10"))
    ]
    lines = [markdown_table(rows)]
    choice, labels = results["choice"], results["result"]["labels"]
    selected = f"dev-selected on {Path(labels).name}" if labels else f"rule {choice['rule']}"
    lines.append(f"\nProtocol: {results['verdict']['protocol']}; {before['pairs']['protocol']}.")
    lines.append(f"Checkpoint ({selected}): {choice['reason']}.")
    if before["sts"] is not None:
        sets = [name for name, value in before["sts"]["paper_row"].items() if value is not None]
        rows = [
            {"x 100": name}
            | {key: f"{scores['sts']['paper_row'][name]:.2f}" for key, scores in columns.items()}
            for name in sets
        ]
        lines.append(f"\n{markdown_table(rows)}\n\nProtocol: {_STS_PROTOCOL}.")
    return "\n".join(lines)


def _origin(config: TrainConfig, results: Mapping[str, Any]) -> str:
    """What the model was made from; the corpus by its size and digest only."""
    objective, corpus = config.objective, results["corpus"]
    counts = ", ".join(f"{count:,} {what}" for what, count in corpus["counts"].items() if count)
    return f"""- Start: `{public_name(config.model)}`; pooling: {results["pooling"]}
- Objective: `{objective_name(objective)}` ({objective.paper.title}, {objective.paper.year})
- Corpus: {corpus["sentences"]:,} sentences after cleaning (none is quoted here), digest
  `{corpus["digest"]}`; {counts}
- Updates: {results["steps"]} of {config.batch_size * config.accumulate} sentences, peak learning
  rate {config.learning_rate:g}, seed {config.seed}
- Made with isospace {results["isospace"]}"""
