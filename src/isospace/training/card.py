"""The model card: what the model is, what it was measured at. Never a sentence of the corpus."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from isospace.config import TrainConfig, objective_name
from isospace.encoders.loading import MINILM_HUB_NAME, folder_of, run_model, wheel_minilm
from isospace.system.tables import markdown_table
from isospace.training.selection import kept

_STS_PROTOCOL = (
    "Spearman of the cosine; STS12-16 'all', STS-B and SICK-R (4,927 pairs) test; Avg is the plain "
    "mean of the seven"
)


@dataclass(frozen=True)
class Origin:
    """What a card says of the model that its own was made from, as seen when that happened.

    Attributes:
        name: without the folders above it, which are nobody's business.
        hub_name: its name on the Hub, `None` for a folder.
        licence: that its own card states, `None` where no card on this machine does.
    """

    name: str
    hub_name: str | None
    licence: str | None

    @classmethod
    def of(cls, model: str) -> Origin:
        """Of minilm, a folder, or a Hub name; the Hub itself is not asked."""
        folder = folder_of(model)
        if folder is None and re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", model):
            hub_name = MINILM_HUB_NAME if model == "minilm" else model
            return cls(model, hub_name, _stated_licence(_hub_card(model, hub_name)))
        path = folder or Path(model).expanduser()
        card = (run_model(path) or path) / "README.md"
        return cls(path.resolve().name, None, _stated_licence(card))

    @property
    def licence_text(self) -> str:
        """The licence in words."""
        return self.licence or "unknown: see the base model"


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
    origin = Origin(**results["origin"])
    return f"""{heading(origin, title, usage)}

{results["verdict"]["text"]}

{usage.text}

{_scores(results, kept_start)}

- Start: `{origin.name}`; pooling: {results["pooling"]}
{_training(config, results)}
- Licence of the start: {origin.licence_text}

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
    origin = Origin.of(model)
    return f"""{heading(origin, "as it was given", usage)}

{usage.text}

- The model `{origin.name}` as it was given to isospace; {about}
- Licence of this model: {origin.licence_text}
- Method, training text and scores: not known here. This card states none; the model's own card may
"""


def heading(origin: Origin, state: str, usage: Usage) -> str:
    """Front matter and title of a card.

    Args:
        origin: what the card's model was made from.
        state: what became of it, in a few words.
        usage: how the folder that gets the card is loaded.
    """
    lines = [f"library_name: {usage.library}", "pipeline_tag: sentence-similarity"]
    if origin.licence is not None:
        lines.append(f"license: {origin.licence}")
    if origin.hub_name is not None:
        lines.append(f"base_model: {origin.hub_name}")
    lines.append(f"tags: [{usage.library}, feature-extraction, sentence-similarity, isospace]")
    return "\n".join(["---", *lines, "---", "", f"# {origin.name}, {state}"])


def _stated_licence(card: Path | None) -> str | None:
    if card is None or not card.is_file():
        return None
    text = card.read_text(encoding="utf-8", errors="replace")
    block = re.match(r"---\r?\n(.*?)\n---", text, re.DOTALL)
    stated = re.search(r"^license:[ \t]*(\S.*?)\s*$", block[1] if block else "", re.MULTILINE)
    return stated[1].strip("\"'") if stated else None


def _hub_card(model: str, hub_name: str) -> Path | None:
    """Where the card of a model on the Hub is on this machine."""
    wheel = wheel_minilm() if model == "minilm" else None
    if wheel is not None:
        return wheel / "README.md"
    try:
        found = try_to_load_from_cache(hub_name, "README.md")
    except ValueError:  # no name that the Hub could have
        return None
    return Path(found) if isinstance(found, str) else None


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
    lines.append(f"Checkpoint ({selected}): {kept(results)}.")
    if before["sts"] is not None:
        sets = [name for name, value in before["sts"]["paper_row"].items() if value is not None]
        rows = [
            {"x 100": name}
            | {key: f"{scores['sts']['paper_row'][name]:.2f}" for key, scores in columns.items()}
            for name in sets
        ]
        lines.append(f"\n{markdown_table(rows)}\n\nProtocol: {_STS_PROTOCOL}.")
    return "\n".join(lines)


def _training(config: TrainConfig, results: Mapping[str, Any]) -> str:
    """How the model was made; the corpus by its size and digest only."""
    objective, corpus = config.objective, results["corpus"]
    counts = ", ".join(f"{count:,} {what}" for what, count in corpus["counts"].items() if count)
    paper = f"{objective.paper.title}, {objective.paper.year}"
    return f"""- Objective: `{objective_name(objective)}` ({paper})
- Corpus: {corpus["sentences"]:,} sentences after cleaning (none is quoted here), digest
  `{corpus["digest"]}`; {counts}
- Updates: {results["steps"]} of {config.batch_size * config.accumulate} sentences, peak learning
  rate {config.learning_rate:g}, seed {config.seed}
- Made with isospace {results["isospace"]}"""
