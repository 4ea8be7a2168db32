"""The candidates of a search: what is tried, in which order, and the encoder of each.

Before training these are the base model, and the base model with each map. After training: the
fine-tuned weights, then merged weights as long as they score higher, all with the first map, and
last the best of them with the other maps. A small folder tries fixed shares with all maps (`Maps`).

Models fine-tuned from one base model lie in one loss basin, so a mean of weights works too. WiSE-FT
interpolates between base model and fine-tuned model, which forgets less (Wortsman et al. 2022,
https://arxiv.org/abs/2109.01903). LM-Cocktail does the same for embedding models (Xiao et al. 2024,
https://aclanthology.org/2024.findings-acl.145).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isospace.adaptation.fitting import (
    FITTED_ON,
    FittedMap,
    drop_normalize,
    fit_precision,
    fit_texts,
    fold,
    fold_queries,
    moments_of,
    through,
    through_queries,
    two_encoders,
)
from isospace.config import By, TrainConfig
from isospace.corpus.corpus import Corpus
from isospace.corpus.relations import FEW_PAIRS
from isospace.encoders.encoder import Encoder
from isospace.encoders.modules import require_one_way
from isospace.encoders.saving import TOLERANCE, require_classic, require_parity
from isospace.encoders.settings import Precision, Side
from isospace.errors import UserError
from isospace.evaluation.benchmark import BASE
from isospace.evaluation.pairs import Encode, PromptedEncoders, cached, remembering
from isospace.operators.fitted_whitening import Moments, PairMoments, Whitening
from isospace.system.files import cache_folder
from isospace.system.progress import Progress
from isospace.training import checkpoint
from isospace.training.examples import related_texts
from isospace.training.prepare import base_encoder, require_trainable

SHARES = (1.0, 0.75, 0.5, 0.25)
"""Shares of the fine-tuned weights that are tried, one after the other, until one scores no higher
than the one before. The rest is the base model's."""
FOLD_SHARES = (1.0, 0.5)
"""Shares for a small folder that is cross-validated; every part tries the same ones."""


@contextmanager
def refusing() -> Iterator[None]:
    """Turn a `ValueError` of operators, such as of equal vectors, into a `UserError`."""
    try:
        yield
    except ValueError as error:
        raise UserError(str(error)) from error


@dataclass(frozen=True)
class MapChoice:
    """A map to be fitted on the corpus, by `fit_power` from moments of texts or pairs."""

    kind: str
    power: float
    fit_power: Callable[[Any, float], FittedMap]

    @property
    def name(self) -> str:
        """Name of the map for people."""
        return f"{self.kind}, power {self.power:g}"

    def fit(self, moments: Moments | PairMoments) -> FittedMap:
        """Fit the map to the moments of some vectors."""
        with refusing():
            return self.fit_power(moments, self.power)


def by_pairs(power: float) -> MapChoice:
    """Return the whitening by pairs of texts."""
    return MapChoice("whitened by pairs", power, PairMoments.fit)


_OF_TEXTS = Whitening()  # one for all: candidates are equal if their functions are


def by_texts(power: float) -> MapChoice:
    """Return the whitening by single texts."""
    return MapChoice("whitened by single texts", power, _OF_TEXTS.fit)


def queries_by_pairs(power: float) -> MapChoice:
    """Return the whitening by pairs that maps queries alone."""
    return MapChoice("queries whitened by pairs", power, PairMoments.fit_queries)


@dataclass(frozen=True)
class Candidate:
    """One version of the model: the share of the fine-tuned weights (0 to 1), and a map."""

    share: float = 0.0
    change: MapChoice | None = None

    @property
    def name(self) -> str:
        """Name of the candidate for people."""
        weights = f"the {BASE}"
        if self.share:
            weights = "the fine-tuned model"
            if self.share < 1:
                weights = f"{self.share:g} of the way from the {BASE} to the fine-tuned one"
        return weights if self.change is None else f"{weights}, {self.change.name}"

    @property
    def kind(self) -> str:
        """Name of the candidate's row in the table."""
        if not self.share:
            return BASE if self.change is None else self.change.kind
        weights = "merged" if self.share < 1 else "fine-tuned"
        return weights if self.change is None else f"{weights}, then {self.change.kind}"


