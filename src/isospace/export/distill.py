"""Distillation of an encoder to a static twin: averaged word vectors that replace it on one corpus.

The vectors start as the encoder's vectors of word pieces, and are trained on pairs of the corpus. A
twin for queries only is trained against the encoder's document vectors, so it can search an index
of them. Validation pairs select the table of vectors; test pairs compare twin and encoder.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

from isospace.config import DistillConfig, TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.corpus.groups import evenly
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.modules import require_one_way, routed
from isospace.encoders.saving import save_model
from isospace.encoders.settings import Prompts
from isospace.errors import TooLittle, UserError
from isospace.evaluation.benchmark import BenchmarkScores, hard_pairs, table_rows
from isospace.evaluation.other_text import (
    OtherTextScores,
    other_text_rows,
    other_text_scores,
    other_text_words,
)
from isospace.evaluation.pairs import PromptedEncoders, cached, remembering
from isospace.evaluation.retrieval import evaluate_retrieval, halves, mrr_of_items
from isospace.evaluation.sts import sts_data
from isospace.export.static_words import (
    TrainingPairs,
    bags_of,
    corpus_tokenizer,
    initial_table,
    means,
    pieces_of,
    train_table,
)
from isospace.recipes import find
from isospace.statistics.gains import Gain, Scores, gain
from isospace.statistics.verdict import counted
from isospace.system import typed_json
from isospace.system.files import atomic_folder, cache_folder, require_new
from isospace.system.lifecycle import stoppable
from isospace.system.progress import Logged, Progress
from isospace.system.tables import markdown_table
from isospace.training.card import CLASSIC, Usage, classic_usage, heading
from isospace.training.examples import related_texts
from isospace.training.prepare import Data, load_data, say_corpus
from isospace.training.results import Origin
from isospace.training.run import Run, run_of
from isospace.training.train import ModelScores

FILE = "distill.json"
ENCODER, TWIN, QUERIES = "encoder", "static twin", "static queries"
"""Names of the models in tables."""

_FULL = f"""The twin is for queries and documents of this corpus. Encode both with it. Vectors are
not of length 1: compare them by cosine.

```python
from model2vec import StaticModel  # without torch

model = StaticModel.from_pretrained("path/to/this/folder")
vectors = model.encode(["one sentence", "another sentence"])
```

sentence-transformers loads the same folder:

{CLASSIC.text}"""
_QUERIES = f"""Queries pass static word vectors; documents pass the encoder. An index of the
encoder's vectors stays as it is. Compare vectors by cosine.

Where queries come in, load the static part alone, without torch:

```python
from model2vec import StaticModel

queries = StaticModel.from_pretrained("path/to/this/folder/query_0_StaticEmbedding")
vectors = queries.encode(["what is looked for"])
```

Where documents are encoded, load both parts:

{classic_usage(Prompts(default_route="document")).text}"""


@dataclass(frozen=True)
class TwinResults:
    """Results of a distillation, stored as distill.json in the twin's folder.

    Attributes:
        queries_only: true if documents keep the encoder.
        pieces: size of the vocabulary.
        evaluations: updates and validation MRR of each evaluated table.
        loss: change in MRR from the encoder to the twin.
        base: MRR of the run's base model; `None`, as `over_base`, without an adapted model.
        other_text: set of other text -> scores of the encoder (`base`) and the twin (`adapted`).
    """

    isospace: str
    model: str
    queries_only: bool
    corpus: str
    pieces: int
    dim: int
    pairs: int
    updates: int
    evaluations: tuple[tuple[int, float], ...]
    encoder: BenchmarkScores
    twin: BenchmarkScores
    protocol: str
    loss: Gain
    base: float | None
    over_base: Gain | None
    other_text: dict[str, OtherTextScores]
    unit: str
    seconds: float
    format: int = 4

    @property
    def name(self) -> str:
        """Name of the twin in tables."""
        return QUERIES if self.queries_only else TWIN

    @property
    def share(self) -> float:
        """Share of the encoder's nDCG@10 that the twin reaches."""
        before, after = (one.pairs.values["nDCG@10"] for one in (self.encoder, self.twin))
        return after / before if before else 0.0

    @property
    def verdict(self) -> str:
        """Sentences on the twin's loss against the encoder and its gain over the base model."""
        said = (
            f"{self.name.capitalize()}: {100 * self.share:.1f} % of the encoder's nDCG@10; "
            f"{self.loss} against the encoder in {self.protocol}; {counted(self.loss, self.unit)}."
        )
        if self.over_base is not None:
            said += f" Against the base model: {self.over_base}."
        return said

    @property
    def other_words(self) -> str:
        """The twin's loss on other text in words; empty without other text."""
        words = other_text_words({name: one.gain for name, one in self.other_text.items()})
        return f"{words} against the encoder: the twin is for this corpus alone" if words else ""

    def how_to_load(self, folder: Path | None) -> str:
        """Return code that loads the folder without torch."""
        part = "/query_0_StaticEmbedding" if self.queries_only else ""
        return f'model2vec.StaticModel.from_pretrained("{folder}{part}")'

    def tables(self) -> list[tuple[str, list[dict[str, str]]]]:
        """Return the titles and rows of the result tables."""
        rows = table_rows("model", {ENCODER: self.encoder, self.name: self.twin})
        tables = [(f"on the test pairs, scores x 100 ({self.protocol})", rows)]
        if self.other_text:
            rows = other_text_rows(self.other_text, ENCODER, self.name)
            tables.append(("on other text, MRR x 100", rows))
        return tables


