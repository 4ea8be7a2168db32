"""The model card: what the model is, how to use it, and its scores; no text of the corpus."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sentence_transformers.sentence_transformer.modules import Router

from isospace.config import TrainConfig, objective_name
from isospace.encoders.encoder import Encoder
from isospace.encoders.endpoint_vectors import ABOUT
from isospace.encoders.frozen import MAP, FrozenEncoder, maps_of
from isospace.encoders.settings import Prompts
from isospace.errors import number_of
from isospace.evaluation.benchmark import SAME_PAIRS
from isospace.evaluation.other_text import PROTOCOL, other_text_rows
from isospace.evaluation.sts import PAPER_PROTOCOL
from isospace.system.tables import markdown_table
from isospace.training.results import Origin, RunResults


@dataclass(frozen=True)
class Usage:
    """Instructions to load a model folder: the library's name on the Hub, and code in Markdown."""

    library: str
    text: str


_BOTH_SIDES = """queries = model.encode_query(["what is looked for"])
documents = model.encode_document(["one text", "another text"])"""


def classic_usage(prompts: Prompts) -> Usage:
    """Return how to load a sentence-transformers folder whose model has these prompts."""
    encoding = 'vectors = model.encode(["one sentence", "another sentence"])'
    if prompts.query or prompts.document or prompts.routed:
        encoding = _BOTH_SIDES
    code = f"""```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
{encoding}
```"""
    note = f"\n\n{prompts_text(prompts)}" if prompts.summary else ""
    return Usage("sentence-transformers", f"{code}{note}")


CLASSIC = classic_usage(Prompts())


def prompts_text(prompts: Prompts) -> str:
    """Describe the prompts for a card."""
    return f"Put before every text (its prompt): {prompts.summary}."


def model_card(
    config: TrainConfig, results: RunResults, pooling: str, usage: Usage = CLASSIC
) -> str:
    """Return the Markdown of a run's model card."""
    title = f"adapted {'with' if config.objective.reads_labels else 'without'} labels"
    made = f"- Made of the base model's weights: {results.candidate}"
    cited = ""
    if results.ships_base:
        title = "the base model, unchanged"
        made = f"- Tried, but not kept: {_tried(config, results)}"
    elif results.model_step:
        made = _training(config, results)
        cited = f"\n```bibtex\n{config.objective.paper.bibtex}\n```\n"
    origin = results.origin
    corpus = results.corpus
    counts = ", ".join(number_of(count, what) for what, count in corpus.counts.items() if count)
    return f"""{heading(origin, title, usage)}

{results.summary}

{usage.text}

{_scores(results)}

- Base model: `{origin.name}`; pooling: {results.training.pooling}
- This model's pooling: {pooling}
{made}
- Corpus: {corpus.sentences:,} sentences after cleaning (none is quoted here), digest
  `{corpus.digest}`; {counts}
- Took {results.training.cost}
- Made with isospace {results.isospace}
- Licence of the base model: {origin.licence_text}
{cited}"""


def plain_card(model: str, about: str, usage: Usage) -> str:
    """Return the Markdown of the card of a model that no run of isospace made.

    `model` is the name that the user gave; `about` is text such as "384 dimensions, pooling mean".
    """
    origin = Origin.from_model(model)
    return f"""{heading(origin, "as it was given", usage)}

{usage.text}

- The model `{origin.name}` as it was given to isospace; {about}
- Licence of this model: {origin.licence_text}
- Method, training text and scores: not known here. This card states none; the model's own card may
"""


def heading(origin: Origin, state: str, usage: Usage) -> str:
    """Return front matter and title of a card.

    `state` says in a few words what was done to the base model.
    """
    lines = [f"library_name: {usage.library}", "pipeline_tag: sentence-similarity"]
    if origin.licence is not None:
        lines.append(f"license: {origin.licence}")
    if origin.hub_name is not None:
        lines.append(f"base_model: {origin.hub_name}")
    tags = dict.fromkeys([usage.library, "feature-extraction", "sentence-similarity", "isospace"])
    lines.append(f"tags: [{', '.join(tags)}]")
    return "\n".join(["---", *lines, "---", "", f"# {origin.name}, {state}"])


