"""Fine-tune the base model for as long as the budget allows.

`fine_tune` trains one encoder for queries and documents. `fine_tune_queries` trains an encoder for
queries alone, while documents keep the base model's vectors. These never change, so they are
computed once, and each query is compared with the passages of all training pairs at once:

    L = -mean_i log( exp(cos(q_i, d_i) / t) / sum_j exp(cos(q_i, d_j) / t) )

The sum is over the distinct passages, at most `MOST_PASSAGES`, and t is the objective's temperature
(InfoNCE, van den Oord et al. 2018, with all passages as negatives). Measured in
docs/results/query-side.md.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from isospace.adaptation.cross_validation import FOLDS
from isospace.adaptation.fitting import drop_normalize, fit_precision
from isospace.adaptation.selection import FineTuned, Search
from isospace.adaptation.task import MOST_EPOCHS
from isospace.adaptation.time_plan import (
    EARLIEST,
    MOST_LATE,
    SPARE,
    TimePlan,
    evaluation_tokens,
    seconds_per_token,
    tokens_of,
)
from isospace.config import TrainConfig
from isospace.corpus.groups import evenly
from isospace.encoders.encoder import Encoder
from isospace.encoders.settings import Side
from isospace.errors import number_of
from isospace.objectives import SimCSE
from isospace.statistics.selection import added_by_selecting
from isospace.system.devices import peak_memory_mb
from isospace.training import checkpoint
from isospace.training.examples import Examples
from isospace.training.fit import Fit
from isospace.training.loop import FEWEST_UPDATES, evaluation_steps
from isospace.training.prepare import base_encoder
from isospace.training.results import BY_LAST, BY_PAIRS, Choice, TrainingFacts
from isospace.training.step import CLIP_NORM, Diverged
from isospace.views import View


def nothing_trained(search: Search, *notes: str) -> FineTuned:
    """Return the results of a search that fine-tunes nothing; `notes` say why."""
    rule = search.task.training.select
    choice = Choice(0, rule, BY_PAIRS, (), "nothing was fine-tuned")
    return FineTuned(facts_of(search, choice, 0), notes=notes)


def facts_of(search: Search, choice: Choice, steps: int) -> TrainingFacts:
    """Return the facts of a training without evaluations."""
    return TrainingFacts(
        choice,
        evaluations=(),
        steps=steps,
        longest=search.task.training.max_length,
        pooling=search.encoders.encoder.pooling,
        precision=fit_precision(search.task.training),
        seconds=search.seconds,
        memory_mb=peak_memory_mb(),
    )


def fine_tune(search: Search, until: float | None) -> FineTuned:
    """Train as long as the budget allows.

    The search must end at the time `until`. It is `None` for a budget in tokens, and for a resumed
    training, which keeps its planned length.
    """
    plan: TimePlan | None = None
    training = search.task.training

    def due(updates: int, last: int) -> list[int]:
        if plan is not None:
            return plan.due(updates, last)
        return evaluation_steps(updates, training.evaluations, EARLIEST, last)

    # A checkpoint below the base model is kept too: merged half-way, it may be better.
    fit = Fit(
        training,
        search.progress,
        search.stop,
        search.task.data,
        search.run,
        base_competes=False,
        due=due,
        vectors=search.encoders.folder,
    )
    search.encoders.put_behind(fit.encoder)
    if until is not None:
        plan = _time_plan(search, fit, until)
    timed = 0  # the update after which a token was last timed

    def planned() -> int:
        nonlocal plan, timed
        assert plan is not None
        token = plan.token
        if fit.evaluated != timed:
            timed, token = fit.evaluated, _seconds_per_token(search)
        evaluation = fit.evaluation_seconds or plan.evaluation
        plan = replace(plan, update=fit.loop.pace, evaluation=evaluation, token=token)
        updates = plan.updates(time.monotonic(), fit.loop.step, fit.evaluated)
        return max(updates, FEWEST_UPDATES)

    with fit.opened():
        updates, note = _updates(search, fit, plan)
        notes = [note] if note else []
        try:
            fit.train(updates, None if plan is None else planned)
        except Diverged as error:
            notes.append(
                f"The training diverged at update {error.step} ({error.term} "
                f"{error.value:g}), and stopped there."
            )
    if not updates:
        return FineTuned(fit.facts, notes=tuple(notes), plan=plan)
    choice, tried, weights = fit.choice, fit.evaluations.tried, None
    if choice.step:
        weights = search.encoders.read_trained(search.run.kept_weights)
    else:
        notes.append(f"The training gave no candidate: {choice.reason}.")
    if fit.loop.total_steps == most_updates(fit):
        notes.append(f"The training ended after {MOST_EPOCHS:g} passes over its examples.")
    return FineTuned(
        fit.facts,
        weights,
        tuple(notes),
        added_by_selecting(list(tried.values())) if tried and choice.step else 0.0,
        len(tried.keys() - {0, choice.step}) if tried else 0,
        plan,
    )


def most_updates(fit: Fit) -> int:
    """Return the largest number of updates of a training, whatever the budget."""
    return int(MOST_EPOCHS * fit.loop.updates_per_epoch)


def _seconds_per_token(search: Search) -> float:
    return seconds_per_token(search.encoders.encoder, search.task.validation.second, "float32")


def _time_plan(search: Search, fit: Fit, until: float) -> TimePlan:
    task, encoder, passes = search.task, search.encoders.encoder, search.passes
    token = evaluating = _seconds_per_token(search)
    if fit.accelerator.mixed_precision == "bf16":
        evaluating = seconds_per_token(encoder, task.validation.second, "bf16")
    # Maps are fitted in another precision. Count the float32 tokens that take the same time.
    fitting = evaluating if fit_precision(search.task.training) == "bf16" else token
    held_out = evaluation_tokens(encoder, task.data.held_out, task.training.max_length)
    plan = TimePlan(
        until=until,
        update=fit.loop.seconds_per_step(),
        evaluation=held_out * evaluating,
        validating=passes.validating - round(passes.mapped * (1 - fitting / token)),
        testing=passes.testing,
        token=token,
        trainings=1 if task.folds is None else 1 + FOLDS,  # each part has its own training
        evaluations=fit.training.config.evaluations,
        most=most_updates(fit),
    )
    if task.folds is not None or plan.updates(time.monotonic()) >= FEWEST_UPDATES:
        return plan  # a cross-validated folder always tries all its shares
    # On a slow machine, training without a merge gains more than no training.
    return replace(plan, tried=1)


def _updates(search: Search, fit: Fit, plan: TimePlan | None) -> tuple[int, str]:
    """Return the planned number of updates, and a note if there are none."""
    loop, most = fit.loop, most_updates(fit)
    amount, unit = search.task.config.budget
    if most < FEWEST_UPDATES:
        return 0, (
            f"Nothing was trained: {len(fit.training.batches.examples):,} examples are too few for "
            f"{FEWEST_UPDATES} updates of {loop.sentences_per_step} in {MOST_EPOCHS:g} passes."
        )
    enough = 0
    if fit.begun is not None:
        updates = fit.begun
    elif plan is not None:
        now = time.monotonic()
        updates = plan.updates(now)
        late = now + SPARE * plan.takes(FEWEST_UPDATES) - plan.until
        enough = math.ceil(amount + late / 60)
        if late <= MOST_LATE * 60 * amount:
            updates = max(updates, FEWEST_UPDATES)
    else:
        updates = min(int(amount / loop.tokens_per_step), most)
        enough = math.ceil(FEWEST_UPDATES * loop.tokens_per_step)
    if updates >= FEWEST_UPDATES:
        return updates, ""
    return 0, (
        f"Nothing was trained: a budget of {number_of(amount, unit)} is too little for "
        f"{FEWEST_UPDATES} updates of {loop.tokens_per_step:,.0f} tokens"
        f"{' and the measuring' if unit == 'minutes' else ''}."
        f"{f' Give about {number_of(enough, unit)}.' if enough else ''}"
    )


MOST_PASSAGES, FEWEST_PASSAGES = 12_000, 1_000
"""Largest and smallest number of pairs whose passages a query is compared with."""
QUERY_WEIGHTS = "checkpoints/queries.pt"
"""File in the run's folder with the final weights."""
_WARM_UP = 0.1
"""Share of the updates in which the learning rate rises."""
_ENCODING = 0.4
"""Largest share of the time left that encoding the passages may take."""
_SAMPLE = 256  # texts whose tokens are counted
_NO_DROPOUT = View(dropout=0.0)  # targets are fixed, so noise of the queries would add nothing