def read_results(folder: Path) -> TwinResults:
    """Read distill.json from the folder of a twin."""
    return typed_json.read(folder / FILE, TwinResults, "results of distill")


def twin_card(results: TwinResults) -> str:
    """Return the README.md of the folder; it quotes no text of the corpus."""
    origin = Origin.from_model(results.model)
    usage = Usage(CLASSIC.library, _QUERIES if results.queries_only else _FULL)
    tables = "\n\n".join(f"{title}:\n\n{markdown_table(rows)}" for title, rows in results.tables())
    other = f"On other text: {results.other_words}.\n\n" if results.other_words else ""
    return f"""{heading(origin, results.name, usage)}

{results.verdict}

{other}## How to use

{usage.text}

{tables}

- Made of the encoder `{origin.name}` by `isospace distill`
- {results.pieces:,} vectors of word pieces, {results.dim} dimensions; a text's vector is their mean
- Trained on {results.pairs:,} pairs of texts of the corpus (none is quoted here), digest
  `{results.corpus}`; {results.updates:,} updates
- Licence of the encoder: {origin.licence_text}
- Made with isospace {results.isospace}
"""


MOST_PAIRS = 200_000
"""Maximal number of training pairs."""
MOST_DOCUMENTS = 10_000
"""Maximal number of pairs if the encoder encodes their documents: two minutes on two cores."""
_PASSAGES = 50_000
"""Maximal number of training passages, besides the texts of pairs, for the vocabulary."""


@dataclass(frozen=True)
class _Task:
    """The settings, models and texts of a distillation."""

    config: DistillConfig
    settings: TrainConfig
    run: Run | None
    encoder: Encoder
    encode: PromptedEncoders
    data: Data
    progress: Progress


