"""Fine-tune an encoder for queries alone, while documents keep the base model's vectors.

The vectors of documents never change, so they are computed once, and each query is compared with
the passages of all training pairs at once:

    L = -mean_i log( exp(cos(q_i, d_i) / t) / sum_j exp(cos(q_i, d_j) / t) )

The sum is over the distinct passages, at most `MOST_PASSAGES`, and t is the objective's temperature
(InfoNCE, van den Oord et al. 2018, with all passages as negatives). Measured in
docs/results/query-side.md.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from isospace.adaptation.fine_tune import FineTuned, facts_of
from isospace.adaptation.scoring import Search
from isospace.adaptation.time_plan import SPARE, seconds_per_token, tokens_of
from isospace.config import TrainConfig
from isospace.corpus.examples import evenly
from isospace.encoders.encoder import Encoder
from isospace.encoders.prompts import Side
from isospace.objectives import SimCSE
from isospace.statistics.counts import number_of
from isospace.training import checkpoint
from isospace.training.examples import Examples
from isospace.training.loop import FEWEST_UPDATES
from isospace.training.prepare import base_encoder
from isospace.training.selection import LAST, Choice
from isospace.training.step import CLIP_NORM, Diverged
from isospace.views import View
from isospace.whiten.fold import drop_normalize

MOST_PASSAGES, FEWEST_PASSAGES = 12_000, 1_000
"""Largest and smallest number of pairs whose passages a query is compared with."""
FILE = "checkpoints/queries.pt"
"""File in the run's folder with the final weights."""
_WARM_UP = 0.1
"""Share of the updates in which the learning rate rises."""
_ENCODING = 0.4
"""Largest share of the time left that encoding the passages may take."""
_SAMPLE = 256  # texts whose tokens are counted
_NO_DROPOUT = View(dropout=0.0)  # targets are fixed, so noise of the queries would add nothing


@dataclass(frozen=True)
class QueryPairs:
    """Training pairs whose passages have fixed vectors.

    Attributes:
        rows: (n,) row in `passages` of the passage of each of n queries.
        passages: (m, dim) vectors of the distinct passages, of length 1.
    """

    queries: Sequence[str]
    rows: torch.Tensor
    passages: torch.Tensor

    @classmethod
    def encode(
        cls,
        queries: Sequence[str],
        passages: Sequence[str],
        encode: Callable[[Sequence[str]], NDArray[np.float32]],
    ) -> QueryPairs:
        """Encode the distinct passages of n pairs; equal passages count once.

        >>> found = QueryPairs.encode("abc", ["x", "y", "x"], lambda texts: np.eye(len(texts), 4))
        >>> found.rows.tolist(), tuple(found.passages.shape)
        ([0, 1, 0], (2, 4))
        """
        place = {text: row for row, text in enumerate(dict.fromkeys(passages))}
        vectors = torch.from_numpy(encode(list(place)))
        rows = torch.tensor([place[text] for text in passages])
        return cls(queries, rows, functional.normalize(vectors, dim=1))


