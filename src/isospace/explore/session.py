"""The session behind the pages: a corpus or a run of adapt, and vectors by one or two models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isospace.adaptation.results import ChangedQuery, SearchResults, read_candidates
from isospace.config import CorpusConfig
from isospace.corpus.corpus import load_corpus
from isospace.corpus.lines import clean
from isospace.corpus.relations import FIRST_REST
from isospace.encoders.encoder import Encoder
from isospace.encoders.loading import as_encoder
from isospace.encoders.settings import EncoderSettings, Precision
from isospace.errors import UserError, number_of
from isospace.evaluation.pairs import Encode, PromptedEncoders, sided
from isospace.evaluation.retrieval import Targets
from isospace.operators.nearest import highest, unit_rows
from isospace.system.files import cache_folder
from isospace.system.progress import Logged, Progress
from isospace.system.unicode import without_surrogates
from isospace.training.prepare import base_encoder, data_of
from isospace.training.run import Run, run_of

LONGEST = 2000
"""Largest number of characters of a query or sentence."""
LONGEST_SHOWN = 400
"""Largest number of shown characters of a text; a corpus can hold a book in one line."""
MOST_NEIGHBOURS = 100
MOST_SENTENCES = 40
"""Largest number of sentences in a heat map."""
SAMPLE = 1000
"""Number of texts for measuring the geometry; a run keeps as many."""

_EXAMPLES, _CANDIDATES = 5, 50
_EXAMPLE_LENGTH = 60  # characters: enough for a meaning, and fits into a line
_SEED = 0


@dataclass(frozen=True)
class Model:
    """An encoder, A or B, and its unit vectors (text, dim) of the corpus.

    `sample` are the (n, dim) vectors of the texts at `sample_rows`, as the encoder returns them.
    """

    letter: str
    name: str
    encode: Encode
    vectors: NDArray[np.float32]
    sample: NDArray[np.float32]


@dataclass(frozen=True)
class RankedNeighbour:
    """A text of the corpus near a query, with its cosine; `shared` if both models list it.

    `other_rank` is its rank by the other model, from 1; `None` with one model.
    """

    text: str
    cosine: float
    other_rank: int | None
    shared: bool


@dataclass(frozen=True)
class NeighboursByModel:
    """The neighbours of a query by each model."""

    query: str
    lists: tuple[tuple[RankedNeighbour, ...], ...]
    protocol: str

    @property
    def common(self) -> int:
        """Number of texts in both lists."""
        return sum(neighbour.shared for neighbour in self.lists[0])


@dataclass(frozen=True)
class Similarities:
    """The cosines of sentences by each model."""

    sentences: tuple[str, ...]
    matrices: tuple[NDArray[np.float32], ...]


@dataclass(frozen=True)
class ChangedQueries:
    """Queries whose right text moved most from the base to the adapted model, as adapt found."""

    gained: tuple[ChangedQuery, ...] = ()
    lost: tuple[ChangedQuery, ...] = ()

    def find(self, query: str) -> ChangedQuery | None:
        """Return the change of a query, or `None` if the query is not listed."""
        known = (*self.gained, *self.lost)
        return next((one for one in known if clean(one.query[:LONGEST]) == query), None)

    @staticmethod
    def is_right(one: ChangedQuery, text: str) -> bool:
        """Return true if a text is a query's right text, or a passage that holds both."""
        return text == one.right or (text.startswith(one.query) and text.endswith(one.right))


