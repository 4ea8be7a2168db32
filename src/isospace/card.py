"""The model card: what the model is, what it was measured at. Never a sentence of the corpus."""

from __future__ import annotations

from typing import Any

from isospace.config import TrainConfig, objective_name


def model_card(config: TrainConfig, results: dict[str, Any]) -> str:
    """Markdown for the README.md of a model folder.

    Args:
        config: the run's settings.
        results: the content of results.json but for the verdict's own model entry.
    """
    objective = config.objective
    corpus, verdict = results["corpus"], results["verdict"]
    before, after = results["start"]["scores"]["pairs"], results["result"]["scores"]["pairs"]
    scores = "\n".join(
        f"| {name} | {100 * before[key]:.2f} | {100 * after[key]:.2f} |"
        for name, key in (("MRR", "mrr"), ("recall@1", "recall@1"), ("recall@10", "recall@10"))
    )
    return f"""---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-transformers, feature-extraction, sentence-similarity, isospace]
---

# {config.model}, adapted without labels

{verdict["text"]}

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
vectors = model.encode(["one sentence", "another sentence"])
```

| x 100 | start | this model |
|---|---|---|
{scores}

Protocol: {verdict["protocol"]}; {after["protocol"]}. Checkpoint: {results["choice"]["reason"]}
(rule: {results["choice"]["rule"]}).

- Start: `{config.model}`; pooling: {results["pooling"]}
- Objective: `{objective_name(objective)}` ({objective.paper.title}, {objective.paper.year})
- Corpus: {corpus["sentences"]:,} sentences after cleaning (none is quoted here), digest
  `{corpus["digest"]}`
- Updates: {results["steps"]} of {config.batch_size * config.accumulate} sentences, peak learning
  rate {config.learning_rate:g}, seed {config.seed}
- Made with isospace {results["isospace"]}

```bibtex
{objective.paper.bibtex}
```
"""