@dataclass(frozen=True)
class _Words:
    """A static model: a tokenizer and a table of vectors."""

    tokenizer: Tokenizer
    table: torch.Tensor

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, (text, dim)."""
        return means(bags_of(self.tokenizer, texts), self.table).numpy()


def distill(config: DistillConfig, progress: Progress | None = None) -> TwinResults:
    """Make a static twin, compare it with the encoder, and write it.

    Raises:
        UserError: the input is invalid; most errors come before the corpus is encoded.
        Interrupted: a signal stopped the command; nothing was written.
    """
    started = time.monotonic()
    with stoppable(lambda: "nothing was written. Run the same command again"):
        folder = require_new(config.output)
        task = _load(config, progress or Logged())
        words, training, evaluations = _train(task)
        twin: PromptedEncoders = _twin(task, words)
        results = _results(task, words, training, evaluations, twin, started)
        with atomic_folder(folder) as building:
            _write(task, words, results, building)
            typed_json.write(building / FILE, results)
    return results


def _load(config: DistillConfig, progress: Progress) -> _Task:
    run = run_of(config.model)
    if run is None and not config.text.corpus:
        raise UserError(f"`model` {config.model}: not the folder of a run. Name the `corpus` too")
    settings = text_settings(config, run)
    encoder = load_encoder(config.model)
    require_one_way(encoder.prompts, config.model, "distillation")
    data = load_data(replace(settings, model=config.model))
    say_corpus(data.corpus, settings.pairs is not None, progress)
    encode = remembering(cached(encoder, cache_folder(), progress=progress))
    return _Task(config, settings, run, encoder, encode, data, progress)


def text_settings(config: DistillConfig, run: Run | None) -> TrainConfig:
    """Return the settings by which texts and pairs are read, for the model of a run or another."""
    settings = find("pairs").config if run is None else run.config
    text = config.text if config.text.corpus else settings.text
    return replace(settings, text=text, views="pairs", batch_size=2, data=sts_data(settings.data))


def _training_texts(
    settings: TrainConfig, corpus: Corpus, most: int
) -> tuple[list[str], list[str]]:
    """Return both sides of the training pairs; for lines of text, the halves of sentences."""
    first, second = related_texts(settings, corpus, most)
    if not first:
        lines = corpus.train_rows[evenly(len(corpus.train_rows), most)]
        pairs = halves([corpus[line] for line in lines.tolist()])
        first, second = list(pairs.first), list(pairs.second)
    if len(first) < 2:
        corpora = " ".join(settings.text.corpus)
        raise TooLittle(f"`corpus` {corpora}: fewer than two pairs to train on. Give more text")
    return first, second


def _train(task: _Task) -> tuple[_Words, TrainingPairs, tuple[tuple[int, float], ...]]:
    """Make the vocabulary and train its vectors; the last result is `TwinResults.evaluations`."""
    corpus, held_out = task.data.corpus, task.data.held_out
    most = MOST_DOCUMENTS if task.config.queries_only else MOST_PAIRS
    first, second = _training_texts(task.settings, corpus, most)
    lines = corpus.train_rows[evenly(len(corpus.train_rows), _PASSAGES)].tolist()
    texts = dict.fromkeys([*first, *second, *(corpus[line] for line in lines)])
    tokenizer = corpus_tokenizer(texts)
    pieces = pieces_of(tokenizer)
    numbers = {text: number for number, text in enumerate(dict.fromkeys([*first, *second]))}
    names = np.array([[numbers[a], numbers[b]] for a, b in zip(first, second, strict=True)])
    bags = [bags_of(tokenizer, side) for side in (first, second)]
    table = initial_table(task.encode.documents(pieces), *bags)
    partners: csr_matrix | torch.Tensor = bags[1]
    if task.config.queries_only:
        partners = torch.from_numpy(task.encode.documents(second))
    pairs = TrainingPairs(bags[0], partners, names)
    task.progress.line("words", f"{len(pieces):,} pieces, trained on {len(first):,} pairs of texts")
    score = None
    if task.data.benchmark.split:
        validation = hard_pairs(corpus, held_out)

        def score(table: torch.Tensor) -> float:
            return evaluate_retrieval(_twin(task, _Words(tokenizer, table)), validation).mrr

    with task.progress.bar("train", pairs.updates) as advance:
        table, evaluations = train_table(table, pairs, score, task.config.seed, advance)
    return _Words(tokenizer, table), pairs, evaluations


def _twin(task: _Task, words: _Words) -> PromptedEncoders:
    documents = task.encode.documents if task.config.queries_only else words
    return PromptedEncoders(words, documents, documents)


def _results(
    task: _Task,
    words: _Words,
    pairs: TrainingPairs,
    evaluations: tuple[tuple[int, float], ...],
    twin: PromptedEncoders,
    started: float,
) -> TwinResults:
    """Compare the twin with the encoder on the test pairs and on other text."""
    data, benchmark = task.data, task.data.benchmark
    before, after = (
        ModelScores.measure(encode, data, benchmark.select_weight(encode, data.held_out))
        for encode in (task.encode, twin)
    )
    scores, reference = (benchmark.pair_scores(one.measured.retrieval) for one in (after, before))
    base, protocol = _base(task), benchmark.protocol
    if task.run is not None and task.settings.text == task.run.config.text:
        protocol += task.run.finished.trained_on
    return TwinResults(
        isospace=version("isospace"),
        model=task.config.model,
        queries_only=task.config.queries_only,
        corpus=data.corpus.digest,
        pieces=len(words.table),
        dim=words.table.shape[1],
        pairs=pairs.first.shape[0],
        updates=pairs.updates,
        evaluations=evaluations,
        encoder=before.measured.scores,
        twin=after.measured.scores,
        protocol=protocol,
        loss=gain(scores, reference),
        base=None if base is None else base.mean,
        over_base=None if base is None else gain(scores, base),
        other_text=other_text_scores(before.other_text, after.other_text),
        unit=benchmark.pairs.unit,
        seconds=time.monotonic() - started,
    )


def _base(task: _Task) -> Scores | None:
    """Return the base model's MRR that the run has measured on the same test pairs, if any."""
    run, benchmark = task.run, task.data.benchmark
    if run is None or run.finished.ships_base or run.finished.benchmark != benchmark.digest():
        return None
    groups = benchmark.pairs.group_numbers()
    return mrr_of_items([run.items("before")], "MRR", groups)


def _write(task: _Task, words: _Words, results: TwinResults, folder: Path) -> None:
    """Write the twin for sentence-transformers and model2vec, and verify the folder."""
    encoder, prompts = task.encoder, task.encoder.prompts
    modules = [StaticEmbedding(words.tokenizer, embedding_weights=words.table.numpy())]
    model, source = SentenceTransformer(modules=list(modules), device="cpu"), "the twin"
    if task.config.queries_only:
        model, source = routed(modules, encoder.model), encoder.source
        prompts = replace(prompts, query="")
    save_model(Encoder(model, source, prompts), folder, twin_card(results), replace=False)
