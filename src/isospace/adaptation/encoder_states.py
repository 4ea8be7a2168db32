"""The encoder as any candidate: its weights, and the linear map behind them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from isospace.adaptation.states import (
    PAIR_MAPS,
    QUERIES_BY_PAIRS,
    QUERY_MAPS,
    TEXT_MAPS,
    THROUGH,
    State,
)
from isospace.config import TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.corpus.relations import FEW_PAIRS
from isospace.encoders.encoder import Encoder
from isospace.encoders.merging import merge
from isospace.encoders.parity import PROBES, TOLERANCE, require_parity
from isospace.encoders.pooling import Precision
from isospace.encoders.prompts import Side
from isospace.errors import UserError
from isospace.evaluation.pairs import PromptedEncoders, remembering
from isospace.evaluation.vector_cache import cached
from isospace.operators.fitted_whitening import Moments
from isospace.operators.pair_whitening import PairMoments
from isospace.system.cache import cache_folder
from isospace.system.devices import has_bf16
from isospace.training import checkpoint
from isospace.training.examples import Examples
from isospace.training.prepare import require_trainable, start_of
from isospace.whiten.fold import drop_normalize, fold, fold_queries
from isospace.whiten.whiten import fit_rows, through, through_queries

Asked = tuple[Side | None, Iterable[str]]
"""Texts that are encoded, and on which side."""
FITTED_ON = 3_000
"""Pairs on which the maps are fitted, at most: twice as many gain hardly more
(docs/results/closed-forms.md)."""


class EncoderStates:
    """The base model, and what becomes of it.

    Args:
        config: names the base model.
        corpus: on whose pairs or passages the maps are fitted.
        parts: of it, on which maps are fitted too (`fitted_on`).
        queries_only: try maps of queries alone.

    Attributes:
        trained: the weights that trainings ended with, to be averaged.
        encoder: in the state that was asked for last, without its map.
        maps: that are tried behind these states, before they are fitted: by pairs where the corpus
            has enough, and so has each part.
        through: the map among them that training goes through, where they are by pairs.

    Raises:
        UserError: a base model that cannot be loaded, trained, or written as standard modules; too
            few pairs to map queries alone.
    """

    def __init__(
        self,
        config: TrainConfig,
        corpus: Corpus,
        parts: Sequence[Corpus] = (),
        queries_only: bool = False,
    ) -> None:
        self.config, self.corpus = config, corpus
        self.encoder = start_of(config)
        require_trainable(config, self.encoder)
        drop_normalize(self.encoder)
        weights = self.encoder.model.state_dict()
        self._start = {name: value.detach().clone() for name, value in weights.items()}
        self.trained: list[dict[str, Tensor]] = []
        self._loaded: tuple[float, PromptedEncoders] | None = None
        self._moments: dict[float, PairMoments] = {}
        self._remembers = False
        self._pairs = self._related(corpus)
        enough = len(self._pairs[0]) >= FEW_PAIRS and all(
            len(self._related(part)[0]) >= FEW_PAIRS // 2 for part in parts
        )
        self.maps = PAIR_MAPS if enough else TEXT_MAPS
        self.through = THROUGH if enough and not queries_only else None
        if queries_only:
            if not enough:
                raise UserError(
                    f"`queries_only`: needs {FEW_PAIRS} pairs of texts that belong together, and "
                    f"the text gives {len(self._pairs[0])}. Give more documents, name the columns "
                    "of pairs (`columns`), or adapt documents too"
                )
            self.maps = QUERY_MAPS

    def _related(self, corpus: Corpus) -> tuple[list[str], list[str]]:
        """Return the sides of `FITTED_ON` pairs at most; none where dropout views train."""
        if self.config.views == "dropout":
            return [], []
        return Examples.from_corpus(self.config, corpus).related_texts(FITTED_ON)

    @contextmanager
    def fitted_on(self, corpus: Corpus, trained: list[dict[str, Tensor]]) -> Iterator[None]:
        """Make the states of another corpus and of other trainings meanwhile.

        No text is encoded twice by the same weights, in whichever list it is.
        """
        own = self.corpus, self.trained, self._moments, self._pairs
        self.corpus, self.trained, self._moments = corpus, trained, {}
        self._pairs = self._related(corpus)
        self._loaded, self._remembers = None, True
        try:
            yield
        finally:
            self.corpus, self.trained, self._moments, self._pairs = own
            self._loaded, self._remembers = None, False

    def put_behind(self, encoder: Encoder) -> None:
        """Put the map that training goes through behind a base model that is to be trained.

        The map is the base model's and stays as it is: weights that learn in front of it find more,
        once it is fitted on them again, than those that learn without it
        (docs/results/fine-tuning.md). Where there is none, only a closing normalisation goes.
        """
        drop_normalize(encoder)
        if self.through is not None:
            self.encode(State(0.0, self.through), cache_folder())  # which fits it
            fold(encoder, self.through.fit(self._moments[0.0]))
            drop_normalize(encoder)
            encoder.model[-1].requires_grad_(False)

    def read_trained(self, file: Path) -> dict[str, Tensor]:
        """Read the weights that a training ended with, without the map behind them."""
        weights = checkpoint.load_weights(file)
        return {name: weights[name] for name in self._start}

    @property
    def fit_texts(self) -> tuple[Asked, ...]:
        """The texts on which maps are fitted, with their sides."""
        if self.maps is not TEXT_MAPS:
            first, second = self._pairs
            return ("query", first), ("document", second)
        rows = fit_rows(self.corpus, max(1, len(self.config.text.columns)), 2 * FITTED_ON)
        return (("document", [self.corpus[int(row)] for row in rows]),)

    def encode(self, state: State, folder: Path) -> PromptedEncoders:
        """Texts to the vectors of a state; valid until another is asked for.

        What its weights made of a list of texts is kept on disk: the base model's in the user's
        cache, the others' in `folder`, so that a run that was stopped encodes nothing anew.
        """
        share = state.share
        if self._loaded is None or self._loaded[0] != share:
            self.encoder.model.load_state_dict(self._weights(share))
            encode = cached(self.encoder, folder if share else cache_folder())
            self._loaded = share, remembering(encode) if self._remembers else encode
        if state.change is None:
            return self._loaded[1]
        if share not in self._moments:
            self._moments[share] = self._measured(folder if share else cache_folder())
        fitted = state.change.fit(self._moments[share])
        if state.change.kind == QUERIES_BY_PAIRS:
            return through_queries(self._loaded[1], fitted)
        return through(self._loaded[1], fitted)

    def shipped(self, state: State, encode: PromptedEncoders) -> Encoder:
        """An encoder of standard modules that gives the vectors of a state.

        Args:
            state: what is to be written.
            encode: what was measured of it.

        Raises:
            UserError: its vectors are not those that were measured.
        """
        encoder = start_of(self.config)
        encoder.model.load_state_dict(self._weights(state.share))
        if state.change is not None:
            fitted = state.change.fit(self._moments[state.share])
            if state.change.kind == QUERIES_BY_PAIRS:
                encoder = fold_queries(encoder, fitted)
            else:
                fold(encoder, fitted)
        for side in encoder.prompts.sides:
            own = encoder.embed(PROBES, side=side)
            require_parity(own, encode.for_side(side)(PROBES), self.config.model, TOLERANCE)
        return encoder

    def _weights(self, share: float) -> dict[str, Tensor]:
        return merge(self._start, self.trained, share) if share else self._start

    def _measured(self, folder: Path) -> PairMoments:
        """Return the moments of what the loaded weights make of the texts to fit on.

        Texts are cut and encoded as training does it: a third of the time, and the same map.
        """
        precision: Precision = "float32"
        if self.config.precision != "float32" and has_bf16():
            precision = "bf16"
        encode = cached(self.encoder, folder, precision, self.config.max_length)
        sides = [
            torch.from_numpy(encode.for_side(side)(list(texts))) for side, texts in self.fit_texts
        ]
        if len(sides) == 2:
            return PairMoments.from_pairs(*sides)
        return PairMoments(Moments.from_vectors(sides[0][:0]), Moments.from_vectors(sides[0]))
