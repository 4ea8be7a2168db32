"""Transfer tasks with one classifier and one batch at a time, as in SentEval, and by isospace.

    OMP_NUM_THREADS=1 python benchmarks/transfer_loop.py SENTEVAL EMBEDDINGS [--every N]
        [--tasks T ...]

SENTEVAL is the folder with the tasks in SentEval's layout. EMBEDDINGS is an .npz file with `texts`
(lines) and their `vectors`; without the file, all-MiniLM-L6-v2 makes it. Both get the same vectors
in one run. The script prints the accuracies and the ratio of the times.

SentEval's loop needs an hour or more for the seven tasks. `--every N` trains every N-th of its
classifiers and scales the time; it gives no accuracies.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from isospace.evaluation.classifiers import BATCH, EPOCHS_PER_LOOK, TENACITY, Fold
from isospace.evaluation.pairs import Encode
from isospace.evaluation.senteval import TRANSFER_NAMES
from isospace.evaluation.transfer import TransferSet, evaluate_transfer, load_transfer


def train_one(x: Tensor, y: Tensor, fold: Fold, l2: float) -> torch.nn.Linear:
    """Train one classifier with SentEval's draws, torch's optimizer and early stopping."""
    random = np.random.RandomState(1111)
    torch.manual_seed(1111)
    model = torch.nn.Linear(x.shape[1], int(y.max()) + 1)
    # SentEval names the optimizer and no more: the learning rate is torch's.
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=l2)
    train, valid = fold.train, fold.valid
    if valid is None:
        order = random.permutation(len(train))
        cut = int(0.05 * len(train))
        train, valid = train[order[cut:]], train[order[:cut]]
    x_train, y_train, x_valid, y_valid = x[train], y[train], x[valid], y[valid]
    best, kept, misses, epochs = -1.0, {}, 0, 0
    while misses <= TENACITY and epochs <= 200:
        for _ in range(EPOCHS_PER_LOOK):
            order = torch.from_numpy(random.permutation(len(x_train)))
            for start in range(0, len(order), BATCH):
                batch = order[start : start + BATCH]
                loss = torch.nn.functional.cross_entropy(model(x_train[batch]), y_train[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        epochs += EPOCHS_PER_LOOK
        with torch.no_grad():
            accuracy = (model(x_valid).argmax(1) == y_valid).sum().item() / len(y_valid)
        if accuracy > best:
            best, kept = accuracy, {k: v.clone() for k, v in model.state_dict().items()}
        else:
            misses += 1
    model.load_state_dict(kept)
    return model


class Loop:
    """`train_stacked`, one classifier after the other.

    Only every n-th classifier is trained (`every`), and the weights of the others are zero.
    """

    def __init__(self, every: int = 1) -> None:
        self.every = every
        self.seconds = 0.0  # of all classifiers, those left out included

    def __call__(self, x: Tensor, y: Tensor, folds: Sequence[Fold], l2: np.ndarray) -> Tensor:
        """Weights `(fold, strength, class, dim + 1)`."""
        weights = torch.zeros(*l2.shape, int(y.max()) + 1, x.shape[1] + 1)
        places = list(np.ndindex(*l2.shape))
        chosen = places[:: self.every]
        started = time.perf_counter()
        for i, j in chosen:
            model = train_one(x, y, folds[i], float(l2[i, j]))
            weights[i, j, :, :-1] = model.weight.detach()
            weights[i, j, :, -1] = model.bias.detach()
        self.seconds += (time.perf_counter() - started) * len(places) / len(chosen)
        return weights


def compare(encode: Encode, task: TransferSet, every: int) -> tuple[float, float]:
    """Print one task's accuracies and ratio; the seconds of the loop and of isospace."""
    started = time.perf_counter()
    ours = evaluate_transfer(encode, {task.name: task}).scores[0]
    seconds = time.perf_counter() - started
    loop = Loop(every)
    theirs = evaluate_transfer(encode, {task.name: task}, loop).scores[0]
    accuracies = f"test {ours.test:5.2f} dev {ours.dev:5.2f}"
    if every == 1:
        accuracies += f", by the loop test {theirs.test:5.2f} dev {theirs.dev:5.2f}"
    ratio = loop.seconds / seconds
    print(f"{task.name:5} {accuracies}; the loop takes {ratio:.1f} times as long", flush=True)
    return loop.seconds, seconds


def main() -> None:
    """Compare task by task, then all together."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("senteval", type=Path)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--tasks", nargs="+", default=list(TRANSFER_NAMES), choices=TRANSFER_NAMES)
    options = parser.parse_args()
    every = load_transfer(options.senteval)
    tasks = {name: every[name] for name in options.tasks}
    if not options.embeddings.is_file():
        write_embeddings(options.embeddings, tasks)
    with np.load(options.embeddings) as file:
        vectors, texts = file["vectors"], str(file["texts"]).split("\n")
    row = {text: i for i, text in enumerate(texts)}

    def encode(texts: Sequence[str]) -> np.ndarray:
        return vectors[[row[text] for text in texts]]

    pairs = [compare(encode, task, options.every) for task in tasks.values()]
    loop, ours = map(sum, zip(*pairs, strict=True))
    print(f"all: the loop takes {loop / ours:.1f} times as long")


def write_embeddings(path: Path, tasks: Mapping[str, TransferSet]) -> None:
    """Embed every distinct sentence of the tasks with all-MiniLM-L6-v2."""
    from isospace.encoders.loading import load_encoder

    splits = [split for task in tasks.values() for split in task.splits.values()]
    texts = list(dict.fromkeys(t for split in splits for side in split.sides for t in side))
    with path.open("wb") as file:
        np.savez(file, texts="\n".join(texts), vectors=load_encoder("minilm").embed(texts))


if __name__ == "__main__":
    main()