@dataclass(frozen=True)
class QueryPairs:
    """Training pairs whose distinct passages have fixed vectors of length 1, (m, dim).

    `rows` (n,) has the row of the passage of each query.
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
        """Encode the distinct passages of pairs.

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
    reaches with the last update or when `seconds` are over, whichever is first. A loss that is not
    finite raises `Diverged`.
    """
    assert isinstance(config.objective, SimCSE)
    temperature, device = config.objective.temperature, encoder.device
    targets, rows = pairs.passages.to(device), pairs.rows.to(device)
    ids = encoder.tokens.ids(pairs.queries, config.max_length, side="query")
    parameters = [one for one in encoder.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(
        parameters, config.learning_rate, weight_decay=config.weight_decay
    )
    batches, started = _random_batches(len(ids), config.batch_size, config.seed), time.monotonic()
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
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
        optimizer.step()
        yield float(loss.detach())


def _random_batches(count: int, size: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield full batches of rows, in a new random order in each pass."""
    random, size = np.random.default_rng(seed), min(size, count)
    while True:
        order = random.permutation(count)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]


def fine_tune_queries(search: Search, until: float | None) -> FineTuned:
    """Fine-tune the encoder of queries until the time `until`; a resumed search reads its weights.

    A stopped training begins anew: one pass over the queries takes minutes, whatever the budget.
    """
    file, config = search.run.folder / QUERY_WEIGHTS, search.task.training
    if not file.is_file():
        checkpoint.save(file, _trained_state(search, until))
    state = checkpoint.load(file)
    updates = state["updates"]
    choice = Choice(updates, config.select, BY_LAST, (), "the last update")
    facts = facts_of(search, choice, updates)
    return FineTuned(facts, state["weights"], tuple(state["notes"]))


