"""The model card: what the model is, and its scores. It never contains text of the corpus."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isospace.config import TrainConfig, objective_name
from isospace.encoders.prompts import Prompts
from isospace.evaluation.other_text import PROTOCOL, other_text_rows
from isospace.evaluation.scores import BASE, CORRECTED, CORRECTED_NOTE, GAIN, gain_cells
from isospace.evaluation.task import percent_cells
from isospace.statistics.counts import number_of
from isospace.system.files import expanded
from isospace.system.tables import markdown_table
from isospace.training.lists import BM25, names_of
from isospace.training.origin import Origin
from isospace.training.results import RunResults

_STS_PROTOCOL = (
    "Spearman of the cosine; STS12-16 'all', STS-B and SICK-R (4,927 pairs) test; Avg is the plain "
    "mean of the seven"
)


@dataclass(frozen=True)
class Usage:
    """Instructions to load a model folder: the library's name on the Hub, and code in Markdown."""

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


def classic_usage(prompts: Prompts) -> Usage:
    """Return how to load a sentence-transformers folder whose model has these prompts."""
    if not (prompts.query or prompts.document or prompts.routed):
        return CLASSIC
    code = CLASSIC.text.replace(
        'vectors = model.encode(["one sentence", "another sentence"])',
        'queries = model.encode_query(["what is looked for"])\n'
        'documents = model.encode_document(["one text", "another text"])',
    )
    note = f"\n\n{prompts_text(prompts)}" if prompts.summary else ""
    return Usage(CLASSIC.library, f"{code}{note}")


def prompts_text(prompts: Prompts) -> str:
    """Describe the prompts for a card."""
    return f"Put before every text (its prompt): {prompts.summary}."


def model_card(
    config: TrainConfig, results: RunResults, pooling: str, usage: Usage = CLASSIC
) -> str:
    """Return the Markdown of a run's model card."""
    title = f"adapted {'with' if config.objective.reads_labels else 'without'} labels"
    if results.ships_base:
        title = "the base model, unchanged"
    origin = results.origin
    cited = ""
    if not _untrained(results):
        cited = f"\n```bibtex\n{config.objective.paper.bibtex}\n```\n"
    return f"""{heading(origin, title, usage)}

{results.summary}

{usage.text}

{_scores(results)}

- Base model: `{origin.name}`; pooling: {results.pooling}
- {_reading(pooling)}
{_training(config, results)}
- Licence of the base model: {origin.licence_text}
{cited}"""


def _untrained(results: RunResults) -> bool:
    """Return true if the model has the base model's weights and a map behind them."""
    return results.model_step == 0 and bool(results.candidate)


def _reading(pooling: str) -> str:
    """Describe how the model pools token states."""
    if pooling == "mask":
        return (
            "This model's pooling: mask, the state at the mask token of a template that its "
            "tokenizer puts around every text"
        )
    return f"This model's pooling: {pooling}"


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
    """Return front matter and title of a card, and a line if the model's own code was trusted.

    `state` says in a few words what was done to the base model.
    """
    lines = [f"library_name: {usage.library}", "pipeline_tag: sentence-similarity"]
    if origin.licence is not None:
        lines.append(f"license: {origin.licence}")
    if origin.hub_name is not None:
        lines.append(f"base_model: {origin.hub_name}")
    tags = dict.fromkeys([usage.library, "feature-extraction", "sentence-similarity", "isospace"])
    lines.append(f"tags: [{', '.join(tags)}]")
    trusted = ["", origin.code_text] if origin.trusted else []
    return "\n".join(["---", *lines, "---", "", f"# {origin.name}, {state}", *trusted])


def _scores(results: RunResults) -> str:
    """Return tables of the scores before and after, with their protocols."""
    columns = {BASE: results.base}
    shipped = BASE
    if not results.ships_base:
        shipped = "this model"
        columns[shipped] = results.adapted
    pairs, with_bm25 = {n: own.pairs for n, own in columns.items()}, columns[shipped].with_bm25
    if with_bm25 is not None:
        pairs |= {"BM25": with_bm25.bm25, f"{shipped} + BM25": with_bm25.hybrid}
    cells = {column: percent_cells(own.row()) for column, own in pairs.items()}
    rows = [
        {"x 100": f"recall{measure[1:]}" if measure.startswith("R@") else measure}
        | {column: own.get(measure, "") for column, own in cells.items()}
        for measure in cells[BASE]
    ]
    if gains := results.over_base("this model"):
        gained = gain_cells({column: own.mrr for column, own in pairs.items()}, gains)
        rows[1:1] = [
            {"x 100": measure} | {column: gained[column][measure] for column in cells}
            for measure in gained[shipped]
        ]
    selected = f"rule {results.choice.rule}"
    if results.labels:
        selected = f"dev-selected on {Path(results.labels).name}"
    lines = [
        markdown_table(rows),
        f"\nProtocol: {results.verdict.protocol}; {results.base.pairs.protocol}.",
        f"Checkpoint ({selected}): {results.kept}.",
    ]
    if with_bm25 is not None:
        lines.append(f"+ BM25: fused by cosine and BM25, weight {with_bm25.weight:g}.")
    if gains:
        note = f" {CORRECTED_NOTE}." if CORRECTED in gained[shipped] else ""
        lines.append(f"{GAIN}: with 95 % intervals for other pairs.{note}")
    if not results.ships_base and results.other_text:
        table = markdown_table(other_text_rows(results.other_text))
        lines.append(f"\n{table}\n\nOther text, x 100: {PROTOCOL}; gains with 95 % intervals.")
    if results.base.sts is not None:
        rows = [
            {"x 100": name} | {column: scores.cells()[name] for column, scores in columns.items()}
            for name in results.base.sts.known()
        ]
        lines.append(f"\n{markdown_table(rows)}\n\nProtocol: {_STS_PROTOCOL}.")
    return "\n".join(lines)


def _training(config: TrainConfig, results: RunResults) -> str:
    """Describe how the model was made; of the corpus, only its size and digest."""
    objective, corpus = config.objective, results.corpus
    counts = ", ".join(number_of(count, what) for what, count in corpus.counts.items() if count)
    paper = f"{objective.paper.title}, {objective.paper.year}"
    unit = "sentences" if config.views == "dropout" else "pairs"
    how = f"""- Objective: `{objective_name(objective)}` ({paper})
- Updates: {results.steps} of {config.batch_size * config.accumulate} {unit}, peak learning
  rate {config.learning_rate:g}, seed {config.seed}"""
    if config.views != "dropout":
        how += "\n- Trained on pairs of texts of the corpus that belong together"
        how += " and on single texts" if config.views == "both" else ""
    if config.teacher is not None:
        how += f"\n- Teacher, whose ranking was followed: {_without_folders(config.teacher)}"
    if _untrained(results):
        how = f"- Made of the base model's weights: {results.candidate}"
    return f"""{how}
- Corpus: {corpus.sentences:,} sentences after cleaning (none is quoted here), digest
  `{corpus.digest}`; {counts}
- Took {results.cost}
- Made with isospace {results.isospace}"""


def _without_folders(teacher: str) -> str:
    """Return the teachers' names without their parent folders, which are private."""
    shown = []
    for name in names_of(teacher):
        base = name.removesuffix(BM25)
        path = expanded(base.rpartition(":")[2])  # glove:FILE
        local = path.exists() or path.is_absolute() or base.startswith(".")
        shown.append(f"`{path.name if local else base}{name[len(base) :]}`")
    return ", ".join(shown)