BASE_MODEL = Candidate()


def candidates(shares: Sequence[float], changes: Sequence[MapChoice | None]) -> list[Candidate]:
    """Return the candidates with these shares, each with each of the maps."""
    return [Candidate(share, change) for share in shares for change in changes]


@dataclass(frozen=True)
class Maps:
    """The maps that are tried on one kind of text, and the candidates with them.

    Attributes:
        tried: all maps, the weakest first.
        first: the map that trained weights are tried with first, and that a training of both sides
            goes through; `None` for none.
        by: what all of them are fitted on.
        queries_only: true if documents keep their vectors. Trained weights then encode queries.
    """

    tried: tuple[MapChoice, ...]
    first: MapChoice | None
    by: By
    queries_only: bool = False

    def texts(self, pairs: int) -> int:
        """Return how many pairs, or single texts, to fit on instead of this many pairs."""
        return pairs if self.by == "pairs" else 2 * pairs

    @property
    def before_training(self) -> list[Candidate]:
        """The candidates without training, the base model first."""
        return candidates([0.0], (None, *self.tried))

    @property
    def after_training(self) -> list[Candidate]:
        """The trained weights, then merged ones, to try as long as they score higher."""
        return candidates(SHARES, [self.first])

    def others(self, best: Candidate) -> list[Candidate]:
        """Return the candidates to try last: the best trained weights with the other maps."""
        return candidates([best.share], [one for one in self.tried if one != self.first])

    @property
    def in_each_part(self) -> list[Candidate]:
        """The trained candidates for a small folder."""
        return candidates(FOLD_SHARES, self.tried if self.first else (None, *self.tried))


THROUGH = by_pairs(0.75)
"""The map that training goes through if the corpus has pairs (docs/results/fine-tuning.md)."""
PAIR_MAPS = Maps(tried=(by_pairs(0.5), by_pairs(0.75), by_pairs(1.0)), first=THROUGH, by="pairs")
"""For text with pairs."""
TEXT_MAPS = Maps(tried=(by_texts(0.1), by_texts(0.25), by_texts(0.5)), first=None, by="texts")
"""For text without pairs. Removing only the mean, or leading directions, gained less."""
QUERY_MAPS = Maps(
    tried=(queries_by_pairs(0.25), queries_by_pairs(0.5), queries_by_pairs(0.75)),
    first=queries_by_pairs(0.25),
    by="pairs",
    queries_only=True,
)
"""If documents must keep their vectors. A fine-tuned encoder of queries is not tried without a map:
on validation pairs of three in four corpora it scores higher with the first."""


Weights: TypeAlias = Mapping[str, Tensor]
"""Name -> parameter or buffer, as `state_dict` returns them."""


def merge(base: Weights, trained: Weights, share: float) -> dict[str, Tensor]:
    """Return (1 - share) base + share trained, computed in float64, on the CPU.

    Share 0 and 1 give the two models bit for bit. Types and integers are the base model's.
    """
    return {name: _between(own, trained[name], share) for name, own in base.items()}


def _between(base: Tensor, trained: Tensor, share: float) -> Tensor:
    base = base.detach().cpu().clone()
    if share == 0 or not base.is_floating_point():
        return base
    other = trained.detach().cpu().double()
    # At share 0 and 1, interpolation would give the same numbers, but not the sign of a zero.
    return (other if share == 1 else torch.lerp(base.double(), other, share)).to(base.dtype)


