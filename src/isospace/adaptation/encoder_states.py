"""The encoder in any state of the ladder: its weights, and the map behind them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from isospace.adaptation.states import State
from isospace.config import TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.encoders.encoder import Encoder
from isospace.encoders.merging import merge
from isospace.encoders.parity import PROBES, TOLERANCE, require_parity
from isospace.evaluation.pairs import SidedEncode
from isospace.evaluation.vector_cache import cached
from isospace.operators.fitted_whitening import Moments, WhiteningMap
from isospace.system.cache import cache_folder
from isospace.training.prepare import require_trainable, start_of
from isospace.whiten.fold import drop_normalize, fold
from isospace.whiten.whiten import fit_rows, through

FITTED_ON = 1_000
"""Passages on which the maps are fitted: fewer than three for each of 384 dimensions, which is why
the covariance is shrunk (Ledoit-Wolf)."""


class EncoderStates:
    """The start, and what becomes of it.

    Args:
        config: names the start.
        corpus: on whose passages the maps are fitted.

    Attributes:
        trained: the weights that trainings ended with, to be averaged.
        encoder: in the state that was asked for last, without its map.

    Raises:
        UserError: a start that cannot be loaded, trained, or written as standard modules.
    """

    def __init__(self, config: TrainConfig, corpus: Corpus) -> None:
        self.config, self.corpus = config, corpus
        self.encoder = start_of(config)
        require_trainable(config, self.encoder)
        drop_normalize(self.encoder)
        weights = self.encoder.model.state_dict()
        self._start = {name: value.detach().clone() for name, value in weights.items()}
        self.trained: list[dict[str, Tensor]] = []
        self._loaded: tuple[float, SidedEncode] | None = None
        self._moments: dict[float, Moments] = {}

    @property
    def fitted_on(self) -> list[str]:
        """The texts on which maps are fitted, `FITTED_ON` at most."""
        rows = fit_rows(self.corpus, max(1, len(self.config.text.columns)), FITTED_ON)
        return [self.corpus[int(row)] for row in rows]

    def encode(self, state: State, beside: Path) -> SidedEncode:
        """Texts to the vectors of a state; valid until another is asked for.

        What its weights made of a list of texts is kept on disk: the start's in the user's cache,
        the others' in the folder `beside`, so that a ladder that was stopped encodes nothing anew.
        """
        share = state.share
        if self._loaded is None or self._loaded[0] != share:
            self.encoder.model.load_state_dict(self._weights(share))
            self._loaded = share, cached(self.encoder, beside if share else cache_folder())
        encode = self._loaded[1]
        return through(encode, self._fitted(state, encode))

    def shipped(self, state: State, encode: SidedEncode) -> Encoder:
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
            fold(encoder, state.change.fit(self._moments[state.share]))
        for side in encoder.prompts.sides:
            own = encoder.embed(PROBES, side=side)
            require_parity(own, encode.of(side)(PROBES), self.config.model, TOLERANCE)
        return encoder

    def _weights(self, share: float) -> dict[str, Tensor]:
        return merge(self._start, self.trained, share) if share else self._start

    def _fitted(self, state: State, encode: SidedEncode) -> WhiteningMap | None:
        """The map of a state, fitted on what its weights make of the corpus."""
        if state.change is None:
            return None
        if state.share not in self._moments:
            vectors = encode.documents(self.fitted_on)
            self._moments[state.share] = Moments.of(torch.from_numpy(vectors))
        return state.change.fit(self._moments[state.share])