def _scores(results: RunResults) -> str:
    rows = results.before_and_after("" if results.ships_base else "this model", "x 100")
    selected = f"rule {results.training.choice.rule}"
    if results.labels:
        selected = f"dev-selected on {Path(results.labels).name}"
    lines = [
        markdown_table(rows),
        f"\nProtocol: {results.verdict.protocol}; {results.base.pairs.protocol}.",
        f"Checkpoint ({selected}): {results.kept}.",
        f"+ BM25: hybrid search, weight {results.base.with_bm25.weight:g}.",
    ]
    if not results.split:
        lines.append(f"The same pairs selected and tested: {SAME_PAIRS}.")
    if results.base.sts is not None:
        lines.append(f"STS: {PAPER_PROTOCOL}.")
    if not results.ships_base and results.other_text:
        table = markdown_table(other_text_rows(results.other_text))
        lines.append(f"\n{table}\n\nOther text, x 100: {PROTOCOL}; gains with 95 % intervals.")
    return "\n".join(lines)


def _tried(config: TrainConfig, results: RunResults) -> str:
    if not results.training.steps:
        return "post-processing, without training"
    updates = number_of(results.training.steps, "updates")
    return f"training with the objective `{objective_name(config.objective)}`, {updates}"


def _training(config: TrainConfig, results: RunResults) -> str:
    objective = config.objective
    paper = f"{objective.paper.title}, {objective.paper.year}"
    unit = "sentences" if config.views == "dropout" else "pairs"
    how = f"""- Objective: `{objective_name(objective)}` ({paper})
- Updates: {results.training.steps} of {config.batch_size * config.accumulate} {unit}, peak learning
  rate {config.learning_rate:g}, seed {config.seed}"""
    if config.views != "dropout":
        how += "\n- Trained on pairs of texts of the corpus that belong together"
        how += " and on single texts" if config.views == "both" else ""
    if config.teacher is not None:
        how += "\n- It follows the ranking of a teacher"
    return how


def how_to_load(folder: Path) -> str:
    """Return the Python call that loads the model of a folder."""
    loader = "isospace.load" if (folder / ABOUT).is_file() else "SentenceTransformer"
    return f'{loader}("{folder}")'


_DEPLOY = """## How to deploy

Documents keep the vectors of the base model, bit for bit. Keep the index, and encode queries with
this model (`encode_query`). Encode new documents with this model (`encode_document`) or with the
base model."""
_TWO = """The model holds two encoders: a fine-tuned one for queries, and the base model for
documents."""
_DEPLOY_MAP = """If an embedding API makes the vectors, map those of queries by the matrix in this
folder:
"""


def _in_numpy(file: str, what: str, layer: str = "") -> str:
    """Return the code that maps vectors of `what` by a file; `layer` is the prefix of its keys."""
    return f"""```python
import numpy as np
from safetensors.numpy import load_file

own = load_file("path/to/this/folder/{file}")

def map_vectors(vectors):  # one vector of {what}, or (n, dim) of several
    mapped = np.asarray(vectors) @ own["{layer}weight"].T + own.get("{layer}bias", 0)
    return mapped / np.linalg.norm(mapped, axis=-1, keepdims=True)
```"""


def usage_of(encoder: Encoder) -> Usage:
    """Return the usage of a model, with the code that maps queries or vectors of a server."""
    if isinstance(encoder, FrozenEncoder):
        return _usage_of_maps(encoder)
    usage = classic_usage(encoder.prompts)
    if not encoder.prompts.routed:
        return usage
    own = _TWO
    if not isinstance(encoder.model[0], Router):  # the matrix of `adaptation.fitting.fold_queries`
        file = f"{len(encoder.model) - 1}_Router/query_0_Dense/model.safetensors"
        own = f"{_DEPLOY_MAP}\n{_in_numpy(file, 'a query', 'linear.')}"
    return Usage(usage.library, "\n\n".join([usage.text, _DEPLOY, own]))


def _usage_of_maps(encoder: FrozenEncoder) -> Usage:
    name, prompts, maps = encoder.given.name, encoder.prompts, maps_of(encoder)
    does = "maps them" if maps else "leaves them as they are"
    text = f"""The vectors come from `{name}`, and this folder {does}. With isospace:

```python
import isospace

model = isospace.load("path/to/this/folder", endpoint="{name}")
{_BOTH_SIDES}
```"""
    if prompts.summary:
        text += f"\n\n{prompts_text(prompts)}"
    for file in maps:
        what = "a query" if file != MAP else "a document" if prompts.routed else "a text"
        text += (
            f"\n\nWithout isospace, map the vectors of {what} by `{file}.safetensors`.\n\n"
            + _in_numpy(f"{file}.safetensors", what)
        )
    if prompts.routed and len(maps) == 1:
        text += "\n\nDocuments keep the vectors that they have, and so does an index of them."
    return Usage("isospace", text)