class Session:
    """One or two models on one corpus."""

    def __init__(
        self,
        texts: Sequence[str],
        models: Sequence[Model],
        corpus: str,
        changes: ChangedQueries | None = None,
    ) -> None:
        self.texts, self.models, self.corpus = texts, tuple(models), corpus
        self.changes = changes or ChangedQueries()
        self.sample = tuple(texts[row] for row in sample_rows(len(texts)))
        near = sorted(self.sample[:_CANDIDATES], key=lambda text: abs(len(text) - _EXAMPLE_LENGTH))
        self.examples = tuple(near[:_EXAMPLES])

    def neighbours(self, query: str, k: int) -> NeighboursByModel:
        """Return the k nearest texts of the corpus by each model, without the query itself."""
        query = _usable(query)
        if not query:
            raise UserError("There is no text to look for. Type a sentence.")
        if not 1 <= k <= MOST_NEIGHBOURS:
            raise UserError(f"Number of neighbours: expected 1 to {MOST_NEIGHBOURS}.")
        cosines = [
            model.vectors @ unit_rows(sided(model.encode).queries([query]))[0]
            for model in self.models
        ]
        cut = (text[:LONGEST].rstrip() for text in self.texts)
        own = next((row for row, text in enumerate(cut) if text == query), None)
        if own is not None:
            for scores in cosines:
                scores[own] = -np.inf
        count = min(k, len(self.texts) - (own is not None))
        orders = [highest(scores, len(scores)) for scores in cosines]
        lists = []
        for scores, order, other_order in zip(cosines, orders, orders[::-1], strict=True):
            ranks = 1 + np.argsort(other_order)
            neighbours = []
            for row in order[:count].tolist():
                rank = int(ranks[row]) if len(orders) == 2 else None
                shared = rank is not None and rank <= count
                found = RankedNeighbour(self.texts[row], float(scores[row]), rank, shared)
                neighbours.append(found)
            lists.append(tuple(neighbours))
        texts = number_of(len(self.texts), "distinct texts")
        protocol = f"cosine, {texts}, the query itself left out"
        return NeighboursByModel(query, tuple(lists), protocol)

    @cached_property
    def suggestion(self) -> tuple[str, ...]:
        """Sentences to compare first: two texts of the corpus, and their neighbours."""
        sentences = []
        for text in self.examples[:2]:
            near = self.neighbours(text[:LONGEST], 2).lists[0]
            sentences += [text, *(neighbour.text for neighbour in near)]
        return tuple(text[:LONGEST] for text in dict.fromkeys(sentences))

    def similarities(self, text: str) -> Similarities:
        """Compare sentences, one per line, by their cosines."""
        sentences = tuple(line for line in map(_usable, text.splitlines()) if line)
        if not 2 <= len(sentences) <= MOST_SENTENCES:
            raise UserError(
                f"{number_of(len(sentences), 'sentences')}: expected 2 to {MOST_SENTENCES}, "
                "one a line."
            )
        units = [unit_rows(model.encode(sentences)) for model in self.models]
        return Similarities(sentences, tuple(rows @ rows.T for rows in units))


def read_corpus(files: Sequence[str], column: str, encoding: str, progress: Progress) -> list[str]:
    """Read the distinct texts of files, or the passages of documents, cleaned, of any length."""
    config = CorpusConfig(
        tuple(files),
        column,
        encoding=encoding,
        min_chars=1,
        passage_words=None,
        near_duplicates=False,
        held_out=0,
    )
    progress.line("reading", ", ".join(config.corpus))
    corpus = load_corpus(config, cache_folder())
    texts = [corpus[row] for row in corpus.passages]
    progress.line("corpus", number_of(len(texts), "distinct texts"))
    return texts


