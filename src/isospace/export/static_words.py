"""Word vectors for a static model: the word pieces of a corpus, and their training on pairs.

A text's vector is the mean of the vectors of its pieces. Gradients are sparse, so the cost of an
update does not depend on the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import Tensor
from torch.nn import functional

from isospace.losses import diagonal_cross_entropy

PIECES = 30_000
"""Maximal size of a vocabulary."""
_SEEN = 2
"""Minimal count of a piece in the corpus."""
_SIF = 1e-3
"""Constant a in a piece's weight a / (a + its share of all pieces), as in Arora et al. 2017."""
_CONTINUES = "##"
_SCRIPTS = Regex(r"\p{Han}+|[\p{Katakana}ー]+|\p{Hiragana}+")
"""Runs of one script, which count as words in Japanese and Chinese text without spaces."""

TEMPERATURE = 0.1
BATCH = 1024
PASSES = 15
LEAST_UPDATES, MOST_PASSES = 400, 60
"""A small corpus gets up to `MOST_PASSES` passes to reach `LEAST_UPDATES` updates."""
EVALUATIONS = 10
RATE = 3e-3
"""Peak learning rate, in units of the initial vectors' mean length; it decays linearly to 0."""


def corpus_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Train and return a byte-pair tokenizer of lower-case words and their frequent pieces.

    It has no unknown token, and drops characters that the texts do not contain.
    """
    tokenizer = Tokenizer(models.BPE(continuing_subword_prefix=_CONTINUES))
    plain = normalizers.BertNormalizer(handle_chinese_chars=False, strip_accents=False)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), plain])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Split(_SCRIPTS, "isolated")]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=PIECES,
        min_frequency=_SEEN,
        continuing_subword_prefix=_CONTINUES,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    """Return the text of each piece, in the order of their ids."""
    vocabulary = tokenizer.get_vocab()
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    return [piece.removeprefix(_CONTINUES) for piece in ordered]


def bags_of(tokenizer: Tokenizer, texts: Sequence[str]) -> csr_matrix:
    """Return texts as bags of pieces: a (text, piece) matrix with an entry 1 for each token.

    A piece that is twice in a text has two entries, which nothing may merge.
    """
    ids = [np.array(one.ids, np.int64) for one in tokenizer.encode_batch_fast(list(texts))]
    pieces = np.concatenate([*ids, np.empty(0, np.int64)])
    starts = np.cumsum([0, *map(len, ids)])
    shape = len(ids), tokenizer.get_vocab_size()
    return csr_matrix((np.ones(len(pieces), np.float32), pieces, starts), shape)


def means(bags: csr_matrix, table: Tensor) -> Tensor:
    """Return the (text, dim) means of the pieces' rows in a (piece, dim) table."""
    pieces, starts = (torch.from_numpy(x.astype(np.int64)) for x in (bags.indices, bags.indptr))
    return functional.embedding_bag(pieces, table, starts[:-1], mode="mean")


def initial_table(vectors: NDArray[np.float32], *bags: csr_matrix) -> Tensor:
    """Return the initial (piece, dim) table.

    It holds the encoder's `vectors` of the pieces, centred, scaled to length 1, and multiplied by
    SIF weights, which come from the counts of the pieces in `bags`.
    """
    counts = sum(np.bincount(one.indices, minlength=len(vectors)) for one in bags)
    shares = torch.from_numpy(counts / np.sum(counts))
    centred = torch.from_numpy(vectors - vectors.mean(axis=0))
    return functional.normalize(centred, dim=1) * (_SIF / (_SIF + shares)).float()[:, None]


@dataclass(frozen=True)
class TrainingPairs:
    """Pairs of texts that belong together.

    `second` are bags too, or fixed vectors (pair, dim). `names` (pair, 2) has a number for each
    text; equal texts have equal numbers.
    """

    first: csr_matrix
    second: csr_matrix | Tensor
    names: NDArray[np.int64]

    @property
    def batch(self) -> int:
        """Number of pairs in a batch."""
        return min(BATCH, self.first.shape[0])

    @property
    def updates(self) -> int:
        """Number of updates."""
        per_pass = self.first.shape[0] // self.batch
        return min(max(PASSES * per_pass, LEAST_UPDATES), MOST_PASSES * per_pass)

    def loss(self, table: Tensor, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss of a batch, the ids of its pieces, and their table rows as a leaf tensor.

        The loss is InfoNCE in both directions. A text is not a negative of a pair that contains an
        equal text.
        """
        bags, count = self.first[rows], len(rows)
        if not isinstance(self.second, Tensor):
            bags = vstack([bags, self.second[rows]], "csr")
        pieces, bags.indices = np.unique(bags.indices, return_inverse=True)
        used = torch.from_numpy(pieces.astype(np.int64))
        leaf = table[used].requires_grad_()
        vectors = functional.normalize(means(bags, leaf), dim=1)
        others = vectors[count:]
        if isinstance(self.second, Tensor):
            others = functional.normalize(self.second[torch.from_numpy(rows)], dim=1)
        names = torch.from_numpy(self.names[rows])
        same = (names[:, None] == names[None]).any(dim=2).fill_diagonal_(False)
        logits = (vectors[:count] @ others.T / TEMPERATURE).masked_fill(same, -torch.inf)
        both = diagonal_cross_entropy(logits) + diagonal_cross_entropy(logits.T)
        return both.mean() / 2, used, leaf


def train_table(
    table: Tensor,
    pairs: TrainingPairs,
    score: Callable[[Tensor], float] | None,
    seed: int,
    on_update: Callable[[int], None],
) -> tuple[Tensor, tuple[tuple[int, float], ...]]:
    """Train a table (piece, dim) on two or more pairs, and return it with its evaluations.

    `SparseAdam` updates only the rows that a batch uses. `score` returns the validation score of a
    table, higher is better: the result is the best of `EVALUATIONS` tables, evenly spread over the
    training, with the updates and score of each. Without `score` it is the last table. `seed` gives
    the order of the pairs.
    """
    weights = table.clone()
    rate = RATE * float(weights.norm(dim=1).mean())
    optimizer: Any = torch.optim.SparseAdam([weights], lr=rate)
    random, order = np.random.default_rng(seed), np.empty(0, np.int64)
    evaluations: list[tuple[int, float]] = []
    best = weights
    for update in range(1, pairs.updates + 1):
        if len(order) < pairs.batch:
            order = random.permutation(pairs.first.shape[0])
        rows, order = np.sort(order[: pairs.batch]), order[pairs.batch :]
        loss, used, leaf = pairs.loss(weights, rows)
        [gradient] = torch.autograd.grad(loss, [leaf])
        weights.grad = torch.sparse_coo_tensor(
            used[None], gradient, weights.shape, is_coalesced=True, check_invariants=False
        )
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - (update - 1) / pairs.updates)
        optimizer.step()
        on_update(1)
        step = update * EVALUATIONS // pairs.updates
        if score is not None and step > (update - 1) * EVALUATIONS // pairs.updates:
            evaluations.append((update, score(weights)))
            if evaluations[-1][1] == max(found for _, found in evaluations):
                best = weights.clone()
    return best, tuple(evaluations)