class SharedEncoder:
    """One encoder in memory, which loads the weights that are to encode.

    Attributes:
        encoder: the base model without a final normalisation.
        base: the base model's weights.

    Raises:
        UserError: a base model that cannot be loaded or written as standard modules, or, if it
            `trains`, cannot be trained.
    """

    def __init__(
        self, config: TrainConfig, progress: Progress | None = None, trains: bool = True
    ) -> None:
        self._config, self._progress, self.encoder = config, progress, base_encoder(config)
        if trains and not self.encoder.is_frozen:
            require_trainable(config, self.encoder)
        require_one_way(self.encoder.prompts, config.model, "whitening")
        if not self.encoder.is_frozen:
            require_classic(self.encoder)
        drop_normalize(self.encoder)
        base = {name: own.detach() for name, own in self.encoder.model.state_dict().items()}
        # Without a training no other weights are loaded, so large models need no copy.
        self.base: Weights = {k: v.clone() for k, v in base.items()} if trains else base

    @cached_property
    def base_whole(self) -> PromptedEncoders:
        """Functions that encode by the base model's weights, as it is shipped."""
        return self.by(lambda: self.base, cache_folder())

    @cached_property
    def base_cut(self) -> PromptedEncoders:
        """Functions that encode by the base model's weights, as in training."""
        return self.by(lambda: self.base, cache_folder(), cut=True)

    def by(
        self, weights: Callable[[], Weights], folder: Path, cut: bool = False
    ) -> PromptedEncoders:
        """Return functions that load weights before they encode, and remember the vectors.

        Merged weights are not kept in memory. With `cut` texts are encoded as in training: this
        takes a third of the time, and gives the same map.
        """
        self.encoder.model.load_state_dict(weights())
        precision: Precision = fit_precision(self._config) if cut else "float32"
        longest = self._config.max_length if cut else None
        encode = cached(self.encoder, folder, precision, longest, self._progress)

        def switching(plain: Encode) -> Encode:
            def encode_by_own_weights(texts: Sequence[str]) -> NDArray[np.float32]:
                self.encoder.model.load_state_dict(weights())
                return plain(texts)

            return encode_by_own_weights

        return remembering(encode.each(switching))