def train_queries(
    encoder: Encoder,
    pairs: QueryPairs,
    config: TrainConfig,
    updates: int,
    seconds: float = math.inf,
    bf16: bool = False,
) -> Iterator[float]:
    """Train an encoder to find each query's passage; yield the loss of each update after it.

    The learning rate rises in the first tenth of the updates. Then it falls linearly to 0, which it
    reaches with the last update or when `seconds` are over, whichever is first. After one pass over
    the queries the next begins, in another order. The `max_length` of the settings cuts queries.

    Raises:
        Diverged: the loss is not finite.
    """
    assert isinstance(config.objective, SimCSE)
    temperature, device = config.objective.temperature, encoder.device
    targets, rows = pairs.passages.to(device), pairs.rows.to(device)
    ids = encoder.tokens.ids(pairs.queries, config.max_length, side="query")
    parameters = [one for one in encoder.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(
        parameters, config.learning_rate, weight_decay=config.weight_decay
    )
    batches, started = _batches(len(ids), config.batch_size, config.seed), time.monotonic()
    for step in range(updates):
        left = 1 - step / updates
        if seconds < math.inf:
            left = min(left, 1 - (time.monotonic() - started) / max(seconds, 1e-9))
        if left <= 0:
            return
        rate = min((step + 1) / (_WARM_UP * updates), left / (1 - _WARM_UP), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * rate
        chosen = next(batches)
        batch = encoder.tokens.collate([ids[row] for row in chosen], sides=("query",)).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            [vectors] = encoder(batch, [_NO_DROPOUT])
        cosines = functional.normalize(vectors.float(), dim=1) @ targets.T
        loss = functional.cross_entropy(cosines / temperature, rows[torch.from_numpy(chosen)])
        if not torch.isfinite(loss):
            raise Diverged(step + 1, "loss", float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
        optimizer.step()
        yield float(loss.detach())


def _batches(count: int, size: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield full batches of rows, in a new random order in each pass."""
    random, size = np.random.default_rng(seed), min(size, count)
    while True:
        order = random.permutation(count)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]


def fine_tune_queries(search: Search, until: float | None) -> FineTuned:
    """Fine-tune the encoder of queries; a search that is resumed reads its weights.

    A stopped training begins anew: one pass over the queries takes minutes, whatever the budget.
    `until` is the time at which the search must end; `None` for a budget in tokens.
    """
    file, config = search.run.folder / FILE, search.task.training
    if not file.is_file():
        checkpoint.save(file, _train(search, until))
    state = checkpoint.load(file)
    updates = state["updates"]
    choice = Choice(updates, config.select, LAST, (), "the last update")
    facts = facts_of(search, choice, updates)
    return FineTuned(facts, state["weights"], tuple(state["notes"]))


def _train(search: Search, until: float | None) -> dict[str, Any]:
    """Train; return the weights (`None` if there are none), the number of updates, and notes."""
    encoders, config = search.encoders, search.task.training
    examples = Examples.from_corpus(config, search.task.data.corpus)
    notes = []
    if examples.unanswered is not None and (left_out := int(examples.unanswered.sum())):
        notes.append(f"{left_out:,} queries without a passage were not used.")
    most = MOST_PASSAGES
    if until is not None:
        token = seconds_per_token(encoders.encoder, search.task.validation.first, "float32")
        until -= SPARE * token * search.passes.trained
        most = _affordable(search, examples, until - time.monotonic())
    queries, passages = examples.related_texts(most)
    updates = len(queries) // config.batch_size
    if search.task.config.budget[1] == "tokens":
        each = _tokens_per_text(encoders.encoder, "query", queries, config)
        updates = min(updates, int(search.task.config.budget[0] / each / config.batch_size))
    if updates < FEWEST_UPDATES or most < FEWEST_PASSAGES:
        budget = number_of(*search.task.config.budget)
        return _nothing(
            notes,
            f"Nothing was trained: the text and a budget of {budget} give {updates} updates of "
            f"{config.batch_size} queries, compared with {len(set(passages)):,} passages. "
            f"Needed are {FEWEST_UPDATES} updates, and time for {FEWEST_PASSAGES:,} passages.",
        )
    search.progress.line(
        "train",
        f"queries alone: {updates:,} updates of {config.batch_size} queries, each compared with "
        f"{len(set(passages)):,} passages",
    )
    pairs = QueryPairs.encode(queries, passages, encoders.shared.base_cut.documents)
    encoder = base_encoder(config)
    drop_normalize(encoder)
    seconds = math.inf if until is None else until - time.monotonic()
    training = train_queries(
        encoder, pairs, config, updates, seconds, encoders.shared.fit_precision == "bf16"
    )
    done = 0
    with search.progress.bar("train", updates) as advance:
        try:
            for loss in training:
                done += 1
                advance(1, f"loss {loss:.3f}")
        except Diverged as error:
            note = f"The training diverged at update {error.step}, and gave no candidate."
            return _nothing(notes, note)
    if not done:
        return _nothing(notes, "Nothing was trained: the time was over when passages were encoded.")
    weights = {name: own.detach().cpu() for name, own in encoder.model.state_dict().items()}
    return {"weights": weights, "updates": done, "notes": notes}


def _nothing(notes: Sequence[str], reason: str) -> dict[str, Any]:
    return {"weights": None, "updates": 0, "notes": [*notes, reason]}


def _affordable(search: Search, examples: Examples, left: float) -> int:
    """Return the number of passages to encode in the seconds left, `MOST_PASSAGES` at most."""
    encoder, config = search.encoders.encoder, search.task.training
    sample = examples.related_texts(_SAMPLE)[1]
    each = _tokens_per_text(encoder, "document", sample, config)
    seconds = (
        SPARE * each * seconds_per_token(encoder, sample, search.encoders.shared.fit_precision)
    )
    return max(0, min(MOST_PASSAGES, int(_ENCODING * left / seconds)))


def _tokens_per_text(
    encoder: Encoder, side: Side, texts: Sequence[str], config: TrainConfig
) -> float:
    some = [texts[row] for row in evenly(len(texts), _SAMPLE)]
    return tokens_of(encoder, (side, some), max_length=config.max_length) / max(1, len(some))