@dataclass(frozen=True)
class Adapted:
    """A finished run of adapt: its name as the user gave it, the run, and its candidates."""

    source: str
    run: Run
    candidates: SearchResults

    @classmethod
    def open(cls, source: str) -> Adapted | None:
        """Return the run of adapt that a model's name refers to, or `None`."""
        run = run_of(source)
        candidates = None if run is None else read_candidates(run.folder)
        return None if run is None or candidates is None else cls(source, run, candidates)

    @property
    def kept_base(self) -> bool:
        """True if the run kept the base model."""
        return self.run.finished.ships_base

    def models(self) -> Sequence[str | Encoder]:
        """Return the base model and the adapted model, or only one if adapt kept the base model."""
        return [self.source] if self.kept_base else [base_encoder(self.run.config), self.source]

    @property
    def changes(self) -> ChangedQueries:
        """Queries that changed most between the two models."""
        if self.kept_base:
            return ChangedQueries()
        better, worse = (
            tuple(map(_shown, queries))
            for queries in (self.candidates.better, self.candidates.worse)
        )
        return ChangedQueries(better, worse)

    @property
    def texts_name(self) -> str:
        """Name of the texts for people."""
        config = self.run.config
        files = config.text.corpus if config.pairs is None else (config.pairs,)
        names = ", ".join(Path(file).name for file in files)
        return f"{names}, its test pairs"

    def texts(self, progress: Progress) -> tuple[str, ...]:
        """Return the held-out texts that are ranked for the test pairs, as whole passages."""
        config = self.run.config
        progress.line("reading", " ".join(config.text.corpus))
        data, same = data_of(self.run)
        own = data.corpus.pairs
        found: Iterable[str] = Targets.of_pairs(data.benchmark.pairs).texts
        if not same:  # cross-validated, or the text has changed since
            found = dict.fromkeys(data.corpus[row] for row in data.corpus.passages)
            if config.pairs or data.corpus.digest != self.run.finished.corpus.digest:
                progress.line("note", "the text has changed since the test; all of it is shown")
        elif config.pairs is None and (own.relation == FIRST_REST or not own.test):
            found = dict.fromkeys(data.corpus.held_out())
        texts = tuple(map(without_surrogates, found))  # encoders read them so too
        progress.line("corpus", f"{number_of(len(texts), 'distinct texts')} of {self.texts_name}")
        return texts


def _shown(one: ChangedQuery) -> ChangedQuery:
    """Return a query for a page, without halves of surrogate pairs."""
    query, right = map(without_surrogates, (one.query, one.right))
    return replace(one, query=query, right=right)


def open_session(
    models: Sequence[str | Encoder],
    texts: Sequence[str],
    corpus: str,
    settings: EncoderSettings = EncoderSettings(),  # noqa: B008 - frozen
    precision: Precision = "float32",
    progress: Progress | None = None,
    changes: ChangedQueries | None = None,
) -> Session:
    """Load one or two models, and encode distinct texts with each.

    `corpus` describes the texts. `changes` are the queries that changed most, for a run of adapt.
    """
    progress = progress or Logged()
    encoders = [as_encoder(model, settings) for model in models]
    names = _names([encoder.source for encoder in encoders])
    texts = list(texts)
    rows = sample_rows(len(texts))
    loaded = []
    for letter, name, encoder in zip("AB", names, encoders, strict=False):
        if encoder.prompts.summary:
            progress.line("prompts", f"of {name}: {encoder.prompts.summary}")
        progress.line("encode", f"{number_of(len(texts), 'texts')} by {name}")
        with progress.bar("encode", len(texts)) as advance:
            raw = encoder.embed(texts, on_batch=advance, precision=precision, side="document")
        embed = partial(encoder.embed, precision=precision)
        encode = PromptedEncoders.of_prompts(encoder.prompts, embed)
        loaded.append(Model(letter, name, encode, unit_rows(raw), raw[rows]))
    return Session(texts, loaded, corpus, changes)


def sample_rows(texts: int) -> NDArray[np.int64]:
    """Return the positions of a random sample of the texts, in random order."""
    return np.random.default_rng(_SEED).permutation(texts)[:SAMPLE]


def _names(sources: Sequence[str]) -> list[str]:
    """Return the models' names, with folders by their last part unless two parts are alike."""
    short = [Path(name).absolute().name if Path(name).exists() else name for name in sources]
    return short if len(set(short)) == len(short) else list(sources)


def _usable(text: str) -> str:
    cleaned = clean(text)
    if len(cleaned) > LONGEST:
        raise UserError(
            f"A sentence of {len(cleaned):,} characters: expected at most {LONGEST:,}. "
            f"It begins with: {cleaned[:60]}"
        )
    return cleaned