@dataclass(frozen=True)
class CandidateEncoders:
    """The encoders of all candidates for one text; the same weights never encode a text twice.

    Attributes:
        shared: encodes by the weights of every candidate, and of every part of the corpus.
        maps: the maps to try, not yet fitted.
        fitted_on: largest number of pairs, or of single texts, on which the maps are fitted.
        folder: folder for vectors of trained weights; those of the base model are in the cache.
        too_few_pairs: why no maps are fitted on pairs; empty if they are.
    """

    config: TrainConfig
    corpus: Corpus
    shared: SharedEncoder
    maps: Maps
    fitted_on: int
    trained: Weights | None = None
    folder: Path = field(default_factory=cache_folder)
    too_few_pairs: str = ""
    _made: dict[tuple[float, bool], PromptedEncoders] = field(default_factory=dict, init=False)
    _moments: dict[float, Moments | PairMoments] = field(default_factory=dict, init=False)

    @classmethod
    def load(
        cls,
        config: TrainConfig,
        corpus: Corpus,
        parts: Sequence[Corpus] = (),
        queries_only: bool = False,
    ) -> CandidateEncoders:
        """Load the base model, and select the maps: by pairs if text and `parts` have enough.

        Raises:
            UserError: as for `SharedEncoder`; or too few pairs to map queries alone.
        """
        shared, too_few = SharedEncoder(config), why_too_few_pairs(config, corpus, parts)
        if too_few and queries_only:
            raise UserError(
                f"`queries_only`: {too_few}. Give more documents, name the columns of pairs "
                "(`columns`), or adapt documents too"
            )
        maps = QUERY_MAPS if queries_only else TEXT_MAPS if too_few else PAIR_MAPS
        return cls(config, corpus, shared, maps, maps.texts(FITTED_ON), too_few_pairs=too_few)

    @property
    def encoder(self) -> Encoder:
        """The base model without a final normalisation."""
        return self.shared.encoder

    def read_trained(self, file: Path) -> Weights:
        """Read the final weights of a training, without the map behind the encoder."""
        weights = checkpoint.load_weights(file)
        return {name: weights[name] for name in self.shared.base}

    @cached_property
    def fit_texts(self) -> tuple[tuple[Side, list[str]], ...]:
        """Texts on which maps are fitted, with their sides."""
        return fit_texts(self.config, self.corpus, self.maps.by, self.fitted_on)

    def encode(self, candidate: Candidate) -> PromptedEncoders:
        """Return the functions that encode texts by a candidate."""
        encode, fitted = self._encoder(candidate.share), self._fitted(candidate)
        if fitted is None:
            return encode
        return (through_queries if self.maps.queries_only else through)(encode, fitted)

    def _fitted(self, candidate: Candidate) -> Any:
        """Return the fitted map of a candidate, a `FittedMap`; `None` without one."""
        change = candidate.change
        return None if change is None else change.fit(self.moments(candidate.share))

    def vectors(self, share: float) -> list[NDArray[np.float32]]:
        """Return the vectors on which maps for these weights are fitted, (n, dim) for each side."""
        encode = self._encoder(share, cut=True)
        return [encode.for_side(side)(texts) for side, texts in self.fit_texts]

    def moments(self, share: float) -> Moments | PairMoments:
        """Return the moments of the vectors on which maps for these weights are fitted."""
        if share not in self._moments:
            self._moments[share] = moments_of(self.vectors(share))
        return self._moments[share]

    def put_behind(self, encoder: Encoder) -> None:
        """Put the map that training goes through behind a base model, before its training.

        Training does not change the map, and it is fitted again afterwards. Weights trained with
        the map score higher (docs/results/fine-tuning.md). Without a map, only a final
        normalisation is removed.
        """
        drop_normalize(encoder)
        if self.maps.first is not None:
            fold(encoder, self.maps.first.fit(self.moments(0.0)))
            drop_normalize(encoder)
            encoder.model[-1].requires_grad_(False)

    def shipped(self, candidate: Candidate) -> Encoder:
        """Return a candidate as an encoder of standard modules."""
        encode, encoder = self.encode(candidate), base_encoder(self.config)
        encoder.model.load_state_dict(self._weights(candidate.share))
        fitted = self._fitted(candidate)
        if candidate.share and self.maps.queries_only:
            encoder = two_encoders(encoder, fitted, base_encoder(self.config))
        elif fitted is not None and self.maps.queries_only:
            encoder = fold_queries(encoder, fitted)
        elif fitted is not None:
            fold(encoder, fitted)
        for side in encoder.prompts.sides:
            own, wanted = encoder.embed(encoder.probes, side=side), encode.for_side(side)
            require_parity(own, wanted(encoder.probes), self.config.model, TOLERANCE)
        return encoder

    def _weights(self, share: float) -> Weights:
        if not share:
            return self.shared.base
        assert self.trained is not None
        return merge(self.shared.base, self.trained, share)

    def _encoder(self, share: float, cut: bool = False) -> PromptedEncoders:
        """Return functions that encode by merged weights; `cut`: as in training."""
        base = self.shared.base_cut if cut else self.shared.base_whole
        if not share:
            return base
        if (share, cut) not in self._made:
            own = self.shared.by(partial(self._weights, share), self.folder, cut)
            if self.maps.queries_only:
                own = PromptedEncoders(own.queries, base.documents, base.plain)
            self._made[share, cut] = own
        return self._made[share, cut]


def why_too_few_pairs(config: TrainConfig, corpus: Corpus, parts: Sequence[Corpus] = ()) -> str:
    """Return why no map can be fitted on pairs; empty if the text and all parts give enough."""
    own, *of_parts = (len(related_texts(config, one, FEW_PAIRS)[0]) for one in (corpus, *parts))
    needed = "pairs of different texts that belong together"
    if own < FEW_PAIRS:
        return f"needs {FEW_PAIRS} {needed}, and the text gives {own}"
    fewest = min(of_parts, default=own)
    if fewest < FEW_PAIRS // 2:
        return (
            f"needs {FEW_PAIRS // 2} {needed} in every training part of a small folder, which is "
            f"cross-validated, and the smallest part gives {fewest}"
        )
    return ""