def _trained_state(search: Search, until: float | None) -> dict[str, Any]:
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
        return _no_weights(
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
        encoder, pairs, config, updates, seconds, fit_precision(config) == "bf16"
    )
    done = 0
    with search.progress.bar("train", updates) as advance:
        try:
            for loss in training:
                done += 1
                advance(1, f"loss {loss:.3f}")
        except Diverged as error:
            note = f"The training diverged at update {error.step}, and gave no candidate."
            return _no_weights(notes, note)
    if not done:
        return _no_weights(
            notes, "Nothing was trained: the time was over when passages were encoded."
        )
    weights = {name: own.detach().cpu() for name, own in encoder.model.state_dict().items()}
    return {"weights": weights, "updates": done, "notes": notes}


def _no_weights(notes: Sequence[str], reason: str) -> dict[str, Any]:
    return {"weights": None, "updates": 0, "notes": [*notes, reason]}


def _affordable(search: Search, examples: Examples, left: float) -> int:
    """Return the number of passages to encode in the seconds left, `MOST_PASSAGES` at most."""
    encoder, config = search.encoders.encoder, search.task.training
    sample = examples.related_texts(_SAMPLE)[1]
    each = _tokens_per_text(encoder, "document", sample, config)
    seconds = SPARE * each * seconds_per_token(encoder, sample, fit_precision(search.task.training))
    return max(0, min(MOST_PASSAGES, int(_ENCODING * left / seconds)))


def _tokens_per_text(
    encoder: Encoder, side: Side, texts: Sequence[str], config: TrainConfig
) -> float:
    some = [texts[row] for row in evenly(len(texts), _SAMPLE)]
    return tokens_of(encoder, (side, some), max_length=config.max_length) / max(1, len(some))
