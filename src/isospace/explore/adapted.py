"""A finished run of adapt to explore: both models, and the test pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from isospace.adaptation.results import ChangedQuery, SearchResults, read_candidates
from isospace.corpus.relations import FIRST_REST
from isospace.encoders.encoder import Encoder
from isospace.errors import UserError
from isospace.evaluation.retrieval import Targets
from isospace.explore.session import ChangedQueries
from isospace.statistics.counts import number_of
from isospace.system.progress import Progress
from isospace.system.unicode import without_surrogates
from isospace.training.prepare import base_encoder, data_of
from isospace.training.run import Run, run_of


@dataclass(frozen=True)
class Adapted:
    """A finished run of adapt: its name as the user gave it, the run, and its candidates."""

    source: str
    run: Run
    candidates: SearchResults

    @classmethod
    def open(cls, source: str) -> Adapted | None:
        """Return the run of adapt that a model's name refers to, or `None`.

        Raises:
            UserError: the run is not finished, or candidates.json is damaged.
        """
        run = run_of(source)
        candidates = None if run is None else read_candidates(run.folder)
        return None if run is None or candidates is None else cls(source, run, candidates)

    @property
    def kept_base(self) -> bool:
        """True if the run kept the base model."""
        return self.run.finished.ships_base

    def models(self) -> Sequence[str | Encoder]:
        """Return the base model and the adapted model, or only one if adapt kept the base model.

        Raises:
            UserError: the base model cannot be loaded any more.
        """
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
        """Return the held-out texts that are ranked for the test pairs.

        If the test pairs are parts of passages, the whole passages are returned.

        Raises:
            UserError: the corpus cannot be read any more, or has changed.
        """
        config = self.run.config
        corpus = " ".join(config.text.corpus)
        progress.line("reading", corpus)
        data, same = data_of(self.run)
        own = data.corpus.pairs
        if not same:
            raise UserError(
                f"{self.source}: what is held out of {corpus} is no longer what this run was "
                "tested by; give the texts to look in (`corpus`)"
            )
        found: Iterable[str] = Targets.of_pairs(data.benchmark.pairs).texts
        if config.pairs is None and (own.relation == FIRST_REST or not own.test):
            found = dict.fromkeys(data.corpus.held_out())
        texts = tuple(map(without_surrogates, found))  # encoders read them so too
        progress.line("corpus", f"{number_of(len(texts), 'distinct texts')} of {self.texts_name}")
        return texts


def _shown(one: ChangedQuery) -> ChangedQuery:
    """Return a query for a page, without halves of surrogate pairs."""
    query, right = map(without_surrogates, (one.query, one.right))
    return replace(one, query=query, right=right)
