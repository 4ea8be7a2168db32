"""The model card: what the model is, what it was measured at. Never a sentence of the corpus."""

from __future__ import annotations

from typing import Any

from isospace.config import TrainConfig, objective_name


def model_card(config: TrainConfig, results: dict[str, Any]) -> str:
    """Markdown for the README.md of a model folder.

    Args:
        config: the run's settings.
        results: the content of results.json.
    """
    kept_start = results["model_step"] == 0
    title = "the starting encoder, unchanged" if kept_start else "adapted without labels"
    return f"""---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-transformers, feature-extraction, sentence-similarity, isospace]
---

# {config.model}, {title}

{results["verdict"]["text"]}

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
vectors = model.encode(["one sentence", "another sentence"])
```

{_scores(results, kept_start)}

{_origin(config, results)}

```bibtex
{config.objective.paper.bibtex}
```
"""


def _scores(results: dict[str, Any], kept_start: bool) -> str:
    """Scores before and after as a table, with their protocol."""
    before, after = (results[key]["scores"]["pairs"] for key in ("start", "result"))
    columns = {"start": before} if kept_start else {"start": before, "this model": after}
    lines = ["| x 100 | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for name, key in (("MRR", "mrr"), ("recall@1", "recall@1"), ("recall@10", "recall@10")):
        cells = " | ".join(f"{100 * scores[key]:.2f}" for scores in columns.values())
        lines.append(f"| {name} | {cells} |")
    choice, labels = results["choice"], results["result"]["labels"]
    selected = f"dev-selected on {labels}" if labels else f"rule {choice['rule']}"
    lines.append(f"\nProtocol: {results['verdict']['protocol']}; {before['protocol']}.")
    lines.append(f"Checkpoint ({selected}): {choice['reason']}.")
    return "\n".join(lines)


def _origin(config: TrainConfig, results: dict[str, Any]) -> str:
    """What the model was made from; the corpus by its size and digest only."""
    objective, corpus = config.objective, results["corpus"]
    return f"""- Start: `{config.model}`; pooling: {results["pooling"]}
- Objective: `{objective_name(objective)}` ({objective.paper.title}, {objective.paper.year})
- Corpus: {corpus["sentences"]:,} sentences after cleaning (none is quoted here), digest
  `{corpus["digest"]}`
- Updates: {results["steps"]} of {config.batch_size * config.accumulate} sentences, peak learning
  rate {config.learning_rate:g}, seed {config.seed}
- Made with isospace {results["isospace"]}"""
